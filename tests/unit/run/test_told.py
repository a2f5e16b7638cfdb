"""What a launch said is told in one sentence: its last words, symptoms of MPIs, transports and neighbours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tare.model import Environment, Failed, Placement, RankPlace, Share, Workload
from tare.run.outcome import judge
from tare.run.ping_pong import PingPong, described, expected
from tare.run.symptoms import SYMPTOMS, recognised
from tare.run.transport_log import by_rank, judged
from tare.system.counters.monitor import Observed
from tare.system.process import Result
from tare.workloads.failure_reasons import LONGEST, LOOKED_AT, reason_said

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
ABORTED = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9"
TASK = "srun: error: c2: task 1:"
ENDED_BY_SRUN = """srun: Terminating StepId=6.0
slurmstepd: error: *** STEP 6.0 ON c1 CANCELLED AT 2026-11-26T08:00:00 ***
srun: error: c1: task 0: Terminated
"""
CRASHED = "mpirun noticed that process rank 1 with PID 8 on node n1 exited on signal 11 (Segmentation fault)"
CRASH = f"""[n1:00008] *** Process received signal ***
[n1:00008] Signal: Segmentation fault (11)
{RULE}
{CRASHED}.
{RULE}
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", ""),
        ("first\nno input file\n", "no input file"),
        (f"no input file\n{GONE}{STATUS}", "no input file"),
        (GONE + STATUS, ""),
        (f"{TASK} Segmentation fault\n{ENDED_BY_SRUN}", f"{TASK} Segmentation fault"),
        (f"a warning\n{TASK} Killed\n{ENDED_BY_SRUN}", f"{TASK} Killed"),
        (f"no input file\n{TASK} Exited with exit code 2\n{ENDED_BY_SRUN}", "no input file"),
        (f"{TASK} Exited with exit code 2\n{ENDED_BY_SRUN}", f"{TASK} Exited with exit code 2"),
        (ENDED_BY_SRUN, "srun: error: c1: task 0: Terminated"),
        ("no input file\nsrun: Terminating StepId=6.0\n", "no input file"),
        ("srun: Terminating StepId=6.0\n", "srun: Terminating StepId=6.0"),
        (GONE + ABORT, ABORTED),
        (ABORT + GONE, ABORTED),
        (CRASH + GONE, CRASHED),
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
    assert reason_said(said) == expected


RECORDED = yaml.safe_load((Path(__file__).parents[2] / "data" / "said.yaml").read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_of_recorded_outputs_the_first_cause_is_told(name: str) -> None:
    case = RECORDED[name]
    found = reason_said(case.get("stderr", ""), case.get("stdout", ""))
    assert found == case.get("reason", "")
    assert not found.endswith(":")


def test_records_of_tare_are_no_words_of_a_program_and_a_line_that_is_cut_is_none() -> None:
    cut = f"cannot {'x' * LOOKED_AT}\n"
    assert reason_said("", f'@tare {{"type": "error"}}\n{cut}done\n') == "its standard output ends in: done"


def failed(result: Result) -> Failed:
    """Return what is made of a launch that has failed."""
    launch = SimpleNamespace(cell=SimpleNamespace(workload=Workload(name="app", command=("app",))), pods_s=0.0)
    outcome, _ = judge(launch, result, Observed())  # type: ignore[arg-type]
    assert isinstance(outcome, Failed)
    return outcome


def test_a_launch_that_fails_tells_what_it_printed_and_one_that_hangs_the_first_error() -> None:
    printed = "step 1\nset_mempolicy: Operation not permitted\n"
    outcome = failed(Result(argv=(), status=3, stdout=printed, stderr=ABORT, elapsed_s=1.0))
    assert outcome.reason == "it ended with status 3: set_mempolicy: Operation not permitted"
    assert outcome.stderr_tail.endswith(f"standard output ends in:\n{printed.rstrip()}")
    late = Result(argv=(), status=-15, stdout="step 1\n", stderr="no route to host n1\n", elapsed_s=9.0, timed_out=True)
    outcome = failed(late)
    assert outcome.reason == "it did not end within its time limit of 60 s: no route to host n1"
    assert outcome.stderr_tail.endswith("standard output ends in:\nstep 1")
    assert failed(replace(late, stderr="")).reason == "it did not end within its time limit of 60 s"


@pytest.mark.parametrize("words", ["Bus error", "write output.dat: No space left on device"])
def test_a_cause_that_rests_on_one_word_is_only_perhaps_one(words: str) -> None:
    assert "perhaps" in recognised(words)
    assert "Docker" not in recognised(words)


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
    "full shared memory of the container": (
        "It appears as if there is not enough space for /dev/shm/osc_sm.d0.1.0.4 (the shared-memory backing file)"
    ),
    "missing Python module": "ModuleNotFoundError: No module named 'mpi4py'",
    "another MPI": "tare-wall: the program has another MPI: /opt/v/lib/libmpi.so.12",
    "spawned processes": "tare-wall: started by MPI_Comm_spawn\nmpirun noticed that process rank 0 exited on signal 13",
    "spawning": "[n0:00007] *** MPI_ERR_SPAWN: could not spawn processes",
    "limit of processes": "thread 2040: Resource temporarily unavailable",
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
    "full /dev/shm": "write /dev/shm/segment: No space left on device",
    "full file system": "write output.dat: Disk quota exceeded",
    "bus error": "[n0:00012] Signal: Bus error (7)\n[n0:00012] Failing at address: 0x7f00",
}
OTHERS = (
    "",
    "no input file",
    "Read 12 of 100 lines, errno = 0",
    "[n0:5] Signal: Segmentation fault (11)\n[n0:5] [ 0] ./solver(main+0x11)[0x55]",
    "mpirun noticed that process rank 0 exited on signal 9 (Killed).",
    "Read -1, expected 131072, errno = 11",
)


def test_every_symptom_has_a_message_and_what_was_seen_first_tells() -> None:
    assert {symptom.name for symptom in SYMPTOMS} == set(SEEN)
    said = "[31240:0] mm_posix.c:219 UCX ERROR open(file_name=/proc/31241/fd/25 flags=0x0) failed: Permission denied"
    assert recognised(said).startswith("UCX reaches no shared memory of a rank in another user namespace")
    assert recognised(UNREACHABLE + NO_PMI) == recognised(NO_PMI)
    assert recognised(UNREACHABLE) != recognised(NO_PMI)


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


@pytest.mark.parametrize(("name", "told"), [("request cut by Slurm", True), ("step limit", False)])
def test_a_launch_at_its_time_limit_tells_of_what_hangs_only(name: str, told: bool) -> None:
    late = Result(argv=(), status=-15, stdout="", stderr=SEEN[name], elapsed_s=9.0, timed_out=True)
    assert ("remedy: transport: ofi:tcp" in failed(late).reason) is told


OPEN_MPI = """[1,0]<stderr>:[n0:00045] select: component ob1 selected
[1,0]<stderr>:[n0:00045] mca: bml: Using self btl for send to [[87,1],0] on node n0
[1,0]<stderr>:[n0:00045] mca: bml: Using tcp btl for send to [[87,1],1] on node n1
[1,1]<stderr>:[n1:00046] select: component ob1 selected
[1,1]<stderr>:[n1:00046] mca: bml: Using {other} btl for send to [[87,1],0] on node n0
"""
HYDRA = """[0] [1795.1] [n0:9:0] ucp_worker.c:1 UCX  INFO  ep_cfg[1]: tag(tcp/data0 tcp/ctl0)
[1] [1795.1] [n1:9:0] ucp_worker.c:1 UCX  INFO  ep_cfg[1]: tag(tcp/data0 tcp/ctl0)
"""


def test_ranks_that_chose_the_same_are_told_once_and_others_each() -> None:
    found = by_rank("chosen by the MPI", OPEN_MPI.format(other="tcp"))
    assert found.words == "chosen by the MPI: pml ob1, btl tcp"
    assert found.of_ranks == {0: ("pml ob1", "btl tcp"), 1: ("pml ob1", "btl tcp")}
    assert found.reason is None
    found = by_rank("chosen by the MPI", OPEN_MPI.format(other="vader"))
    assert found.words == "chosen by the MPI: rank 0: pml ob1, btl tcp; rank 1: pml ob1, btl vader"


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "[prterun-n0-77@1,0]<stdout>: "])
def test_the_lanes_of_ucx_are_read_with_any_launchers_prefix(prefix: str) -> None:
    said = "\n".join(prefix + line for line in HYDRA.splitlines())
    assert by_rank("chosen by the MPI", said).taken == ("ucx tcp/ctl0", "ucx tcp/data0")


def test_lines_of_ranks_are_read_as_their_own_and_silence_contradicts_nothing() -> None:
    whole = "".join(line.replace("[1]:", f"[{index}]:") + "\n" for index, line in enumerate(HYDRA.splitlines()))
    broken = whole.replace("\n[1] ", "\n[0] ==== data structure summary ====[1] ")
    assert broken != whole
    assert by_rank("chosen by the MPI", broken) == by_rank("chosen by the MPI", whole)
    assert set(by_rank("chosen by the MPI", broken).of_ranks) == {0, 1}
    assert by_rank("chosen by the MPI", "hello").words == "chosen by the MPI did not tell"
    assert by_rank("chosen by the MPI", "hello").reason is None
    assert judged("tcp", "UCX", "hello", port=False).reason is not None


DOCKER = Environment(name="docker", runtime="docker", network="bridge", image="debian-openmpi")
BARE = Environment(name="bare", runtime="bare", network="bridge")
APART = Share.NONE


@pytest.mark.parametrize(
    ("environment", "placement", "part"),
    [
        (BARE, Placement(ranks_per_node=1), "no neighbours"),
        (BARE, Placement(ranks_per_node=4, containers_per_node=2, share=APART), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2, containers_per_node=2), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2, containers_per_node=2, share=APART), "use the data network: each has a"),
        (DOCKER, Placement(ranks_per_node=4, containers_per_node=2, share=APART), "of another container are reached"),
    ],
)
def test_what_neighbours_should_talk_over(environment: Environment, placement: Placement, part: str) -> None:
    assert part in expected(environment, placement)


def rank(number: int, *, beside: tuple[int, ...] = (0, 1), cpus: tuple[int, ...] | None = None) -> RankPlace:
    own = (number,) if cpus is None else cpus
    return RankPlace(rank=number, host="b/n0", hostname="n0", pid=number, cpus=own, shared_memory_ranks=beside)


def measured(*ranks: RankPlace, smallest_s: float = 3e-7) -> PingPong:
    return PingPong(half_round_trips_s={1: smallest_s, 65536: 5e-6, 1 << 20: 9e-5}, ranks=ranks)


def test_neighbours_that_share_memory_are_told_with_times_and_others_with_the_remedy() -> None:
    assert described(measured(rank(0), rank(1))) == (
        "half round trip between ranks 0 and 1 of n0: 1 B 0.30 us, 64 KiB 5.00 us, 1 MiB 90.00 us",
        "all 2 ranks of this host share memory",
    )
    _, said = described(measured(rank(0), rank(1), smallest_s=4e-3))
    assert "something else uses their cores" in said
    _, loss = described(measured(rank(0, beside=(0,)), rank(1, beside=(1,))))
    assert loss.startswith("transport loss: ranks 0 and 1")
    assert "share: pod" in loss
    _, collapse = described(measured(rank(0, cpus=(0,)), rank(1, cpus=(0,))))
    assert collapse.startswith("binding collapse: 2 ranks of one node share 1 core (0)")
    assert "binding: disjoint" in collapse
