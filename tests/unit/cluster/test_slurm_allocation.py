"""What Slurm's own programs print becomes an allocation: its nodes, their addresses, its end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tare.cluster import slurm_allocation
from tare.cluster.slurm_allocation import cores_per_node, listed_pmis, moment, parse, read, record_of, resolved
from tare.errors import InfrastructureError, MissingTool

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


def program(site: Path, name: str, script: str) -> None:
    (site / name).write_text(f"#!/bin/sh\n{script}\n")
    (site / name).chmod(0o755)


def scontrol(site: Path, job: str) -> None:
    answers = {"job.txt": job, "hostnames.txt": "c1\nc2\n", "node.txt": "\n".join(NODES)}
    for name, text in answers.items():
        (site / name).write_text(text)
    program(site, "scontrol", f'read_file() {{ while IFS= read -r line || [ "$line" ]; do echo "$line"; done; }}\n'
            f'read_file < {site}/$3.txt')  # fmt: skip


def test_outside_a_job_there_is_no_allocation_and_nothing_is_asked(site: Path) -> None:
    assert read() is None
    assert not list(site.iterdir())


def test_an_allocation_has_nodes_in_slurms_order_and_a_requeued_job_is_another(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    scontrol(site, JOB.format(restarts=0, end="2026-11-23T18:00:00"))
    allocation = read()
    assert allocation is not None
    assert allocation.names == ("c1", "c2")
    assert allocation.addresses == ("10.213.0.2", "10.213.0.3")
    assert allocation.ends_unix_s == time.mktime((2026, 11, 23, 18, 0, 0, 0, 0, -1))
    assert allocation.label == "34"
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    scontrol(site, JOB.format(restarts=2, end="Unknown"))
    allocation = read()
    assert allocation is not None
    assert allocation.label == "34.2"
    assert allocation.ends_unix_s is None


def test_a_record_is_found_among_others_and_its_fields_are_read() -> None:
    others = "JobId=35 ArrayJobId=33 Restarts=1\nJobId=33 ArrayJobId=33 Restarts=4\nJobId=34 ArrayJobId=33 Restarts=2"
    assert record_of("33", others)["Restarts"] == "4"
    assert record_of("36", "JobId=35 Restarts=1")["Restarts"] == "1"
    assert record_of("36", "") == {}
    fields = parse(NODES[0])
    assert (fields["NodeName"], fields["NodeAddr"], fields["State"]) == ("c1", "10.213.0.2", "ALLOCATED")
    assert parse(JOB.format(restarts=0, end=""))["TRES"] == "cpu=2,node=2"
    assert parse("CPUAlloc=1 Socks/Node=* Licenses=") == {"CPUAlloc": "1", "Socks/Node": "*", "Licenses": ""}


def test_errors_of_slurm_are_told_with_the_remedy(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "9999")
    program(site, "scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    with pytest.raises(InfrastructureError) as caught:
        read()
    assert "job 9999: slurm_load_jobs error: Invalid job id specified" in caught.value.message
    assert "SLURM_JOB_ID names has ended" in caught.value.remedy
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    program(site, "scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(InfrastructureError) as caught:
        read()
    assert "Unable to contact slurm controller" in caught.value.message
    assert "`scontrol show job` must work" in caught.value.remedy


def test_without_nodes_or_scontrol_the_reason_is_told(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    with pytest.raises(MissingTool, match="scontrol is not in PATH") as caught:
        read()
    assert "module" in caught.value.remedy
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    scontrol(site, JOB.format(restarts=0, end="Unknown"))
    (site / "hostnames.txt").write_text("")
    with pytest.raises(InfrastructureError, match="job 34 has no nodes"):
        read()


@pytest.mark.parametrize("text", ["", "Unknown", "None", "N/A", "2026-13-40T00:00:00"])
def test_a_time_that_slurm_does_not_know_is_none(text: str) -> None:
    assert moment(text) is None


def test_addresses_are_resolved_where_that_is_possible() -> None:
    assert resolved("10.213.0.2") == "10.213.0.2"
    assert resolved("no.such.node.invalid") == "no.such.node.invalid"
    assert slurm_allocation.towards("127.0.0.1") == "127.0.0.1"


def test_the_cpus_of_a_partition_are_those_of_its_nodes_and_the_default_one_is_marked(site: Path) -> None:
    rows = "main* c1 4\nmain* c2 2\nurgent c3 64"
    program(site, "sinfo", f'echo "$@" > {site}/asked; echo "{rows}"')
    assert cores_per_node() == (4, 2)
    program(site, "sinfo", f'echo "$@" > {site}/asked; echo "urgent c3 64"')
    assert cores_per_node("urgent") == (64,)
    assert "--partition urgent" in (site / "asked").read_text()


@pytest.mark.parametrize(
    "printed",
    [
        "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4,pmix_v3",
        "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: pmix\nsrun: pmix_v3\nsrun: pmix_v4",
    ],
)
def test_the_pmis_are_read_from_what_old_and_new_versions_print(site: Path, printed: str) -> None:
    program(site, "srun", f"echo '{printed}' >&2")
    assert {"none", "pmi2", "pmix", "pmix_v4", "pmix_v3"} <= listed_pmis()
    assert "pmix_v5" not in listed_pmis()
    program(site, "srun", "exit 1")
    assert listed_pmis() == frozenset()
