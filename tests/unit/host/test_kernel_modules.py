"""What a kernel can do is tried or looked up, and never taken for granted."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tare.host import kernel_modules


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / platform.release()
    folder.mkdir()
    (folder / "modules.builtin").write_text("kernel/net/bridge/bridge.ko\n")
    (folder / "modules.dep").write_text(
        "kernel/drivers/net/ipvlan/ipvlan.ko.xz: kernel/x.ko\n"
        "kernel/net/ip-tables/nf-x.ko:\nkernel/net/last.ko: kernel/dep.ko\n"
    )
    return tmp_path


def test_a_module_is_there_if_it_is_loaded_built_in_or_installed(modules: Path, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    (loaded / "veth").mkdir(parents=True)
    for name, there in [
        ("veth", True),
        ("bridge", True),
        ("ipvlan", True),
        ("nf_x", True),
        ("dep", False),
        ("v", False),
    ]:
        assert kernel_modules.has_module(name, loaded=loaded, modules=modules) is there, name
    assert not kernel_modules.has_module("bridge", loaded=loaded, modules=tmp_path / "none")


def test_a_kind_of_link_that_cannot_be_made_is_told_with_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_modules, "_tried", lambda kind: kind == "veth")
    assert kernel_modules.probe_link("veth") is None
    told = str(kernel_modules.probe_link("ipvlan"))
    assert platform.release() in told
    assert "ipvlan" in told
    monkeypatch.setattr(kernel_modules, "_tried", lambda kind: None)
    monkeypatch.setattr(kernel_modules, "has_module", lambda name: name == "macvlan")
    assert kernel_modules.probe_link("macvlan") is None
    assert kernel_modules.probe_link("ipvlan") is not None


@pytest.mark.root
@pytest.mark.requires("root")
def test_trying_makes_links_where_there_are_and_leaves_none() -> None:
    before = Path("/proc/self/net/dev").read_text().splitlines()
    assert kernel_modules._tried("macvlan") is True
    assert kernel_modules._tried("nosuchkind") is False
    names = [line.partition(":")[0] for line in Path("/proc/self/net/dev").read_text().splitlines()]
    assert names == [line.partition(":")[0] for line in before]
