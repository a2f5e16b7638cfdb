"""Environments are composed of parts that know nothing of each other, put up on each node and taken down in reverse.

It is one file because all sections use the plug-ins that record their calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node
from tare import networks
from tare.agent import geometry, local, pod_cgroups, pods
from tare.agent.geometry import nic_of_pod
from tare.agent.local import LocalNode
from tare.agent.probe import probe
from tare.errors import InfrastructureError, RefusedError
from tare.model import Environment, Launching, Placement, RankOrder, Share, Sides
from tare.networks import Wiring
from tare.run.deploy.hosts import Deployed, host_of
from tare.run.deploy.pods import deployed
from tare.runtimes import PodRequest
from tare.runtimes.containers.deployment import IMAGE_PREFIX, Files
from tare.study.plan import composition
from tare.system.binds import format_bind
from tare.system.node import Client, Container, Endpoint, Nic, Node, Pod, Wired
from tare.system.node.cgroups import Group, Hierarchy
from tare.system.node.limits import Limits

FILES = Files(host_prefix=Path("/cache/kernels"), rootfs=Path("/cache/rootfs"), image_tag="tare:1", shown=("/home/u",))


def node(index: int, kind: str = "n") -> Node:
    nics = tuple(Nic(name=f"data{k}", address=f"10.214.{k}.{index + 1}", prefix=24) for k in range(3))
    return make_node(index, name=f"{kind}{index}", nics=nics, pid=0)


class Journal:
    """Notes what is put up and taken down, from all threads, and fails where a test asks for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fail_at = ""
        self.requests: dict[str, PodRequest] = {}
        self.inner: PodRequest | None = None
        self._lock = threading.Lock()

    def note(self, line: str) -> None:
        with self._lock:
            self.lines.append(line)
        if line == self.fail_at:
            raise InfrastructureError(f"{line} failed")

    @contextmanager
    def kept(self, what: str) -> Iterator[None]:
        self.note(f"+{what}")
        try:
            yield
        finally:
            self.note(f"-{what}")

    def of(self, name: str) -> list[str]:
        return [line for line in self.lines if line.endswith(name)]


@dataclass
class Recorded:
    """A runtime, a network and a site in one, which only note what they are asked for."""

    journal: Journal
    name: str = "lab"
    nodes: tuple[Node, ...] = (node(0), node(1))
    daemon_nodes: tuple[Node, ...] = (node(0, "d"), node(1, "d"))
    needs_daemon: bool = False
    makes_containers: bool = True
    by_cluster: bool = False
    pods_are_hosts: bool = True
    pods_share_nic: bool = True
    folder: Path = Path("/run/tare/lab")
    wiring: Wiring = Wiring.OWN
    nics: list[str] = field(default_factory=list)
    services: dict[str, LocalNode] = field(default_factory=dict)

    def rights(self, pod: Pod) -> str:
        return "root"

    @contextmanager
    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> Iterator[None]:
        with self.journal.kept(f"prepare {study} {node.name}"):
            yield

    @contextmanager
    def share(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        with self.journal.kept(f"share {study} {nodes[0].name}"):
            yield

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        with self.journal.kept(f"join {node.name}"):
            yield tuple(each.endpoint for each in pods if each.pod.node.name == node.name)

    def service(self, node: Node) -> LocalNode:
        return self.services.setdefault(node.name, LocalNode(node, self.folder, self.connect))

    def launching(self, study: str, pods: Sequence[Pod]) -> AbstractContextManager[None]:
        return nullcontext()

    def client(self, request: PodRequest) -> Client:
        return Client()

    def name_in_docker(self, study: str) -> str:
        return ""

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", f"{study}-{node.name}")

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        self.nics.append(f"{pod.node.name} {nic.name}")
        with self.journal.kept(f"attach {pod.node.name}"):
            yield Endpoint(address=nic.address, prefix=nic.prefix, interface="eth0", mtu=1500)

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        with self.journal.kept(f"on_node {node.name}"):
            yield

    @contextmanager
    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Container, ...]]:
        with self.journal.kept(f"containers {pod.node.name}"):
            self.journal.inner = request
            yield tuple(
                Container(name=f"c{i}", enter=("enter", f"c{i}", *map(str, own)), carry=True)
                for i, own in enumerate(cores)
            )

    @contextmanager
    def connect(self, pod: Pod, slot: int) -> Iterator[str]:
        with self.journal.kept(f"connect {pod.node.name}"):
            yield "10.213.9.1"

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        self.journal.requests[request.node.name] = request
        with self.journal.kept(f"pod {request.node.name}"):
            yield Pod(
                name=request.name,
                node=request.node,
                runtime="recorded",
                pid=1,
                enter=("enter", request.node.name),
                group=request.node.group,
            )


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    made = Recorded(Journal())
    for module in (pods, geometry, pod_cgroups, composition):
        monkeypatch.setattr(module, "RUNTIMES", dict.fromkeys(("bare", "docker", "recorded"), made))
    monkeypatch.setattr(networks, "NETWORKS", dict.fromkeys(("host", "bridge", "overlay"), made))
    monkeypatch.setattr(
        pods, "session_folder", lambda folder, slot, _, host: nullcontext(f"{folder}/session-{slot}-{host}")
    )
    return made


TWO_NODES = Placement()
DOCKER = Environment(name="e", runtime="docker", network="bridge", image="debian-openmpi")


def going_up(
    parts: Recorded, wanted: Environment = DOCKER, placement: Placement = TWO_NODES, nic: int = 1
) -> AbstractContextManager[Deployed]:
    return deployed(parts, wanted, placement, slot=3, nic=nic, files=FILES)  # type: ignore[arg-type]


def put_up(parts: Recorded, wanted: Environment = DOCKER, nodes: int = 2, nic: int = 1) -> Deployed:
    with going_up(parts, wanted, Placement(nodes=nodes), nic) as up:
        return up


# --- putting up and taking down -----------------------------------------------------------------------------------


def test_a_node_gets_namespaces_first_then_control_then_data_and_loses_them_in_reverse(parts: Recorded) -> None:
    put_up(parts)
    shares = {"n0": "share lab-3 n0"}
    for name in ("n0", "n1"):
        outer = [f"prepare lab-3 {name}", *filter(None, [shares.get(name)])]
        before, after = [f"+{line}" for line in outer], [f"-{line}" for line in reversed(outer)]
        assert parts.journal.of(name) == [
            *before, f"+on_node {name}", f"+pod {name}", f"+connect {name}", f"+attach {name}", f"+join {name}",
            f"-join {name}", f"-attach {name}", f"-connect {name}", f"-pod {name}", f"-on_node {name}", *after,
        ]  # fmt: skip


def test_phases_are_completed_on_all_nodes_that_are_used_and_left_in_reverse(parts: Recorded) -> None:
    up = put_up(parts, nodes=1)
    assert [pod.node.name for pod in up.pods] == ["n0"]
    assert parts.journal.of("n1") == []
    parts.journal.lines.clear()
    put_up(parts)
    lines = [line.replace(" lab-3", "")[:-1] for line in parts.journal.lines]
    assert sorted(lines[:2]) + lines[2:3] == ["+prepare n", "+prepare n", "+share n"]
    assert sorted(lines[-2:]) + lines[-3:-2] == ["-prepare n", "-prepare n", "-share n"]
    joins = [number for number, line in enumerate(lines) if line == "+join n"]
    assert min(joins) > max(number for number, line in enumerate(lines) if line == "+attach n")


@pytest.mark.parametrize("fail_at", ["+pod n1", "+connect n0", "+attach n1"])
def test_when_one_node_fails_all_that_was_made_on_any_is_taken_down(parts: Recorded, fail_at: str) -> None:
    parts.journal.fail_at = fail_at
    with pytest.raises(InfrastructureError, match=f"{fail_at[1:]} failed"):
        put_up(parts)
    made = {line[1:] for line in parts.journal.lines if line.startswith("+") and line != fail_at}
    removed = {line[1:] for line in parts.journal.lines if line.startswith("-")}
    assert made == removed


def test_when_the_body_is_interrupted_everything_is_taken_down_and_one_node_s_failing_end_keeps_no_other_up(
    parts: Recorded,
) -> None:
    with pytest.raises(KeyboardInterrupt), going_up(parts):
        raise KeyboardInterrupt
    assert parts.journal.lines.count("-share lab-3 n0") == 1
    assert sum(line.startswith("-") for line in parts.journal.lines) == 13
    parts.journal.lines.clear()
    parts.journal.fail_at = "-attach n1"
    with pytest.raises(InfrastructureError):
        put_up(parts)
    assert {"-pod n0", "-pod n1", "-connect n1", "-prepare lab-3 n1"} <= set(parts.journal.lines)


# --- what a pod is asked for --------------------------------------------------------------------------------------


def test_a_pod_carries_our_mark_has_the_nic_that_the_environment_owns_and_is_a_host_of_its_own(parts: Recorded) -> None:
    up = put_up(parts, nic=2)
    request = parts.journal.requests["n1"]
    assert (request.name, request.deployment.study, request.node.name) == ("tare-lab-3-n1", "lab-3", "n1")
    assert request.network_options == ("--network", "lab-3-n1")
    assert (request.files, request.rootfs) == (FILES, FILES.rootfs)
    assert sorted(parts.nics) == ["n0 data2", "n1 data2"]
    hosts = up.hosts(Placement(ranks_per_node=3))
    assert [(host.name, host.ranks, host.agent.argv if host.agent else None) for host in hosts] == [
        ("n0", 3, ("enter", "n0")), ("n1", 3, ("enter", "n1")),
    ]  # fmt: skip


def test_what_a_pod_is_shown_of_the_run_s_folder(
    parts: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.folder = tmp_path
    monkeypatch.setattr(local, "_listening", lambda pods, order: nullcontext(pods))

    def shown(way: Launching) -> list[str]:
        with going_up(parts, replace(DOCKER, launch=way)):
            request = parts.journal.requests["n1"]
            return [path for path in (*map(format_bind, request.folders), request.session) if str(tmp_path) in path]

    keys = f"{tmp_path}/ssh-3"
    assert shown(Launching.EXEC) == []
    assert shown(Launching.DAEMON) == [f"{tmp_path}/session-3-n1"]
    assert shown(Launching.SSH) == [f"{keys}:{keys}:ro"]


@pytest.mark.parametrize(("sides", "inside"), [(Sides.SENDER, 0), (Sides.RECEIVER, 1)])
def test_one_side_is_in_the_environment_and_the_other_is_bare_with_the_same_mpi(
    parts: Recorded, sides: Sides, inside: int
) -> None:
    up = put_up(parts, replace(DOCKER, sides=sides, mpi="openmpi"))
    prefixes = [pod.prefix for pod in up.pods]
    assert prefixes[inside] == IMAGE_PREFIX
    assert prefixes[1 - inside] == FILES.host_prefix
    assert parts.journal.requests[f"n{1 - inside}"].rootfs is None


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({}, ["d0", "d1"]),
        ({"daemon": "docker"}, ["d0", "d1"]),
        ({"sides": Sides.SENDER}, ["d0", "n1"]),
        ({"sides": Sides.RECEIVER}, ["n0", "d1"]),
    ],
)
def test_what_needs_a_daemon_is_on_nodes_that_have_one_and_the_bare_side_is_not(
    parts: Recorded, changed: dict[str, Any], names: list[str]
) -> None:
    parts.needs_daemon = "daemon" not in changed
    assert [pod.node.name for pod in put_up(parts, replace(DOCKER, **changed)).pods] == names


# --- what MPI is told ---------------------------------------------------------------------------------------------


def test_a_daemon_and_ranks_join_the_cgroups_of_their_pod_and_container() -> None:
    group = Group(path="lab/n0", hierarchies=(Hierarchy(mountpoint=Path("/cg"), version=1),))
    pod = Pod(name="p", node=node(0), runtime="bare", pid=1, enter=(), group=group)
    at = Endpoint(address="10.214.0.1", prefix=24, interface="eth0", mtu=1500)
    pod = replace(pod, endpoint=at, prefix=Path("/"))
    ours, theirs = host_of(pod, 1).agent, host_of(replace(pod, join_groups=False), 1).agent
    assert (ours.cgroups, ours.cpus) == (("/cg/tare/lab/n0",), (0,))
    assert (theirs.cgroups, theirs.cpus) == ((), ())
    inside = tuple(Container(name=f"c{i}", enter=(f"c{i}",), joins=(f"/cg/c{i}",)) for i in range(2))
    entries = host_of(replace(pod, containers=inside), 4).enter
    assert [entry.cgroups for entry in entries] == [("/cg/c0",), ("/cg/c0",), ("/cg/c1",), ("/cg/c1",)]


def probed(reason: str | None) -> SimpleNamespace:
    return SimpleNamespace(
        probe=lambda: reason, probe_launcher=lambda: None, lacks=lambda transport: None, is_fake=False
    )


@pytest.mark.parametrize(
    ("runtime", "network", "mpi", "expected"),
    [
        (None, None, None, None),
        ("no runtime", "no network", "no MPI", "no runtime"),
        (None, "no network", "no MPI", "no network"),
        (None, None, "no MPI", "no MPI"),
    ],
)
def test_the_first_part_that_is_missing_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, runtime: str | None, network: str | None, mpi: str | None, expected: str | None
) -> None:
    monkeypatch.setattr("tare.agent.probe.RUNTIMES", {"docker": probed(runtime)})
    monkeypatch.setattr(networks, "NETWORKS", {"bridge": probed(network)})
    monkeypatch.setattr("tare.agent.probe.MPIS", {"openmpi": probed(mpi)})
    assert probe(DOCKER) == expected


# --- several containers on a node ---------------------------------------------------------------------------------


FOUR = Placement(nodes=1, ranks_per_node=4, containers_per_node=2)


def put_up_several(parts: Recorded, placement: Placement, cores: int = 4) -> Deployed:
    parts.nodes = (replace(node(0), cores=tuple(range(cores))),)
    with going_up(parts, placement=placement) as up:
        return up


def test_in_one_pod_ranks_enter_their_container_under_one_daemon(parts: Recorded) -> None:
    up = put_up_several(parts, FOUR)
    (host,) = up.hosts(FOUR)
    assert (host.name, host.ranks) == ("n0", 4)
    assert host.agent.argv == ("env", "TMPDIR=/run/tare/lab/session-3-n0")
    entered = [entry.argv for entry in host.enter]
    assert entered == [("enter", "c0", "0", "1")] * 2 + [("enter", "c1", "2", "3")] * 2
    assert all(entry.carry for entry in host.enter)
    assert parts.journal.of("n0").index("+attach n0") < parts.journal.of("n0").index("+containers n0")


def test_with_a_pod_each_containers_are_hosts_with_addresses_and_cores_of_their_own(parts: Recorded) -> None:
    placement = replace(FOUR, share=Share.NONE)
    up = put_up_several(parts, placement)
    assert [(host.name, host.ranks, host.enter) for host in up.hosts(placement)] == [("n0c0", 2, ()), ("n0c1", 2, ())]
    assert [pod.endpoint.address for pod in up.pods] == ["10.214.1.1", "10.214.1.3"]
    assert [(pod.number, pod.name) for pod in up.pods] == [(0, "tare-lab-3-n0c0"), (1, "tare-lab-3-n0c1")]
    assert parts.journal.requests["n0"].cores == (2, 3)
    assert [line for line in parts.journal.lines if "on_node" in line] == ["+on_node n0", "-on_node n0"]


TIGHT = replace(FOUR, memory_per_container=64 * 2**20, cpus_per_container=0.5)
EACH = Limits(memory_bytes=64 * 2**20, cpus=0.5)


def test_limits_are_those_of_containers_of_pods_that_are_one_or_of_all_together(parts: Recorded) -> None:
    put_up_several(parts, TIGHT)
    pod, inner = parts.journal.requests["n0"], parts.journal.inner
    assert (pod.limits, pod.cores) == (None, (0, 1, 2, 3))
    assert inner.limits == EACH
    put_up_several(parts, replace(TIGHT, share=Share.NONE))
    assert (parts.journal.requests["n0"].limits, parts.journal.requests["n0"].cores) == (EACH, (2, 3))
    put_up_several(parts, replace(TIGHT, ranks_per_node=2, containers_per_node=1), cores=4)
    assert (parts.journal.requests["n0"].limits, parts.journal.requests["n0"].cores) == (EACH, (0, 1))
    parts.makes_containers = False
    assert geometry.pods_per_node(DOCKER, replace(FOUR, share=Share.NONE)) == 1
    put_up_several(parts, TIGHT)
    pod = parts.journal.requests["n0"]
    assert (pod.limits, pod.cores) == (Limits(memory_bytes=128 * 2**20, cpus=1.0), (0, 1, 2, 3))


def test_ranks_are_containers_if_hybrid_together_without_containers_and_unlimited_if_fake() -> None:
    hybrid = replace(DOCKER, runtime="apptainer", launch=Launching.HYBRID)
    assert geometry.as_launched(hybrid, TIGHT).containers_per_node == 4
    assert geometry.as_launched(DOCKER, TIGHT) == TIGHT
    fake = Environment(name="f", runtime="fake", network="fake", mpi="fake")
    assert composition.refuse(fake, Placement()) is None
    assert "nothing that could be limited" in str(composition.refuse(fake, Placement(memory_per_container=2**30)))


@pytest.mark.parametrize(
    ("environment", "placement", "why"),
    [
        (Environment(name="b", runtime="bare", network="host"), Placement(ranks_per_node=2), None),
        (Environment(name="b", runtime="bare", network="host", mpi="intelmpi"), Placement(ranks_per_node=2),
         "Intel MPI cannot be told rank_order: cyclic by tare: use openmpi, openmpi5, mpich, mpich5, or launch: srun"),
        (Environment(name="b", runtime="bare", network="host", mpi="intelmpi", launch=Launching.SRUN),
         Placement(ranks_per_node=2), None),
        (Environment(name="b", runtime="docker", network="bridge", sides=Sides.SENDER), Placement(),
         "one side only has its ranks on one node"),
        (Environment(name="b", runtime="docker", network="bridge"),
         Placement(ranks_per_node=2, containers_per_node=2, share=Share.NONE), "needs one host a node"),
    ],
)  # fmt: skip
def test_ranks_go_to_the_nodes_in_turn_where_a_launcher_can_do_that(
    environment: Environment, placement: Placement, why: str | None
) -> None:
    reason = composition.refuse(environment, replace(placement, rank_order=RankOrder.CYCLIC))
    assert reason is None if why is None else why in str(reason)


def test_a_subnet_that_is_full_has_no_address_for_one_more_pod() -> None:
    nic = Nic(name="data0", address="10.214.0.2", prefix=24)
    assert nic_of_pod(nic, 0, hosts=4) is nic
    assert nic_of_pod(nic, 3, hosts=4).address == "10.214.0.14"
    with pytest.raises(RefusedError, match=r"10\.214\.0\.0/24 has no address for pod 65 of a node"):
        nic_of_pod(nic, 64, hosts=4)
