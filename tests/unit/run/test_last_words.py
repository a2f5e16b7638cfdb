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
        (GONE + ABORT, "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9"),
        (ABORT + GONE, "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9"),
        (
            CRASH + GONE,
            "mpirun noticed that process rank 1 with PID 8 on node n1 exited on signal 11 (Segmentation fault)",
        ),
        (f"{RULE}\nonly begun", "only begun"),
        ("no input file\nsrun: cluster configuration lacks support for cpu binding\n", "no input file"),
        ("x" * 1000, "x" * LONGEST),
    ],
)
def test_the_program_s_own_last_line_comes_first_then_mpirun_s_most_telling_message(said: str, expected: str) -> None:
    assert last_words(said) == expected
