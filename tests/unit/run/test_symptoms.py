"""The messages with which an MPI breaks in containers, as they were seen, are told with cause and remedy."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tare.host.process import Result
from tare.model import Failed, Workload
from tare.run.outcome import judge
from tare.run.symptoms import SYMPTOMS, recognised

VADER_CRASH = """[vm:00001] *** Process received signal ***
[vm:00001] Signal: Segmentation fault (11)
[vm:00001] Signal code: Address not mapped (1)
[vm:00001] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f1b1ae5a050]
[vm:00001] [ 1] /usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_btl_vader.so(mca_btl_vader_sendi+0x591)[0x7f1b]
"""
NO_NETWORK = """[vm:26468] opal_ifinit: unable to find network interfaces.
[vm:26468] pmix_ifinit: unable to find network interfaces.
[vm:26468] OPAL ERROR: Unreachable in file ext3x_client.c at line 112
*** An error occurred in MPI_Init
"""
UCX_USERS = (
    "initial_address_exchange(145).:  ucx function returned with failed status(ucx_init.c 145 Shared memory error)"
)
NO_ROOM = """[n1:00197] PMIX ERROR: OUT-OF-RESOURCE in file ../../../src/client/pmix_client.c at line 323
[n1:00197] OPAL ERROR: Error in file ext3x_client.c at line 112
"""
UNREACHABLE = "[c2:00591] OPAL ERROR: Unreachable in file ext3x_client.c at line 112\n"
NO_PMI = """The application appears to have been direct launched using "srun",
but OMPI was not built with SLURM's PMI support and therefore cannot
execute.
"""
SEEN = {
    "no PMI of Slurm": NO_PMI,
    "request cut by Slurm": "slurmstepd-c2: error: mpi/pmi2: value not properly terminated in client request",
    "step limit": "srun: error: Unable to create step for job 30: Step limit reached for this job",
    "no room": NO_ROOM,
    "equal process numbers": VADER_CRASH,
    "private network": NO_NETWORK,
    "single copy forbidden": "[n0:7] Read -1, expected 131072, errno = 1",
    "single copy into another pid namespace": "[n0:7] Read -1, expected 131072, errno = 14",
    "single copy across user namespaces": "*** The Open MPI vader BTL is aborting the MPI job (via exit(3)).",
    "user namespaces": UCX_USERS,
    "private /dev/shm": "MPIDU_Init_shm_init(179)......: unable to allocate shared memory",
    "full /dev/shm": "[n0:00012] Signal: Bus error (7)\n[n0:00012] Failing at address: 0x7f00",
}
OTHERS = (
    "",
    "no input file",
    "Read 12 of 100 lines, errno = 0",
    "[n0:5] Signal: Segmentation fault (11)\n[n0:5] [ 0] ./solver(main+0x11)[0x55]",
    "mpirun noticed that process rank 0 exited on signal 9 (Killed).",
    "Read -1, expected 131072, errno = 11",
)


def test_every_symptom_has_a_message_that_was_seen() -> None:
    assert {symptom.name for symptom in SYMPTOMS} == set(SEEN)


@pytest.mark.parametrize("name", SEEN)
def test_a_message_tells_its_own_symptom_and_the_remedy(name: str) -> None:
    (symptom,) = [each for each in SYMPTOMS if each.name == name]
    words = f"some lines before\n{SEEN[name]}\nand after"
    assert recognised(words, hung=symptom.hangs) == symptom.cause
    assert recognised(words, hung=not symptom.hangs) == ""
    assert "remedy: " in symptom.cause
    assert [each.name for each in SYMPTOMS if each.pattern.search(SEEN[name])] == [name]


@pytest.mark.parametrize("words", OTHERS)
def test_other_failures_are_not_taken_for_one(words: str) -> None:
    assert recognised(words) == ""


def test_a_rank_that_was_ended_before_it_could_say_so_is_told_by_what_ucx_said() -> None:
    said = "[31240:0] mm_posix.c:219 UCX ERROR open(file_name=/proc/31241/fd/25 flags=0x0) failed: Permission denied"
    assert recognised(said).startswith("UCX reaches no shared memory of a rank in another user namespace")


def test_ranks_without_the_pmi_of_srun_are_not_taken_for_ranks_in_a_network_of_their_own() -> None:
    assert recognised(UNREACHABLE + NO_PMI) == recognised(NO_PMI)
    assert recognised(UNREACHABLE) != recognised(NO_PMI)


@pytest.mark.parametrize(("name", "told"), [("request cut by Slurm", True), ("step limit", False)])
def test_a_launch_at_its_time_limit_tells_of_what_hangs_only(name: str, told: bool) -> None:
    late = Result(argv=(), status=-15, stdout="", stderr=SEEN[name], elapsed_s=9.0, timed_out=True)
    launch = SimpleNamespace(cell=SimpleNamespace(workload=Workload(name="app", command=("app",))))
    outcome, _ = judge(launch, late, ())  # type: ignore[arg-type]
    assert isinstance(outcome, Failed)
    assert ("remedy: transport: ofi:tcp" in outcome.reason) is told
