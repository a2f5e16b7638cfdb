"""Trials that are MPIJobs: the script in the launcher's pod, what it tells, a job a launch, what is counted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tare.cluster.kubernetes import refuse_in_pods
from tare.counters.monitor import CounterValues, counters, key_of, traffic, unread
from tare.deploy.hosts import Deployed
from tare.errors import InfrastructureError
from tare.host.process import Result, run
from tare.kubernetes.api import ApiError
from tare.kubernetes.making import hosts_of
from tare.kubernetes.manifests import PodSpec
from tare.kubernetes.mpi_jobs import script
from tare.kubernetes.mpi_jobs.counts import JobCounts
from tare.kubernetes.mpi_jobs.doorway import JobDoorway, is_gone, outcome
from tare.kubernetes.mpi_jobs.manifest import HOST_FILE, MpiJob
from tare.kubernetes.mpi_jobs.run import INSTALL, Ended, Launching, missing
from tare.kubernetes.mpi_jobs.script import Counted, Told, told
from tare.kubernetes.mpi_jobs.site import job_of
from tare.kubernetes.mpi_jobs.status import State
from tare.kubernetes.session import ERRORS, OUTPUT
from tare.model import Environment, LabSpec, Placement, Share, Study, Workload
from tare.model import Launching as Way
from tare.node import Endpoint, Nic, Node, Pod, Watch
from tare.node.cgroups import Group
from tare.node_service.order import Files, Order
from tare.node_service.sides import Side
from tare.plan.cells import expand
from tare.plan.composition import _refuse_launch as refuse_launch
from tare.run.site import needs
from waiting import wait_until

SSH: Final = """#!/bin/sh
echo "$1" >> {folder}/asked
[ "$1" != silent ] || exit 255
case $2 in cat*) ;; *) shift; exec sh -c "$*" ;; esac
cat {folder}/boot-of-$1 /proc/net/dev /proc/net/snmp /proc/net/netstat
echo usage_usec $(wc -l < {folder}/asked)000000
"""
JOBS: Final = Environment(name="job", runtime="kubernetes", network="pod-network", launch=Way.MPIJOB)
POD: Final = PodSpec(name="e3-n0c0", namespace="tare-x", run="r", slot=3, node="m0", image="i", node_image="n")
JOB: Final = MpiJob(name="e3-job", pod=POD, nodes=("m0", "m1"), command=())


def scripted(tmp_path: Path, wanted: Mapping[str, str], *argv: str, workers: Sequence[str] = ("w-1", "w-0")) -> Result:
    """Run the script on this machine, with a command in place of ssh; workers are on nodes of their own names."""
    folder = tmp_path / "tare"
    folder.mkdir()
    (folder / "ssh").write_text(SSH.format(folder=folder))
    (folder / "ssh").chmod(0o755)
    for worker in workers:
        (folder / f"boot-of-{worker}").write_text(f"boot-{worker}\n")
    (tmp_path / "hostfile").write_text("".join(f"{worker} slots=1\n" for worker in workers))
    words = [
        word.replace(script.FOLDER, str(folder)).replace(HOST_FILE, str(tmp_path / "hostfile"))
        for word in script.command(wanted, argv)
    ]
    return run(words, check=False, timeout_s=None)


def test_hosts_are_workers_by_their_nodes_however_the_operator_numbers_them(tmp_path: Path) -> None:
    agent = str(tmp_path / "tare" / "agent")
    program = f"{agent} -x n1c0 'echo on' there; echo out; echo wrong >&2; exit 3"
    result = scripted(tmp_path, {"n0c0": "boot-w-0", "n1c0": "boot-w-1"}, "/bin/sh", "-c", program)
    read = told(result.stdout)
    assert (result.status, read.status) == (3, 3)
    assert [line for line in read.output.splitlines() if line] == ["on there", "out"]
    assert read.errors == "wrong\n"
    assert 0 <= read.mpirun_s < 10
    asked = (tmp_path / "tare" / "asked").read_text().split()
    assert asked == ["w-1", "w-0", "w-1", "w-0", "w-1"], "the launcher's request went to the worker on n1's node"
    assert set(read.counted) == {"n0c0", "n1c0"}
    for counted in read.counted.values():
        assert len(counted.interfaces["lo"]) == 4
        assert counted.protocols["TcpOutSegs"] >= 0
    assert read.counted["n0c0"].cpu_s == pytest.approx(2)


@pytest.mark.parametrize(
    ("wanted", "workers", "said"),
    [
        ({"n0c0": "boot-w-0", "n1c0": "boot-w-9"}, ("w-0", "w-1"), "no worker is on the node of n1c0"),
        ({"n0c0": "boot-w-0"}, ("silent",), "its launcher cannot reach silent by ssh"),
    ],
)
def test_workers_that_are_elsewhere_or_silent_end_the_launch_before_it_begins(
    tmp_path: Path, wanted: dict[str, str], workers: tuple[str, ...], said: str
) -> None:
    result = scripted(tmp_path, wanted, "echo", "never", workers=workers)
    read = told(result.stdout)
    assert (result.status, read.status, read.errors, read.counted) == (1, 1, f"{said}\n", {})
    assert "never" not in read.output


def test_a_launchers_agent_refuses_a_host_that_is_none_of_its_own(tmp_path: Path) -> None:
    result = scripted(tmp_path, {"n0c0": "boot-w-0"}, str(tmp_path / "tare" / "agent"), "n7", "true", workers=("w-0",))
    read = told(result.stdout)
    assert read.status == 125
    assert "unknown host" in read.errors


def test_output_that_broke_off_has_no_status_and_counts_nothing() -> None:
    read = told(f"one\n{script.MARK} before n0c0 boot\ntwo")
    assert (read.output, read.status, read.counted) == ("one\ntwo", None, {})


FIRST: Final = Launching(workers_s=1.0, launcher_s=2.0, ended_s=3.0)


@pytest.mark.parametrize(
    ("state", "read", "expected"),
    [
        (State(succeeded=True), Told(output="", errors="", status=0, counted={}), (0, "")),
        (State(failed=True, why="Backoff"), Told(output="", errors="no\n", status=7, counted={}), (7, "no\n")),
        (
            State(failed=True, why="DeadlineExceeded: its time is up"),
            Told(output="", errors="", status=None, counted={}),
            (1, "MPIJob e3-job: DeadlineExceeded: its time is up\n"),
        ),
        (
            State(succeeded=True),
            Told(output="", errors="", status=None, counted={}),
            (1, "MPIJob e3-job: its launcher's output is not complete\n"),
        ),
    ],
)
def test_a_job_has_the_status_of_its_program_or_the_operators_reason(
    state: State, read: Told, expected: tuple[int, str]
) -> None:
    assert outcome("e3-job", Ended(state=state, output="", launching=FIRST), read) == expected


class Jobs:
    """Jobs that end with a text, or are refused."""

    def __init__(self, text: str, refusal: str = "") -> None:
        self.text = text
        self.refusal = refusal
        self.done: list[str] = []
        self.job: MpiJob | None = None

    def create(self, job: MpiJob) -> None:
        self.done.append("create")
        self.job = job

    def wait(self, job: MpiJob, began: float, given_up: Any) -> Ended:
        self.done.append("wait")
        if self.refusal:
            raise InfrastructureError(self.refusal)
        return Ended(state=State(succeeded=True), output=self.text, launching=FIRST)

    def remove(self, name: str) -> None:
        self.done.append(f"remove {name}")


def test_each_launch_is_a_job_that_is_removed_before_anything_else() -> None:
    jobs = Jobs(f"out\n{script.MARK} ran 10.5 12.00\n{script.MARK} error no\n{script.MARK} status 4\n")
    counted: list[Mapping[str, Counted]] = []
    door = JobDoorway(jobs, JOB, {"n0c0": "b0", "n1c0": "b1"}, counted.append)  # type: ignore[arg-type]
    assert door.took() == {}
    taken: list[tuple[int, bytes]] = []
    status = door.start(["mpirun", "x y"]).pump(None, lambda channel, data: taken.append((channel, data)))
    door.settle()
    assert (status, taken) == (4, [(OUTPUT, b"out\n"), (ERRORS, b"no\n")])
    assert jobs.done == ["create", "wait", "remove e3-job"]
    assert jobs.job is not None
    assert jobs.job.command[3:] == (script.MARK, "n0c0=b0 n1c0=b1", "mpirun", "x y")
    assert door.took() == {"workers_s": 1.0, "launcher_s": 2.0, "ended_s": 3.0, "mpirun_s": 1.5}
    assert counted == [{}]


def test_a_job_that_does_not_start_is_removed_and_took_nothing() -> None:
    jobs = Jobs("", refusal="MPIJob e3-job: worker e3-job-worker-0 does not run: no node can take the pod")
    door = JobDoorway(jobs, JOB, {}, lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError, match="no node can take the pod"):
        door.start(["true"]).pump(None, lambda *_: None)
    door.close()
    assert jobs.done[-1] == "remove e3-job"
    assert door.took() == {}


class Idle(threading.Event):
    """Tells that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.set()
        return super().wait(timeout)


class SlowJobs(Jobs):
    """Jobs that hang until nobody wants them, and whose removal takes until somebody waits for it."""

    asked: threading.Event

    def wait(self, job: MpiJob, began: float, given_up: Any) -> Ended:
        while not given_up(0.01):
            pass
        raise InfrastructureError("given up")

    def remove(self, name: str) -> None:
        self.asked.wait()
        super().remove(name)


def test_a_launch_that_was_ended_at_its_limit_is_removed_before_the_next_begins() -> None:
    jobs = SlowJobs("")
    door = JobDoorway(jobs, JOB, {}, lambda _: None)  # type: ignore[arg-type]
    idle = door._idle = Idle()
    jobs.asked = idle.asked
    idle.set()
    ours, theirs = socket.socketpair()
    with ours, ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(door.start(["sleep"]).pump, ours, lambda *_: None)
        wait_until(lambda: jobs.done == ["create"])
        idle.asked.clear()
        theirs.close()
        door.settle()
        assert jobs.done == ["create", "remove e3-job"]
        assert isinstance(running.exception(), InfrastructureError)


def test_a_launch_is_gone_when_its_connection_is_closed_and_not_when_its_input_ends() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.shutdown(socket.SHUT_WR)
        assert not is_gone(ours, 0.001)
        theirs.close()
        assert is_gone(ours, 0.001)
    assert not is_gone(None, 0.001)


def side(number: int, *, own_network: bool = True) -> Side:
    nic = Nic(name="eth0", address=f"10.0.0.{number + 1}", prefix=24)
    node = Node(
        name=f"n{number}", index=number, cores=(0,), control_address="", nics=(nic,), pid=0,
        group=Group(path="", hierarchies=()), boot_id=f"b{number}", machine=f"m{number}",
    )  # fmt: skip
    pod = Pod(
        name=f"p{number}", node=node, runtime="kubernetes", host=f"n{number}c0", own_network=own_network, pid=1,
        enter=(), group=node.group,
    )  # fmt: skip
    watches = (Watch(pid=0, interface="eth0", role="pod's interface"), Watch(pid=1 << 30, interface="data0", role="n"))
    endpoint = Endpoint(interface="eth0", address=nic.address, prefix=24, mtu=1450, watches=watches)
    return Side(pod=pod, prefix=Path("/opt/tare"), endpoint=endpoint)


SIDES: Final = (side(0), side(1))


def test_what_workers_counted_is_added_to_the_pods_and_what_they_did_not_tell_is_not_known() -> None:
    keys = [key_of(each.pod.node, each.endpoint.watches[0]) for each in SIDES]
    standing = CounterValues(interfaces=dict.fromkeys(keys, (10, 1, 10, 1)), job_s=1.0)
    none = JobCounts.of(SIDES)
    before = none.added_to(standing)
    job = Counted(interfaces={"eth0": (500, 5, 600, 6)}, protocols={"TcpOutSegs": 7}, cpu_s=2.0)
    after = none.plus(SIDES, {"n0c0": job, "n1c0": job}).added_to(standing)
    watches = Deployed(environment=JOBS, sides=SIDES).watches
    assert [(each.node, each.rx_bytes, each.tx_bytes) for each in traffic(watches, before, after)] == [
        ("n0c0", 500, 600),
        ("n1c0", 500, 600),
    ]
    assert counters(before, after)["TcpOutSegs"] == 14
    assert after.job_s - before.job_s == 4.0
    lost = none.plus(SIDES, {"n0c0": job}).plus(SIDES, {"n0c0": job})
    assert [each.node for each in unread(watches, before, lost.added_to(standing))] == ["n1c0"]
    assert lost.settled().added_to(standing).unread == {}
    assert lost.added_to(standing).interfaces[keys[0]] == (1010, 11, 1210, 13)


def test_on_a_nodes_network_the_node_counts() -> None:
    on_node = (side(0, own_network=False),)
    counts = JobCounts.of(on_node).plus(on_node, {"n0c0": Counted(interfaces={"eth0": (5, 5, 5, 5)}, cpu_s=1.0)})
    assert (counts.interfaces, counts.unread, counts.protocols, counts.cpu_s) == ({}, {}, {}, 1.0)


def test_an_mpi_gets_the_name_of_the_interface_where_each_job_has_other_addresses() -> None:
    assert Deployed(environment=JOBS, sides=SIDES).subnet == "eth0"
    assert Deployed(environment=replace(JOBS, launch=Way.EXEC), sides=SIDES).subnet == "10.0.0.0/24"
    on_node = (side(0, own_network=False), side(1, own_network=False))
    assert Deployed(environment=JOBS, sides=on_node).subnet == "10.0.0.0/24"


def test_the_job_of_a_deployment_has_its_ranks_and_a_deadline() -> None:
    order = Order(
        study="s-3", slot=3, environment=JOBS, placement=Placement(nodes=2, ranks_per_node=4),
        nodes=(), nic=0, hosts=4, files=Files(host_prefix=Path("/nowhere")),
    )  # fmt: skip
    job = job_of(order, POD, ("m0", "m1"), longest_s=60.5)
    assert (job.name, job.nodes, job.slots) == ("e3-job", ("m0", "m1"), 4)
    assert job.deadline_s == 61 + 120


def test_a_worker_is_not_named_as_its_node() -> None:
    placement = Placement(nodes=2, ranks_per_node=1)
    assert hosts_of(JOBS, placement, "n0") == ("n0c0",)
    assert hosts_of(replace(JOBS, launch=Way.EXEC), placement, "n0") == ("n0",)


def test_what_an_mpi_job_cannot_be_is_refused() -> None:
    placement = Placement(nodes=2, ranks_per_node=2)
    assert refuse_in_pods(JOBS, placement) is None
    assert refuse_launch(JOBS, placement) is None
    assert "leave them out" in (refuse_in_pods(JOBS, replace(placement, cpus_per_container=1.0)) or "")
    apart = replace(placement, containers_per_node=2, share=Share.NONE)
    assert "one container a node" in (refuse_launch(JOBS, apart) or "")
    assert "use runtime: kubernetes" in (refuse_launch(replace(JOBS, runtime="docker"), placement) or "")
    assert "or mpijob" in (refuse_launch(replace(JOBS, launch=Way.SSH), placement) or "")


def test_a_cluster_without_mpi_jobs_is_told_with_what_to_install() -> None:
    class Api:
        def ask(self, method: str, path: str) -> dict[str, Any]:
            assert (method, path) == ("GET", "/apis/kubeflow.org/v2beta1")
            raise ApiError("not found", status=self.status)

        def __init__(self, status: int) -> None:
            self.status = status

    assert INSTALL in (missing(Api(404)) or "")  # type: ignore[arg-type]
    assert missing(Api(403)) is None  # type: ignore[arg-type]


def test_a_study_asks_for_the_operator_only_if_it_has_mpi_jobs() -> None:
    plain = replace(JOBS, name="plain", launch=Way.EXEC)
    study = Study(
        name="s", cluster="lab", lab=LabSpec(), baseline="plain", environments=(plain, JOBS),
        placements=(Placement(),), workloads=(Workload(name="w", command=("app",), time_limit_s=77.0),),
    )  # fmt: skip
    wanted = needs(expand(study, lambda *_: None))
    assert (wanted.jobs, wanted.longest_s) == (True, 77.0)
    assert not needs(expand(replace(study, environments=(plain,)), lambda *_: None)).jobs
