"""On hosts where tare runs Docker, frames on bridges bypass the packet filter, which Docker enables."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tare.cluster.remote_site import RemoteSite
from tare.node import bridges
from tare.remote.conversation import Unreachable
from tare.remote.serve import OWN
from tare.remote.served import Service


def test_a_service_turns_the_packet_filter_of_bridges_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in bridges.NAMES:
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(bridges.write, "__defaults__", (tmp_path,))
    with ExitStack() as stack:
        Service(stack).settle()
    assert bridges.read(tmp_path) == dict.fromkeys(bridges.NAMES, "0")


def test_hosts_with_daemons_are_asked_and_one_that_is_gone_is_passed_over() -> None:
    asked: list[str] = []

    class Gone:
        def ask(self, name: str) -> None:
            raise Unreachable(f"node is gone: {name}")

    nodes = tuple(SimpleNamespace(name=name) for name in ("n0", "d0", "d1"))
    site: Any = SimpleNamespace(
        daemon_nodes=nodes[1:],
        numbers={"n0": 0, "d0": 1, "d1": 2},
        connections=SimpleNamespace(conversations={1: Gone(), 2: SimpleNamespace(ask=asked.append)}),
    )
    RemoteSite.settle(cast("RemoteSite", site))
    assert asked == ["settle"]
    assert set(asked) <= set(OWN)
