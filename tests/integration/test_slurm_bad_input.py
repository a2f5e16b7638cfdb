"""Jobs and allocations that cannot be used: one sentence that says what, where and what to do, and the right exit code.

The cluster has no slurmdbd: where accounts or a QOS are not checked, sbatch takes any.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.live import live, wait_for
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import UID, lend

pytestmark = live("slurm")
STUDY = """name: bad
cluster: slurm
environments: {environments}
placements: [2x1]
workloads: {{micro: {{kernels: [{{barrier: {{iterations: 20, warmup: 5}}}}]}}}}
repetition: {{rounds: 1, max_rounds: 1, reruns: 0, turns: 2}}
a_a: true
"""
BARE = "[bare]"
WAITS = (
    ": > said; tare submit STUDY --allocations 1 --wait --pending 1s 2>> said & "
    "until grep -q 'has been waiting' said; do sleep 0.1; done; kill -TERM $!; wait $!; cat said >&2"
)
"""Interrupts what waits for a job once it has told so; the words of an earlier test are gone by then."""
UNTIL_ENDED = 'until [ -z "$(squeue --noheader --job=$SLURM_JOB_ID --states=running)" ]; do sleep 0.1; done'
INSIDE = "salloc --quiet --nodes=2 --exclusive"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmNodes]:
    with slurm_nodes(2, cores=1) as made:
        lend(made.cache, image=False)
        yield made


@pytest.fixture(autouse=True)
def no_jobs(cluster: SlurmNodes) -> Iterator[None]:
    """End a test's jobs, so that the next one has all nodes."""
    yield
    cluster.shell(f"scancel --user={UID}")
    cluster.wait_until_idle()


def tare(cluster: SlurmNodes, command: str, *, environments: str = BARE) -> subprocess.CompletedProcess[str]:
    """Run a command in which STUDY is a study; nothing of it may be an internal error."""
    study = cluster.folder / "bad.yaml"
    study.write_text(STUDY.format(environments=environments))
    done = cluster.shell(command.replace("STUDY", str(study)))
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    return done


def refused(cluster: SlurmNodes, code: int, command: str, *, environments: str = BARE) -> str:
    """Run a command that must be refused before anything is launched; return what tare said about it."""
    done = tare(cluster, command, environments=environments)
    assert done.returncode == code, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("tare: ")]
    assert len([line for line in told if "can decide nothing" not in line]) == 1, done.stderr
    assert "launches done" not in done.stderr
    return done.stderr


@contextmanager
def configured(cluster: SlurmNodes, line: str, sign: str) -> Iterator[None]:
    """Add a line to slurm.conf; `sign` is in what `scontrol show config` prints when it holds."""
    file = cluster.folder / "slurm.conf"
    before = file.read_text()
    file.write_text(f"{before}{line}\n")
    try:
        cluster.root("scontrol", "reconfigure")
        wait_for(lambda: sign in " ".join(cluster.root("scontrol", "show", "config").stdout.split()), sign)
        yield
    finally:
        file.write_text(before)
        cluster.root("scontrol", "reconfigure")
        wait_for(lambda: sign not in " ".join(cluster.root("scontrol", "show", "config").stdout.split()), "end")


@contextmanager
def partition(cluster: SlurmNodes, **changed: str) -> Iterator[None]:
    """Change the partition `urgent`; each change names its value and, after a blank, the usual one."""
    for number in (0, 1):
        words = [f"{name}={value.split(' ')[number]}" for name, value in changed.items()]
        done = cluster.root("scontrol", "update", "partitionname=urgent", *words)
        assert done.returncode == 0, done.stderr
        if not number:
            yield


@contextmanager
def wrapper(cluster: SlurmNodes, script: str) -> Iterator[None]:
    """Put a site's own `srun` before the real one in the user's PATH."""
    path = cluster.home / "bin" / "srun"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    try:
        yield
    finally:
        path.unlink()


# --- what is submitted --------------------------------------------------------------------------------------------


def test_what_a_site_does_not_have_is_refused_with_the_option_that_asks_for_it(cluster: SlurmNodes) -> None:
    said = refused(cluster, 2, "tare submit STUDY --partition nosuch")
    assert "slurm refuses the job: there is no such partition: `sinfo` lists them; set --partition (" in said
    assert "Invalid partition name specified" in said
    assert "job.sh" in said
    assert "no node has these features" in refused(cluster, 2, "tare submit STUDY --constraint nosuch")


def test_what_a_partition_does_not_allow_is_refused_where_the_site_checks_it(cluster: SlurmNodes) -> None:
    with configured(cluster, "EnforcePartLimits=ALL", "EnforcePartLimits = ALL"):
        with partition(cluster, AllowAccounts="physics ALL"):
            said = refused(cluster, 2, "tare submit STUDY --partition urgent --account nosuch")
            assert "this account or partition is not yours: ask your site which to use, and set --account" in said
        with partition(cluster, MaxTime="10 UNLIMITED"):
            said = refused(cluster, 2, "tare submit STUDY --partition urgent --time 2h")
            assert "the time limit is longer than the site allows: set --time" in said
        with partition(cluster, MaxNodes="1 UNLIMITED"):
            said = refused(cluster, 2, "tare submit STUDY --partition urgent")
            assert "the partition does not have so many nodes for one job" in said


def test_a_job_that_cannot_begin_says_why_and_an_interrupt_leaves_it_in_the_queue(cluster: SlurmNodes) -> None:
    cluster.root("scontrol", "update", "nodename=c2", "state=drain", "reason=bad memory")
    try:
        done = tare(cluster, f"{WAITS}; squeue --noheader --format=%T")
    finally:
        cluster.root("scontrol", "update", "nodename=c2", "state=resume")
    first, last = [line for line in done.stderr.splitlines() if line.startswith("tare: ")]
    assert "has been waiting for " in first
    assert "nodes that it needs are down, drained or reserved: see `sinfo -R`" in first
    assert "this command no longer waits for job " in last
    assert "which continues: `scancel " in last
    assert "run the same command" not in done.stderr  # it would submit the study twice
    assert done.stdout.splitlines()[-1] == "PENDING"


def test_a_job_that_the_partition_will_never_run_says_why(cluster: SlurmNodes) -> None:
    with partition(cluster, MaxNodes="1 UNLIMITED"):
        done = tare(cluster, WAITS.replace("STUDY", "STUDY --partition urgent"))
    assert "it asks for more nodes than the partition gives a job (PartitionNodeLimit)" in done.stderr


# --- the allocation -----------------------------------------------------------------------------------------------


def test_outside_of_an_allocation_a_run_says_how_to_get_one(cluster: SlurmNodes) -> None:
    said = refused(cluster, 2, "tare run STUDY")
    assert "this command is not inside a Slurm allocation" in said
    assert "submit the study with `tare submit`, or run this command inside `salloc` or a batch script" in said


def test_an_allocation_that_has_ended_is_named(cluster: SlurmNodes) -> None:
    said = refused(cluster, 5, "SLURM_JOB_ID=9999 tare run STUDY")
    assert "Slurm does not describe job 9999" in said
    assert "has ended, or is another cluster's: ask for a new allocation" in said
    said = refused(cluster, 5, f"{INSIDE} sh -c 'scancel $SLURM_JOB_ID; {UNTIL_ENDED}; tare run STUDY'")
    assert "the allocation has ended" in said


def test_more_nodes_than_the_allocation_has_are_refused(cluster: SlurmNodes) -> None:
    said = refused(cluster, 2, "salloc --quiet --nodes=1 tare run STUDY")
    assert "this allocation has 1 node: ask for more, or use fewer nodes" in said


def test_nodes_of_different_types_are_named_with_their_types(cluster: SlurmNodes) -> None:
    other = cluster.folder / "cpuinfo"
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    other.write_text("\n".join("model name\t: Other CPU" if line.startswith("model name") else line for line in lines))
    assert cluster.root("mount", "--bind", str(other), "/proc/cpuinfo", node=1).returncode == 0
    try:
        said = refused(cluster, 2, f"{INSIDE} tare run STUDY")
    finally:
        cluster.root("umount", "/proc/cpuinfo", node=1)
    assert "the nodes of this allocation are of 2 types, whose figures cannot be compared: c1: " in said
    assert "; c2: Other CPU, 1 cores, Linux " in said
    assert "ask for one type, by partition or constraint" in said


# --- steps --------------------------------------------------------------------------------------------------------


def test_a_pmi_that_slurm_does_not_have_is_refused(cluster: SlurmNodes) -> None:
    said = refused(cluster, 2, f"{INSIDE} tare run STUDY", environments="{bare: {launch: srun, pmi: pmix_v5}}")
    assert "this Slurm has no PMI pmix_v5: set pmi to one of `srun --mpi=list`" in said


def test_a_pmi_that_the_mpi_was_not_built_for_is_refused_with_the_one_that_it_uses(cluster: SlurmNodes) -> None:
    done = tare(cluster, f"{INSIDE} tare run STUDY --fresh", environments="{bare: {launch: srun, pmi: pmi2}}")
    assert done.returncode == 2, done.stderr
    assert "ranks of openmpi would not find each other by pmi2: use pmi: pmix" in done.stderr


def test_a_limit_of_steps_is_named(cluster: SlurmNodes) -> None:
    with configured(cluster, "MaxStepCount=1", "MaxStepCount = 1"):
        said = refused(cluster, 5, f"{INSIDE} tare run STUDY --fresh")
    assert "cannot be reached: the job has reached the site's limit of steps (MaxStepCount)" in said


def test_a_wrapper_of_srun_that_only_adds_words_does_no_harm(cluster: SlurmNodes) -> None:
    with wrapper(cluster, 'echo "site: defaults are loaded" >&2; exec /usr/bin/srun "$@"'):
        done = tare(cluster, f"{INSIDE} tare run STUDY --fresh")
    assert done.returncode in {0, 3}, done.stderr


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ('echo "site: use the portal" >&2; exit 7', "site: use the portal: try `srun --overlap -w c1 hostname`"),
        ('PATH=/nowhere exec /usr/bin/srun "$@"', "it has no python3 in PATH: install Python 3.9 or later there"),
    ],
)
def test_a_wrapper_of_srun_that_starts_no_step_is_told_in_its_words(
    cluster: SlurmNodes, script: str, sentence: str
) -> None:
    assert os.access("/usr/bin/srun", os.X_OK)
    with wrapper(cluster, script):
        said = refused(cluster, 5, f"{INSIDE} tare run STUDY --fresh")
    assert f"node c1 cannot be reached: {sentence}" in said
