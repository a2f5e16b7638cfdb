"""Fixtures of the runner's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tare.cli import commands
from unit.runs import Ran, known_study


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep leftovers of other runs on this machine out of the way: here nothing of ours is to be found or removed."""
    monkeypatch.setattr("tare.node_service.clean.hierarchies", lambda: ())
    monkeypatch.setattr("tare.node_service.clean.run_folder", lambda: tmp_path / "run")
    monkeypatch.setattr("tare.node_service.clean._holder_of", lambda entry: None)
    monkeypatch.delenv("TARE_FAKE_FAULT", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Run the study once for all tests that only look at its results."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tare.node_service.clean.hierarchies", lambda: ())
        patch.setattr("tare.node_service.clean.run_folder", lambda: folder.parent / "run")
        patch.setattr("tare.node_service.clean._holder_of", lambda entry: None)
        patch.setenv("COLUMNS", "100")
        with printed() as said:
            code = commands.run_plan(known_study(), folder)
        yield Ran(folder=folder, code=code, said=said())


@contextmanager
def printed() -> Iterator[Callable[[], str]]:
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        yield text.getvalue
