"""Programs on a lab's nodes find tare's own files, wherever the cache and the checkout are.

A lab makes its links in namespaces of its own: the machine's network is as it was while the lab is up.

A node has an empty /tmp, /run and /dev/shm of its own: what is below these folders would be hidden.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tare
from tare.clusters import lab
from tare.errors import InfrastructureError
from tare.model import LabSpec
from tare.system import namespaces
from tare.system.process import run
from unit.images.writing import root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "deep/cache"))
    return tmp_path / "deep/cache"


@root
@pytest.mark.parametrize("twins", [False, True])
def test_every_node_of_every_lab_shows_the_cache_the_sources_and_the_interpreter(
    twins: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def noted(specs: list[tuple[str, dict[str, Any]]]) -> list[object]:
        asked.extend(spec for _, spec in specs if "mnt" in spec["new"])
        return [InfrastructureError("enough")]

    monkeypatch.setattr(lab, "hold_all", noted)
    with pytest.raises(InfrastructureError, match="enough"):
        lab.up("tare-places", LabSpec(nodes=2), keep=("/srv/mine",), twins=twins)
    assert len(asked) == (4 if twins else 2)
    for spec in asked:
        wanted = {str(cache), str(Path(tare.__file__).resolve().parent), sys.prefix, sys.base_prefix, "/srv/mine"}
        assert wanted <= set(spec["keep"])
    assert cache.is_dir(), "what does not exist when a node is made cannot be shown"


@root
@pytest.mark.parametrize("hidden", lab.OWN_FOLDERS)
def test_a_file_that_is_written_later_is_found_on_a_node(
    hidden: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    place = Path(hidden) / f"tare-test-{os.getpid()}"
    request.addfinalizer(lambda: run(("rm", "-r", str(place))))
    monkeypatch.setenv("TARE_CACHE", str(place / "cache"))
    keep = list(lab.own_places())
    pid = namespaces.hold("tare:test-places:n0", {"new": ["mnt"], "tmpfs": list(lab.OWN_FOLDERS), "keep": keep})
    try:
        (place / "cache/pause.tar").write_text("later")
        on_node = Path(f"/proc/{pid}/root")
        assert (on_node / str(place).lstrip("/") / "cache/pause.tar").read_text() == "later"
        shown = {Path(each).relative_to(hidden).parts[0] for each in keep if Path(each).is_relative_to(hidden)}
        assert place.name in shown
        assert {each.name for each in (on_node / hidden.lstrip("/")).iterdir()} == shown, "the rest is hidden"
    finally:
        os.kill(pid, signal.SIGKILL)


PROGRAM = """
import subprocess
import sys
from pathlib import Path
from tare.clusters import lab
from tare.model import LabSpec

LOOKS = ("ip -o -d link", "ip -o addr", "ip rule", "ip route show table all", "tc qdisc", "bridge fdb")

def network():
    settings = {str(file): file.read_text() for file in Path("/proc/sys/net").glob("ipv[46]/conf/*/*forwarding")}
    said = [subprocess.run(look.split(), capture_output=True, text=True, check=True).stdout for look in LOOKS]
    return settings, Path("/proc/sys/net/ipv4/ip_forward").read_text(), said

before = network()
made = lab.up(sys.argv[1], LabSpec(nodes=2, subnets=2, segmented=True), nics=2)
try:
    assert made.nodes[1].nics and network() == before, network()
finally:
    lab.down(made)
assert network() == before, network()
"""
"""What runs in a network namespace that stands for the machine's, so that other tests change nothing in it."""


@root
def test_the_machine_s_network_is_as_it_was_while_a_lab_is_up() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = ("unshare", "--net", sys.executable, "-c", PROGRAM, f"utest{os.getpid()}")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
