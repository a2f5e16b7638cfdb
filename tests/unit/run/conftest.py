"""Runs of this folder look only at what they make themselves."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tare.cli import commands
from unit.runs import Ran, known_study


def keep_apart(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep leftovers of other runs on this machine out of the way: here nothing of ours is to be found or removed."""
    patch.setattr("tare.agent.clean.hierarchies", lambda: ())
    patch.setattr("tare.agent.clean.run_folder", lambda: folder / "run")
    patch.setattr("tare.agent.clean._holder_of", lambda entry: None)
    patch.delenv("TARE_FAKE_FAULT", raising=False)
    patch.setenv("COLUMNS", "100")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_apart(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the study once for all tests that only look at its results."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        keep_apart(patch, folder)
        code = commands.run_plan(known_study(), folder / "results")
    return Ran(folder=folder / "results", code=code, said=said.getvalue())
