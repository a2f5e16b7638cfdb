"""A folder of states that is empty, with which nothing of this machine is to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tare.agent import clean
from tare.system import paths


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of states; no cgroup and no process of this machine is found as ours."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv(paths.RUN_FOLDER, str(folder))
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(clean, "hierarchies", lambda: ())
    monkeypatch.setattr(clean, "_holder_of", lambda entry: None)
    monkeypatch.setattr(clean.marked_processes, "pids_of_run", lambda name, folder: set())
    paths._identity.cache_clear()
    yield folder
    paths._identity.cache_clear()
