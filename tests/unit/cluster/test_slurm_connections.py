"""A node of an allocation is reached by a step of the job, whose errors become one sentence each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.cluster.slurm_connections import check_same_type, explained, step_argv
from tare.errors import RefusedError
from tare.launch.srun import UNSET
from tare.remote.machine import this_machine

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
