"""Before the first trial the data interfaces are running, or the limit has passed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tare.wiring import plug


class FakeRoute:
    """Interface 7, which is running from the third look on, or never."""

    def __init__(self, *, ever: bool) -> None:
        self.ever = ever
        self.looks = 0

    def link_lookup(self, **_: Any) -> list[int]:
        return [7]

    def get_links(self, index: int) -> list[dict[str, int]]:
        self.looks += 1
        return [{"flags": plug.IFF_RUNNING if self.ever and self.looks > 2 else 0}]


@pytest.mark.parametrize("ever", [True, False])
def test_an_interface_is_waited_for_until_it_runs_or_the_limit_passes(
    ever: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = FakeRoute(ever=ever)

    @contextmanager
    def netlink(_: int) -> Iterator[FakeRoute]:
        yield route

    monkeypatch.setattr(plug, "netlink", netlink)
    plug.wait_until_running(77, "eth0", limit_s=0.1)
    assert (route.looks == 3) == ever
