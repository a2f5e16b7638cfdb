"""What every live test has around it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import live
from tare.system.paths import RUN_FOLDER


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """End what a test that failed did not wait for: it would run into the next ones."""
    before = len(live.STARTED)
    yield
    for process in live.STARTED[before:]:
        live.put_an_end_to(process)
    del live.STARTED[before:]


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the test's commands a folder of state of their own: what is dead in it, no other tare removes."""
    with tempfile.TemporaryDirectory(prefix="tare-state-", dir="/run") as folder:
        Path(folder).chmod(0o711)
        monkeypatch.setenv(RUN_FOLDER, folder)
        yield Path(folder)
