"""Programs on a lab's nodes find tare's own files, wherever the cache and the checkout are.

A node has an empty /tmp, /run and /dev/shm of its own: what is below these folders would be hidden.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import tare
from tare.cluster import lab
from tare.errors import InfrastructureError
from tare.host import namespaces
from tare.host.process import run
from tare.model import LabSpec
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
