"""Of what a failed job said, the report shows the one sentence that tells why."""

from __future__ import annotations

import pytest

from tare.run.symptoms import LONGEST, last_words

RULE = "-" * 74
GONE = f"""{RULE}
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process.

  Local host: n0
{RULE}
"""
STATUS = f"""{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
{RULE}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Exit code:    7
{RULE}
"""
ABORT = f"""{RULE}
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 9.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
{RULE}
"""
ENDED_BY_SRUN = """srun: Terminating StepId=6.0
slurmstepd: error: *** STEP 6.0 ON c1 CANCELLED AT 2026-11-26T08:00:00 ***
srun: error: c1: task 0: Terminated
"""
CRASH = f"""[n1:00008] *** Process received signal ***
[n1:00008] Signal: Segmentation fault (11)
{RULE}
mpirun noticed that process rank 1 with PID 8 on node n1 exited on signal 11 (Segmentation fault).
{RULE}
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", ""),
        ("first\nno input file\n", "no input file"),
        (f"no input file\n{GONE}{STATUS}", "no input file"),
        (GONE + STATUS, ""),
        (
            "srun: error: c2: task 1: Segmentation fault\n" + ENDED_BY_SRUN,
            "srun: error: c2: task 1: Segmentation fault",
        ),
        ("a warning\nsrun: error: c2: task 1: Killed\n" + ENDED_BY_SRUN, "srun: error: c2: task 1: Killed"),
        ("no input file\nsrun: error: c2: task 1: Exited with exit code 2\n" + ENDED_BY_SRUN, "no input file"),
        (
            "srun: error: c2: task 1: Exited with exit code 2\n" + ENDED_BY_SRUN,
            "srun: error: c2: task 1: Exited with exit code 2",
        ),
        (ENDED_BY_SRUN, "srun: error: c1: task 0: Terminated"),
        ("no input file\nsrun: Terminating StepId=6.0\n", "no input file"),
        ("srun: Terminating StepId=6.0\n", "srun: Terminating StepId=6.0"),
        (GONE + ABORT, "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9"),
        (ABORT + GONE, "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9"),
        (
            CRASH + GONE,
            "mpirun noticed that process rank 1 with PID 8 on node n1 exited on signal 11 (Segmentation fault)",
        ),
        (f"{RULE}\nonly begun", "only begun"),
        (f"no input file\n{STATUS.partition(RULE)[2]}", "no input file"),
        (STATUS.partition(RULE)[2] + "no input file\n", "no input file"),
        (f"the job has been aborted.\n{RULE}\n{STATUS}no input file\n", "no input file"),
        (STATUS.replace(RULE, f"no input file{RULE}", 1), "no input file"),
        (f"size  time\n{'-' * 30}\nno input file\n{STATUS}", "no input file"),
        ("no input file\nsrun: cluster configuration lacks support for cpu binding\n", "no input file"),
        ("x" * 1000, "x" * LONGEST),
    ],
)
def test_the_program_s_own_last_line_comes_first_then_mpirun_s_most_telling_message(said: str, expected: str) -> None:
    assert last_words(said) == expected
