"""A study runs the same with the service of every node in a process of its own: nothing but values reaches the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.far_node import FarNode
from integration.live import live, write_study
from tare import study
from tare.cli import commands
from tare.clusters.lab_site import LabSite
from tare.errors import InfrastructureError
from tare.model import Completed, Failed
from tare.store.writer import read_only
from tare.system.node import Node

pytestmark = live("docker", "podman", "flannel", "bird")
# One network of each kind: made by a daemon, with a store on the first node, joined at the end, with routes of its own.
ENVIRONMENTS = ("bare", "docker+overlay", "podman+flannel", "bare+calico-ipip", "{bare+macvlan: {launch: ssh}}")


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, FarNode]]:
    """Put the service of every node into a process of its own, and return them by node."""
    nodes: dict[str, FarNode] = {}
    local = LabSite.service

    def service(self: LabSite, node: Node) -> FarNode:
        if node.name not in nodes:
            nodes[node.name] = FarNode(local(self, node))
        return nodes[node.name]

    monkeypatch.setattr(LabSite, "service", service)
    yield nodes
    for node in nodes.values():
        node.close()


def test_the_head_needs_nothing_of_a_node_but_values_and_its_errors_arrive_with_their_sentence(
    far: dict[str, FarNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise InfrastructureError("the NIC is gone", remedy="plug it in")

    monkeypatch.setattr("tare.networks.direct.without_address", gone)
    commands.run_plan(study.load(write_study(tmp_path, "far", (*ENVIRONMENTS, "bare+direct"))), tmp_path / "r")
    *trials, failed = sorted(read_only(tmp_path / "r").trials, key=lambda trial: "direct" in trial.key.cell)
    assert isinstance(failed.outcome, Failed)
    assert failed.outcome.reason == "its pods could not be made: nodes n0, n1: the NIC is gone"
    assert len(trials) == len(ENVIRONMENTS)
    assert [trial.outcome for trial in trials if not isinstance(trial.outcome, Completed)] == []
    assert {name: bool(node.calls) for name, node in far.items()} == dict.fromkeys(("n0", "n1", "d0", "d1"), True)
    assert all(trial.traffic and trial.ranks for trial in trials)
