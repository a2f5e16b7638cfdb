"""A container on Docker's overlay with a store is announced once more where the other daemons missed it."""

from __future__ import annotations

from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.errors import InfrastructureError
from tare.networks import overlay_etcd
from tare.networks.overlay_etcd import _announce
from tare.node import Node

POD = make_pod(make_node(0, pid=7), name="tare-s7-2-d0", pid=70, container="tare-s7-2-d0")
AGAIN = [
    ("network", "disconnect", "tare-s7-2", "tare-s7-2-d0"),
    ("network", "connect", "--ip", "10.215.2.100", "tare-s7-2", "tare-s7-2-d0"),
]


def announced(monkeypatch: pytest.MonkeyPatch, *, heard_after: int) -> list[tuple[str, ...]]:
    """Announce a container whose peers answer once Docker was asked for so much; return what Docker was asked for."""
    asked: list[tuple[str, ...]] = []

    def run_docker(node: Node, *arguments: str, **_: Any) -> None:
        assert node == POD.node
        asked.append(arguments)

    monkeypatch.setattr(overlay_etcd, "run_docker", run_docker)
    monkeypatch.setattr(overlay_etcd, "answers", lambda pid, address: pid == POD.pid and len(asked) >= heard_after)
    monkeypatch.setattr(overlay_etcd, "interface_in", lambda pid, subnet: ("eth0", subnet.replace("0/24", "100")))
    monkeypatch.setattr(overlay_etcd, "FIRST_S", 0.05)
    monkeypatch.setattr(overlay_etcd, "REACHED_S", 0.05)
    _announce(POD, "tare-s7-2", ("10.215.2.101", "10.215.2.102"))
    return asked


def test_a_container_is_connected_again_until_it_reaches_the_others_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert announced(monkeypatch, heard_after=0) == []
    assert announced(monkeypatch, heard_after=2) == AGAIN
    with pytest.raises(InfrastructureError, match=r"tare-s7-2-d0 does not reach 10\.215\.2\.101 and 10\.215\.2\.102"):
        announced(monkeypatch, heard_after=3)
