"""What every hostile play has around it, and how often each is played: `TARE_HOSTILE_PLAYS` times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.conftest import _nothing_goes_on, own_state

__all__ = ["_nothing_goes_on", "own_state"]


@pytest.fixture(autouse=True, params=range(int(os.environ.get("TARE_HOSTILE_PLAYS") or "1")), ids="play-{}".format)
def _play(request: pytest.FixtureRequest) -> None:
    """Play it again."""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder that no play may reach, with a file that root alone may read and write."""
    made = tmp_path / "victim"
    made.mkdir()
    (made / "secret").write_text("what root alone may see\n")
    (made / "secret").chmod(0o600)
    return made
