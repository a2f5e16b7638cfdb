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

from nodes import make_node, make_pod
from tare.clusters.kubernetes import refuse_in_pods
from tare.clusters.pods.api import ApiError
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.mpi_jobs import script
from tare.clusters.pods.mpi_jobs.counts import JobCounts
from tare.clusters.pods.mpi_jobs.doorway import JobExecPool, is_gone, outcome
from tare.clusters.pods.mpi_jobs.manifest import HOST_FILE, MpiJob
from tare.clusters.pods.mpi_jobs.run import INSTALL, EndedJob, missing
from tare.clusters.pods.mpi_jobs.script import LauncherOutput, WorkerCounts, told
from tare.clusters.pods.mpi_jobs.site import job_of
from tare.clusters.pods.mpi_jobs.status import JobState
from tare.clusters.pods.pod_specs import hosts_of
from tare.clusters.pods.session import ERRORS, OUTPUT
from tare.errors import InfrastructureError
from tare.model import Environment, LabSpec, Placement, Share, Study, Workload
from tare.model import Launching as Way
from tare.run.deploy.hosts import Deployed
from tare.run.site import needs
from tare.runtimes.containers.deployment import Deployment, Files
from tare.study.plan.cells import expand
from tare.study.plan.composition import _refuse_launch as refuse_launch
from tare.system.counters.monitor import counters, key_of, traffic, unread
from tare.system.counters.values import CounterValues
from tare.system.node import Endpoint, Nic, Pod, Watch
from tare.system.process import run
from waiting import wait_until

SSH: Final = """#!/bin/sh
echo "$1" >> {folder}/asked
[ "$1" != silent ] || exit 255
case $2 in cat*) ;; *) shift; exec sh -c "$*" ;; esac
cat {folder}/boot-of-$1 /proc/net/dev /proc/net/snmp /proc/net/netstat
echo usage_usec $(wc -l < {folder}/asked)000000
"""
JOBS: Final = Environment(name="job", runtime="kubernetes", network="pod-network", launch=Way.MPIJOB)
EXEC: Final = replace(JOBS, name="plain", launch=Way.EXEC)
POD: Final = PodSpec(name="e3-n0c0", namespace="tare-x", run="r", slot=3, node="m0", image="i", node_image="n")
JOB: Final = MpiJob(name="e3-job", pod=POD, nodes=("m0", "m1"), command=())
FIRST: Final = {"workers_s": 1.0, "launcher_s": 2.0, "ended_s": 3.0}


def scripted(
    tmp_path: Path, wanted: Mapping[str, str], *argv: str, workers: Sequence[str] = ("w-1", "w-0")
) -> tuple[int, LauncherOutput]:
    """Run the script on this machine, with a command in place of ssh; workers are on nodes of their own names."""
    folder = tmp_path / "tare"
    folder.mkdir()
    (folder / "ssh").write_text(SSH.format(folder=folder))
    (folder / "ssh").chmod(0o755)
    for worker in workers:
        (folder / f"boot-of-{worker}").write_text(f"boot-{worker}\n")
    (tmp_path / "hostfile").write_text("".join(f"{worker} slots=1\n" for worker in workers))
    places = {script.FOLDER: str(folder), HOST_FILE: str(tmp_path / "hostfile")}
    words = [
        word.replace(script.FOLDER, places[script.FOLDER]).replace(HOST_FILE, places[HOST_FILE])
        for word in script.command(wanted, argv)
    ]
    result = run(words, check=False, timeout_s=None)
    return result.status, told(result.stdout)


def test_hosts_are_workers_by_their_nodes_however_the_operator_numbers_them(tmp_path: Path) -> None:
    agent = str(tmp_path / "tare" / "agent")
    program = f"{agent} -x n1c0 'echo on' there; echo out; echo wrong >&2; exit 3"
    status, read = scripted(tmp_path, {"n0c0": "boot-w-0", "n1c0": "boot-w-1"}, "/bin/sh", "-c", program)
    assert (status, read.status, read.errors) == (3, 3, "wrong\n")
    assert [line for line in read.output.splitlines() if line] == ["on there", "out"]
    assert read.mpirun_s >= 0
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
    status, read = scripted(tmp_path, wanted, "echo", "never", workers=workers)
    assert (status, read.status, read.errors, read.counted) == (1, 1, f"{said}\n", {})
    assert "never" not in read.output


def test_unknown_hosts_are_refused_and_output_that_broke_off_has_no_status(tmp_path: Path) -> None:
    agent = str(tmp_path / "tare" / "agent")
    _, read = scripted(tmp_path, {"n0c0": "boot-w-0"}, agent, "n7", "true", workers=("w-0",))
    assert read.status == 125
    assert "unknown host" in read.errors
    read = told(f"one\n{script.MARK} before n0c0 boot\ntwo")
    assert (read.output, read.status, read.counted) == ("one\ntwo", None, {})


@pytest.mark.parametrize(
    ("state", "errors", "status", "expected"),
    [
        (JobState(succeeded=True), "", 0, (0, "")),
        (JobState(failed=True, why="Backoff"), "no\n", 7, (7, "no\n")),
        (JobState(failed=True, why="Deadline: time is up"), "", None, (1, "MPIJob e3-job: Deadline: time is up\n")),
        (JobState(succeeded=True), "", None, (1, "MPIJob e3-job: its launcher's output is not complete\n")),
    ],
)
def test_a_job_has_the_status_of_its_program_or_the_operators_reason(
    state: JobState, errors: str, status: int | None, expected: tuple[int, str]
) -> None:
    read = LauncherOutput(output="", errors=errors, status=status, counted={})
    assert outcome("e3-job", EndedJob(state=state, output="", took=FIRST), read) == expected


class Jobs:
    """Jobs that end with a text, or are refused."""

    def __init__(self, text: str = "", refusal: str = "") -> None:
        self.text, self.refusal = text, refusal
        self.done: list[str] = []
        self.job: MpiJob | None = None

    def create(self, job: MpiJob) -> None:
        self.done.append("create")
        self.job = job

    def wait(self, job: MpiJob, began: float, given_up: Any) -> EndedJob:
        self.done.append("wait")
        if self.refusal:
            raise InfrastructureError(self.refusal)
        return EndedJob(state=JobState(succeeded=True), output=self.text, took=FIRST)

    def remove(self, name: str) -> None:
        self.done.append(f"remove {name}")


def doorway(jobs: Any, hosts: Mapping[str, str] | None = None, count: Any = lambda _: None) -> JobExecPool:
    return JobExecPool(jobs, JOB, hosts or {}, count)


def test_each_launch_is_a_job_that_is_removed_before_anything_else() -> None:
    jobs = Jobs(f"out\n{script.MARK} ran 10.5 12.00\n{script.MARK} error no\n{script.MARK} status 4\n")
    counted: list[Mapping[str, WorkerCounts]] = []
    door = doorway(jobs, {"n0c0": "b0", "n1c0": "b1"}, counted.append)
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
    jobs.refusal = "MPIJob e3-job: worker e3-job-worker-0 does not run: no node can take the pod"
    with pytest.raises(InfrastructureError, match="no node can take the pod"):
        door.start(["true"]).pump(None, lambda *_: None)
    door.close()
    assert (jobs.done[-1], door.took()) == ("remove e3-job", {})


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

    def wait(self, job: MpiJob, began: float, given_up: Any) -> EndedJob:
        while not given_up(0.01):
            pass
        raise InfrastructureError("given up")

    def remove(self, name: str) -> None:
        self.asked.wait()
        super().remove(name)


def test_a_launch_that_was_ended_at_its_limit_is_removed_before_the_next_begins() -> None:
    jobs = SlowJobs()
    door = doorway(jobs)
    idle = door._idle = Idle()
    jobs.asked = idle.asked
    idle.set()
    ours, theirs = socket.socketpair()
    with ours, ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(door.start(["sleep"]).pump, ours, lambda *_: None)
        wait_until(lambda: jobs.done == ["create"])
        idle.asked.clear()
        theirs.shutdown(socket.SHUT_WR)
        assert not is_gone(ours, 0.001), "its input has ended, and its connection has not"
        theirs.close()
        assert is_gone(ours, 0.001)
        door.settle()
        assert jobs.done == ["create", "remove e3-job"]
        assert isinstance(running.exception(), InfrastructureError)
    assert not is_gone(None, 0.001)


def pod(number: int, *, own_network: bool = True) -> Pod:
    nic = Nic(name="eth0", address=f"10.0.0.{number + 1}", prefix=24)
    node = make_node(number, nics=(nic,), machine=f"m{number}")
    pod = make_pod(node, runtime="kubernetes", host=f"n{number}c0", own_network=own_network)
    watches = (Watch(pid=0, interface="eth0", role="pod's interface"), Watch(pid=1 << 30, interface="data0", role="n"))
    endpoint = Endpoint(interface="eth0", address=nic.address, prefix=24, mtu=1450, watches=watches)
    return replace(pod, prefix=Path("/opt/tare"), endpoint=endpoint)


PODS: Final = (pod(0), pod(1))
ON_NODE: Final = (pod(0, own_network=False), pod(1, own_network=False))


def test_what_workers_counted_is_added_to_the_pods_and_what_they_did_not_tell_is_not_known() -> None:
    keys = [key_of(each.node, each.endpoint.watches[0]) for each in PODS]
    standing = CounterValues(interfaces=dict.fromkeys(keys, (10, 1, 10, 1)), job_s=1.0)
    none = JobCounts.of(PODS)
    before = none.added_to(standing)
    job = WorkerCounts(interfaces={"eth0": (500, 5, 600, 6)}, protocols={"TcpOutSegs": 7}, cpu_s=2.0)
    after = none.plus(PODS, {"n0c0": job, "n1c0": job}).added_to(standing)
    watches = Deployed(environment=JOBS, pods=PODS).watches
    found = [(each.node, each.rx_bytes, each.tx_bytes) for each in traffic(watches, before, after)]
    assert (found, counters(before, after)["TcpOutSegs"]) == ([("n0c0", 500, 600), ("n1c0", 500, 600)], 14)
    assert after.job_s - before.job_s == 4.0
    lost = none.plus(PODS, {"n0c0": job}).plus(PODS, {"n0c0": job})
    assert [each.node for each in unread(watches, before, lost.added_to(standing))] == ["n1c0"]
    assert lost.settled().added_to(standing).unread == {}
    assert lost.added_to(standing).interfaces[keys[0]] == (1010, 11, 1210, 13)
    told = {"n0c0": WorkerCounts(interfaces={"eth0": (5, 5, 5, 5)}, cpu_s=1.0)}
    counts = JobCounts.of(ON_NODE[:1]).plus(ON_NODE[:1], told)  # on a node's network the node counts
    assert (counts.interfaces, counts.unread, counts.protocols, counts.cpu_s) == ({}, {}, {}, 1.0)


def test_the_job_of_a_deployment_has_its_ranks_and_names_the_interface() -> None:
    placement, files = Placement(nodes=2, ranks_per_node=4), Files(host_prefix=Path("/nowhere"))
    order = Deployment(
        study="s-3", slot=3, environment=JOBS, placement=placement, nodes=(), nic=0, hosts=4, files=files
    )
    job = job_of(order, POD, ("m0", "m1"), longest_s=60.5)
    assert (job.name, job.nodes, job.slots, job.deadline_s) == ("e3-job", ("m0", "m1"), 4, 61 + 120)
    assert hosts_of(JOBS, Placement(nodes=2), "n0") == ("n0c0",), "a worker is not named as its node"
    assert hosts_of(EXEC, Placement(nodes=2), "n0") == ("n0",)
    assert Deployed(environment=JOBS, pods=PODS).subnet == "eth0"
    assert Deployed(environment=EXEC, pods=PODS).subnet == "10.0.0.0/24"
    assert Deployed(environment=JOBS, pods=ON_NODE).subnet == "10.0.0.0/24"


def test_what_an_mpi_job_cannot_be_is_refused() -> None:
    placement = Placement(nodes=2, ranks_per_node=2)
    assert refuse_in_pods(JOBS, placement) is None
    assert refuse_launch(JOBS, placement) is None
    assert "leave them out" in (refuse_in_pods(JOBS, replace(placement, cpus_per_container=1.0)) or "")
    apart = replace(placement, containers_per_node=2, share=Share.NONE)
    assert "one container a node" in (refuse_launch(JOBS, apart) or "")
    assert "use runtime: kubernetes" in (refuse_launch(replace(JOBS, runtime="docker"), placement) or "")
    assert "or mpijob" in (refuse_launch(replace(JOBS, launch=Way.SSH), placement) or "")


def test_a_study_asks_for_the_operator_only_if_it_has_mpi_jobs_and_is_told_what_to_install() -> None:
    class Refusing:
        def __init__(self, status: int) -> None:
            self.status = status

        def ask(self, method: str, path: str) -> dict[str, Any]:
            assert (method, path) == ("GET", "/apis/kubeflow.org/v2beta1")
            raise ApiError("not found", status=self.status)

    assert INSTALL in (missing(Refusing(404)) or "")  # type: ignore[arg-type]
    assert missing(Refusing(403)) is None  # type: ignore[arg-type]
    study = Study(
        name="s", cluster="lab", lab=LabSpec(), baseline="plain", environments=(EXEC, JOBS),
        placements=(Placement(),), workloads=(Workload(name="w", command=("app",), time_limit_s=77.0),),
    )  # fmt: skip
    wanted = needs(expand(study, lambda *_: None))
    assert (wanted.jobs, wanted.longest_s) == (True, 77.0)
    assert not needs(expand(replace(study, environments=(EXEC,)), lambda *_: None)).jobs
