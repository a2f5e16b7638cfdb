"""Cluster `local`: one node that is this machine as it is, what it refuses, and that nothing is left."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tare.cluster import CLUSTERS, Needs
from tare.cluster.local import LocalCluster
from tare.model import Environment, LabSpec, Placement
from tare.model.study import Link
from tare.node.owners import boot_id

LOCAL = LocalCluster()
BARE = Environment(name="bare", runtime="bare", network="host")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_RUN_FOLDER", str(tmp_path / "run"))
    return tmp_path / "run"


def test_the_node_is_the_machine_itself_with_the_cores_that_we_may_use(folder: Path) -> None:
    with LOCAL.open("s1", LabSpec(nodes=1), Needs(nics=2)) as site:
        (node,) = site.nodes
        assert node.is_machine
        assert node.cores == tuple(sorted(os.sched_getaffinity(0)))
        assert (node.boot_id, node.nics[1].cidr, node.group.hierarchies) == (boot_id(), "127.0.0.1/8", ())
        assert (site.head, site.control_subnet, site.daemon_nodes) == ((), "127.0.0.0/8", ())
        assert site.service(node) is site.service(node)
        assert json.loads((site.folder / "owner.json").read_text())["pid"] == os.getpid()
        listener = site.listen()
        assert listener is not None
        with listener:
            assert listener.getsockname()[0] == "127.0.0.1"
            first, last = node.head_ports or (0, 0)
            assert first < listener.getsockname()[1] <= last
    assert list(folder.iterdir()) == []


def test_it_takes_the_first_cores_and_a_daemon_only_where_that_is_asked_for() -> None:
    assert LOCAL.topology(LabSpec(nodes=1, cores_per_node=1)).nodes[0].cores == (min(os.sched_getaffinity(0)),)
    with LOCAL.open("s2", LabSpec(nodes=1), Needs(docker=True)) as site:
        assert [node.docker_socket for node in site.daemon_nodes] == ["/var/run/docker.sock"]


@pytest.mark.parametrize(
    ("spec", "environment", "placement", "reason"),
    [
        (LabSpec(), BARE, Placement(nodes=2), "one node"),
        (LabSpec(link_rate_bps=10**9), BARE, Placement(nodes=1), "link_rate"),
        (LabSpec(), replace(BARE, link=Link(mtu=9000)), Placement(nodes=1), "link"),
        (LabSpec(), replace(BARE, network="bridge"), Placement(nodes=1), "NIC of its own"),
        (LabSpec(), replace(BARE, daemon="docker"), Placement(nodes=1), "docker"),
    ],
)  # fmt: skip
def test_what_would_change_the_machine_or_needs_more_nodes_is_refused(
    spec: LabSpec, environment: Environment, placement: Placement, reason: str
) -> None:
    assert reason in str(LOCAL.refuse(spec, environment, placement))


def test_bare_on_one_node_is_not_refused() -> None:
    assert LOCAL.refuse(LabSpec(), BARE, Placement(nodes=1)) is None
    assert CLUSTERS["local"].location == "On this machine"
    assert not CLUSTERS["local"].needs_root
