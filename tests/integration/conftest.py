"""What every live test has around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import live


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """End what a test that failed did not wait for: it would run into the next ones."""
    before = len(live.STARTED)
    yield
    for process in live.STARTED[before:]:
        live.put_an_end_to(process)
    del live.STARTED[before:]
