"""Cluster slurm: what its programs print becomes an allocation, what it refuses, and how nodes are reached."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tare.agent.remote.machine import this_machine
from tare.clusters import CLUSTERS, slurm, slurm_allocation
from tare.clusters.slurm import SlurmCluster
from tare.clusters.slurm_allocation import Allocation, cores_per_node, listed_pmis, parse, read, record_of
from tare.clusters.slurm_connections import check_same_type, explained, step_argv
from tare.errors import InfrastructureError, MissingTool, RefusedError
from tare.model import Environment, LabSpec, Launching, Placement
from tare.model.topology import NodeCores, Topology
from tare.mpi import MPIS
from tare.mpi.launch.srun import UNSET
from tare.networks import NETWORKS, Wiring
from tare.runtimes import RUNTIMES
from tare.study.feasibility.availability import _no_place
from tare.study.plan.composition import refuse_launcher
from unit.scripts import script

BARE = Environment(name="bare", runtime="bare", network="host", image="", mpi="openmpi")
BY_SRUN = replace(BARE, launch=Launching.SRUN)
TWO = Allocation(job="34", names=("c1", "c2"), addresses=("10.213.0.2", "10.213.0.3"))


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    monkeypatch.setattr(slurm, "read", lambda: TWO)
    return SlurmCluster()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return SlurmCluster()


def test_more_nodes_than_the_allocation_has_are_refused_with_their_number(inside: SlurmCluster) -> None:
    reason = inside.refuse(LabSpec(nodes=3), BARE, Placement(nodes=3))
    assert reason == "this allocation has 2 nodes: ask for more, or use fewer nodes"
    assert inside.refuse(LabSpec(nodes=2), BARE, Placement(nodes=2)) is None


def test_plans_reckon_with_the_smallest_node(outside: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "cores_per_node", lambda partition: (64, 4, 64))
    nodes = outside.topology(LabSpec(nodes=3)).nodes
    assert [node.cores for node in nodes] == [(0, 1, 2, 3)] * 3
    assert outside.topology(LabSpec(nodes=1, cores_per_node=2)).nodes[0].cores == (0, 1)
    with pytest.raises(RefusedError, match="this command is not inside a Slurm allocation") as caught:
        outside.hosts(LabSpec())
    assert "`tare submit`" in caught.value.remedy
    assert "`salloc`" in caught.value.remedy
    assert outside.refuse(LabSpec(nodes=512), BARE, Placement(nodes=512)) is None
    assert outside.lacks(LabSpec(nodes=512), BY_SRUN) is None


def test_a_pmi_is_a_reason_unless_slurm_lists_none(inside: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "listed_pmis", lambda: frozenset({"none", "pmi2", "pmix", "pmix_v4"}))
    monkeypatch.setattr(slurm.RemoteCluster, "lacks", lambda *_: None)
    reason = inside.lacks(LabSpec(), replace(BY_SRUN, pmi="pmix_v5"))
    assert reason == "this Slurm has no PMI pmix_v5: set pmi to one of `srun --mpi=list` that the MPI supports"
    assert inside.lacks(LabSpec(), replace(BY_SRUN, pmi="pmix_v4")) is None
    assert inside.lacks(LabSpec(), BY_SRUN) is None
    assert inside.lacks(LabSpec(), BARE) is None
    monkeypatch.setattr(slurm, "listed_pmis", frozenset)
    assert inside.lacks(LabSpec(), BY_SRUN) is None


def test_srun_is_for_jobs_pmis_and_networks_of_the_node() -> None:
    for cluster in CLUSTERS.values():
        reason = refuse_launcher(BY_SRUN, cluster)
        assert (reason is None) == cluster.runs_jobs, (cluster.name, reason)
    assert "pmi has no effect without launch: srun" in str(refuse_launcher(replace(BARE, pmi="pmix"), SlurmCluster()))
    for name, mpi in MPIS.items():
        reason = refuse_launcher(replace(BY_SRUN, mpi=name), SlurmCluster())
        assert (reason is None) == bool(mpi.pmis), (name, reason)
    for name, network in NETWORKS.items():
        reason = refuse_launcher(replace(BY_SRUN, network=name), SlurmCluster())
        assert (reason is None) == (network.wiring is Wiring.NODE), (name, reason)
    for name, runtime in RUNTIMES.items():
        reason = refuse_launcher(replace(BY_SRUN, runtime=name), SlurmCluster())
        assert (reason is None) == (not runtime.needs_daemon), (name, reason)


def test_cores_of_machines_are_apart_and_too_few_are_too_few() -> None:
    cores = Topology(nodes=tuple(NodeCores(cores=(0, 1), name=f"n{number}") for number in range(2)))
    placement = Placement(nodes=2, ranks_per_node=2)
    assert _no_place(placement, cores, apart=True) is None
    assert "its nodes would share cores" in str(_no_place(placement, cores, apart=False))
    assert _no_place(replace(placement, oversubscribe=True), cores, apart=False) is None
    cores = Topology(nodes=(NodeCores(cores=(0,), name="n0"), NodeCores(cores=(0,), name="n1")))
    for apart in (True, False):
        assert _no_place(Placement(nodes=2, ranks_per_node=2), cores, apart=apart)


BINDING = "srun: cluster configuration lacks support for cpu binding\n"


def test_a_connection_is_a_step_that_shares_the_jobs_resources_and_finds_its_job() -> None:
    argv = step_argv("/usr/bin/srun", "34", "c2")
    unset = tuple(word for name in UNSET for word in ("-u", name))
    assert argv[: 1 + len(unset)] == ("env", *unset)
    assert argv[1 + len(unset) :] == (
        "/usr/bin/srun", "--overlap", "--mem=0", "--export=ALL", "--quiet", "--chdir=/", "--jobid=34",
        "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--job-name=tare",
        "--nodelist=c2", "/bin/sh", "-c",
    )  # fmt: skip
    assert not {"SLURM_JOB_ID", "SLURM_CONF", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} & set(UNSET)
    check_same_type(("c1", "c2"), (this_machine(), this_machine()))
    assert len(explained("x" * 5000, "c2")) < 400


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("srun: error: Unable to create step for job 29: Job/step already completing or completed",
         "the allocation has ended"),
        (("srun: error: Unable to confirm allocation for job 29: Invalid job id specified\nsrun: Check SLURM_JOB_ID "
          "environment variable. Expired or invalid job 29"), "the allocation has ended"),
        ("slurmstepd-c2: error: *** STEP 32.2 ON c2 CANCELLED AT 2026-11-23T17:43:04 DUE TO TIME LIMIT ***",
         "the allocation has ended"),
        ("srun: error: Unable to create step for job 28: Step limit reached for this job",
         "the job has reached the site's limit of steps (MaxStepCount)"),
        ("srun: error: Unable to create step for job 27: Required node not available (down, drained or reserved)",
         "Slurm cannot start a step there: see `sinfo -R`"),
        ("srun: error: Node failure on c2\nsrun: Job step aborted", "Slurm cannot start a step there"),
        ("srun: error: Task launch for StepId=4.1 failed on node c2: Communication connection failure",
         "Slurm cannot start a step there"),
        ("srun: error: Unable to create step for job 4: Unable to contact slurm controller (connect failure)",
         "Slurm cannot start a step there"),
        ("/bin/sh: 1: exec: python3: not found\nsrun: error: c2: task 0: Exited with exit code 127",
         "it has no python3 in PATH: install Python 3.9 or later there"),
        ("bash: line 1: python3: command not found", "it has no python3 in PATH"),
        ("srun: error: Unable to create step for job 3: Access/permission denied", "Slurm refuses the step"),
        ("srun: error: Unable to create step: Invalid account or account/partition combination specified",
         "Slurm refuses the step"),
        ("srun: error: c2: task 0: Killed", "something has killed the step there: see its slurmd's log"),
        ("srun: error: c2: task 0: Killed\nslurmstepd-c2: error: *** STEP 3.1 ON c2 CANCELLED ***",
         "the allocation has ended"),
        ("", "the step has ended"),
        ("srun: info: a remark", "the step has ended"),
        ("srun: error: something new", "something new: try `srun --overlap -w c2 hostname`"),
        ("site: use the portal", "site: use the portal: try `srun --overlap -w c2 hostname`"),
    ],
)  # fmt: skip
def test_words_of_srun_become_a_sentence_whatever_it_remarks_before(words: str, sentence: str) -> None:
    for text in (words, BINDING + words):
        explanation = explained(text, "c2")
        assert explanation.startswith(sentence)
        assert "\n" not in explanation
        assert "srun: " not in explanation


@pytest.mark.parametrize("change", [{"cpu": "Other CPU"}, {"kernel": "5.10.0"}, {"cores": tuple(range(99))}])
def test_nodes_that_differ_are_named_with_their_types(change: dict[str, object]) -> None:
    own = replace(this_machine(), cpu="This CPU", kernel="6.1.0", cores=(0, 1))
    other = replace(own, **change)  # type: ignore[arg-type]
    hosts = ("c1", "c2", "c3", "c4", "c5", "d1")
    with pytest.raises(RefusedError, match="2 types, whose figures cannot be compared") as caught:
        check_same_type(hosts, (own, own, own, own, own, other))
    said = caught.value.message
    assert "c1, c2, c3, c4, ...: This CPU, 2 cores, Linux 6.1.0" in said
    assert f"d1: {other.cpu}, {len(other.cores)} cores, Linux {other.kernel}" in said
    assert "partition or constraint" in caught.value.remedy


JOB = (
    "JobId=34 ArrayJobId=33 ArrayTaskId=1 JobName=tare-study UserId=me(59124) JobState=RUNNING Reason=None Requeue=1 "
    "Restarts={restarts} BatchFlag=1 TimeLimit=00:05:00 EndTime={end} NodeList=c[1-2] TRES=cpu=2,node=2 Comment=a=b"
)
NODES = (
    "NodeName=c1 Arch=x86_64 NodeAddr=10.213.0.2 NodeHostName=c1 State=ALLOCATED Reason=bad memory [root@2026]",
    "NodeName=c2 Arch=x86_64 NodeAddr=10.213.0.3 NodeHostName=c2 State=ALLOCATED",
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH but for the system's own programs; nothing of Slurm is in it."""
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def scontrol(site: Path, job: str) -> None:
    answers = {"job.txt": job, "hostnames.txt": "c1\nc2\n", "node.txt": "\n".join(NODES)}
    for name, text in answers.items():
        (site / name).write_text(text)
    script(site / "scontrol", f'read_file() {{ while IFS= read -r line || [ "$line" ]; do echo "$line"; done; }}\n'
            f'read_file < {site}/$3.txt')  # fmt: skip


def test_outside_a_job_nothing_is_asked_and_partitions_have_cpus(site: Path) -> None:
    assert read() is None
    assert not list(site.iterdir())
    rows = "main* c1 4\nmain* c2 2\nurgent c3 64"
    script(site / "sinfo", f'echo "$@" > {site}/asked; echo "{rows}"')
    assert cores_per_node() == (4, 2)
    script(site / "sinfo", f'echo "$@" > {site}/asked; echo "urgent c3 64"')
    assert cores_per_node("urgent") == (64,)
    assert "--partition urgent" in (site / "asked").read_text()


def test_an_allocation_has_nodes_in_slurms_order_and_an_end(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    scontrol(site, JOB.format(restarts=0, end="2026-11-23T18:00:00"))
    allocation = read()
    assert allocation is not None
    assert (allocation.names, allocation.addresses) == (("c1", "c2"), ("10.213.0.2", "10.213.0.3"))
    assert (allocation.ends_unix_s, allocation.label) == (time.mktime((2026, 11, 23, 18, 0, 0, 0, 0, -1)), "34")
    scontrol(site, JOB.format(restarts=2, end="Unknown"))
    allocation = read()
    assert allocation is not None
    assert (allocation.label, allocation.ends_unix_s) == ("34.2", None)


def test_records_and_addresses_are_read() -> None:
    others = "JobId=35 ArrayJobId=33 Restarts=1\nJobId=33 ArrayJobId=33 Restarts=4\nJobId=34 ArrayJobId=33 Restarts=2"
    assert record_of("33", others)["Restarts"] == "4"
    assert (record_of("36", "JobId=35 Restarts=1")["Restarts"], record_of("36", "")) == ("1", {})
    fields = parse(NODES[0])
    assert (fields["NodeName"], fields["NodeAddr"], fields["State"]) == ("c1", "10.213.0.2", "ALLOCATED")
    assert parse(JOB.format(restarts=0, end=""))["TRES"] == "cpu=2,node=2"
    assert parse("CPUAlloc=1 Socks/Node=* Licenses=") == {"CPUAlloc": "1", "Socks/Node": "*", "Licenses": ""}
    for address in ("10.213.0.2", "no.such.node.invalid"):
        assert slurm_allocation.resolved(address) == address
    assert slurm_allocation.towards("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize(
    ("says", "message", "remedy"),
    [
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
         "job 34: slurm_load_jobs error: Invalid job id specified", "SLURM_JOB_ID names has ended"),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
         "Unable to contact slurm controller", "`scontrol show job` must work"),
        (None, "scontrol is not in PATH", "module"),
    ],
)  # fmt: skip
def test_errors_of_slurm_are_told_with_the_remedy(
    says: str | None, message: str, remedy: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    if says is not None:
        script(site / "scontrol", says)
    with pytest.raises(InfrastructureError if says else MissingTool) as caught:
        read()
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_a_job_without_nodes_has_not_begun(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    scontrol(site, JOB.format(restarts=0, end="Unknown"))
    (site / "hostnames.txt").write_text("")
    with pytest.raises(InfrastructureError, match="job 34 has no nodes"):
        read()


@pytest.mark.parametrize(
    "printed",
    [
        "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4,pmix_v3",
        "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: pmix\nsrun: pmix_v3\nsrun: pmix_v4",
    ],
)
def test_the_pmis_are_read_from_what_old_and_new_versions_print(site: Path, printed: str) -> None:
    script(site / "srun", f"echo '{printed}' >&2")
    assert {"none", "pmi2", "pmix", "pmix_v4", "pmix_v3"} <= listed_pmis()
    assert "pmix_v5" not in listed_pmis()
    script(site / "srun", "exit 1")
    assert listed_pmis() == frozenset()
