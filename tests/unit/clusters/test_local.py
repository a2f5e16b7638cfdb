"""Clusters of this machine: one node as it is, or a lab that divides its cores."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.clusters import CLUSTERS, Needs, lab_cores
from tare.clusters.lab_cores import divide_cores
from tare.clusters.local import LocalCluster
from tare.errors import RefusedError
from tare.model import Environment, LabSpec, Placement
from tare.model.placement import place
from tare.model.study import Link
from tare.study import parse
from tare.system import process
from tare.system.node import marked_processes
from tare.system.node.owners import boot_id
from waiting import wait_until

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


def test_what_another_tare_started_under_the_same_name_is_not_ended(folder: Path) -> None:
    """Two containers number their processes alike, and runs are named after those numbers."""
    with subprocess.Popen(("cat",), stdin=subprocess.PIPE, env={**os.environ, marked_processes.RUN: "s1"}) as other:
        with LOCAL.open("s1", LabSpec(nodes=1), Needs(nics=1)) as site, process.beside(("sleep", "60")) as own:
            wait_until(lambda: site.pids() == {own.pid})  # it has no variables in the middle of exec
        assert other.poll() is None
        other.communicate(b"")


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


def test_on_one_node_bare_takes_the_first_cores_and_a_daemon_only_if_asked() -> None:
    assert LOCAL.refuse(LabSpec(), BARE, Placement(nodes=1)) is None
    assert CLUSTERS["local"].location == "On this machine"
    assert not CLUSTERS["local"].needs_root
    assert LOCAL.topology(LabSpec(nodes=1, cores_per_node=1)).nodes[0].cores == (min(os.sched_getaffinity(0)),)
    with LOCAL.open("s2", LabSpec(nodes=1), Needs(docker=True)) as site:
        assert [node.docker_socket for node in site.daemon_nodes] == ["/var/run/docker.sock"]


@given(st.integers(1, 64), st.integers(1, 32))
def test_cores_are_dealt_evenly_and_none_twice_where_there_are_enough(available: int, nodes: int) -> None:
    chosen, shared = divide_cores(range(available), LabSpec(nodes=nodes))
    assert (len(chosen), {len(cores) for cores in chosen}) == (nodes, {max(1, available // nodes)})
    dealt = [core for cores in chosen for core in cores]
    assert (len(set(dealt)) == len(dealt)) is (not shared)
    assert shared is (nodes > available)


@given(st.integers(1, 16), st.integers(1, 16), st.data())
def test_a_node_has_each_of_its_cores_once_and_all_are_the_machines(each: int, nodes: int, data: st.DataObject) -> None:
    available = data.draw(st.lists(st.integers(0, 255), min_size=each, max_size=64, unique=True))
    chosen, shared = divide_cores(available, LabSpec(nodes=nodes, cores_per_node=each))
    for cores in chosen:
        assert len(set(cores)) == len(cores) == each
        assert set(cores) <= set(available)
    assert shared is (each * nodes > len(available))


def test_nodes_that_share_cores_begin_at_others_and_none_has_more_than_the_machine() -> None:
    chosen, shared = divide_cores((0, 1), LabSpec(nodes=2, cores_per_node=2))
    assert (chosen, shared) == (((0, 1), (1, 0)), True)
    chosen, _ = divide_cores((4, 5, 6, 7), LabSpec(nodes=2, cores_per_node=3))
    assert [cores[0] for cores in chosen] == [4, 6]
    with pytest.raises(RefusedError, match="nodes of 3 cores are not possible: this machine has 2"):
        divide_cores((0, 1), LabSpec(nodes=1, cores_per_node=3))


@pytest.mark.parametrize(
    ("machine", "cells"),
    [
        (2, {"2x1": [(0,), (1,)], "1x2": [(0, 1)]}),
        (4, {"4x1": [(0,), (1,), (2,), (3,)], "2x2": [(0, 1), (2, 3)], "1x4": [(0, 1, 2, 3)]}),
        (4, {"3x1": [(0,), (1,), (2,)], "2x2": [(0, 1), (2, 3)], "1x5": []}),
    ],
)
def test_a_lab_divides_all_cores_among_the_nodes_of_each_placement(
    machine: int, cells: dict[str, list[tuple[int, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_cores.os, "sched_getaffinity", lambda _: set(range(machine)))
    monkeypatch.setattr(lab_cores, "read_topology", lambda _: ())
    stated = parse(f"placements: [{', '.join(cells)}]\nenvironments: [bare]\nworkloads: {{a: {{command: [x]}}}}\n")
    for placement, nodes in zip(stated.placements, cells.values(), strict=True):
        topology = CLUSTERS["lab"].topology_of(stated.lab, placement.nodes)
        if not nodes:
            with pytest.raises(RefusedError, match="5 ranks need 5 cores on node n0, which has 4"):
                place(placement, topology)
            continue
        assert [node.cores for node in topology.nodes] == nodes
        used = [core for slot in place(placement, topology) for core in slot.cores]
        assert len(set(used)) == len(used)
