"""Which launches can take turns, what is counted of those that do, and how they are compared pass by pass."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tare.agent import upkeep
from tare.analysis.stats import LEAST_IN_A_TURN
from tare.clusters import Site
from tare.model import Cell, Completed, Control, Failed, KernelSpec, Metric, MetricKind, Role
from tare.run import in_turns
from tare.run.deploy.hosts import Deployed
from tare.run.trial import Launched, in_the_same_passes
from tare.run.turns import TurnClient, TurnOutcome, TurnScheduler
from tare.study.plan.cells import expand
from tare.system.counters.monitor import Observed
from tare.system.counters.raw_readings import CounterReading
from tare.system.counters.values import Moment
from tare.system.process import Result, run
from tare.workloads import Parsed
from tare.workloads.output import BY_TURN, Payload
from unit.runs import known_study
from unit.summaries import latency
from waiting import wait_until

GIB = 1 << 30


def cells() -> list[Cell]:
    return [cell for cell in expand(known_study(), lambda *_: None).cells if cell.role is not Role.SELF]


def test_small_kernels_take_turns_as_far_as_memory_allows() -> None:
    assert in_turns.may(cells(), 8 * GIB)
    assert not in_turns.may(cells()[:1], 8 * GIB)
    assert not in_turns.may([], 8 * GIB)
    small = (KernelSpec(kernel="latency", message_bytes=8),)
    both = [replace(cell, workload=replace(cell.workload, kernels=small)) for cell in cells()]
    ranks = sum(cell.placement.ranks for cell in both)
    assert not in_turns.may(both, 4 * ranks * in_turns.RANK_BYTES)
    assert in_turns.may(both, 5 * ranks * in_turns.RANK_BYTES)


@pytest.mark.parametrize("which", [0, 1])
def test_one_that_cannot_leaves_each_on_its_own(which: int) -> None:
    own = cells()
    one = own[which]
    for other in (
        replace(one, workload=replace(one.workload, kernels=(), command=("./app",))),
        replace(one, environment=replace(one.environment, control=Control.DATA)),
        replace(one, placement=replace(one.placement, memory_per_container=GIB)),
        replace(one, placement=replace(one.placement, ranks_per_node=200)),
        replace(one, workload=replace(one.workload, kernels=(KernelSpec(kernel="bw", message_bytes=GIB, window=2),))),
    ):
        assert not in_turns.may([other if cell is one else cell for cell in own], 8 * GIB)


@pytest.mark.parametrize(
    ("spec", "memory", "allowed"),
    [
        ("kmi", 8 * GIB, True),
        ("npb-ep:class=S", 8 * GIB, True),
        ("npb-ft:class=C", 8 * GIB, False),
        ("net-tcp-stream", 8 * GIB, False),
        ("hpcg:nx=512,ny=512,nz=512", 8 * GIB, False),
        ("hpcg:nx=16,ny=16,nz=16", 8 * GIB, True),
    ],
)
def test_mini_applications_that_divide_their_work_take_turns_if_memory_allows(
    spec: str, memory: int, allowed: bool
) -> None:
    every = [replace(cell, workload=replace(cell.workload, kernels=(), miniapp=spec)) for cell in cells()]
    assert in_turns.may(every, memory) is allowed


def test_what_a_broken_launch_left_is_ended_and_nothing_else() -> None:
    ours, theirs = socket.socketpair()
    with socket.socket() as listener, theirs:
        listener.bind(("127.0.0.1", 0))
        table = TurnScheduler(listener)
        seat = table.seat(1, ours)
        script = "trap '' TERM HUP; read until_the_test_ends"
        mine, other = (
            subprocess.Popen(["/bin/sh", "-c", script, "tare-kernels", option], stdin=subprocess.PIPE)
            for option in (table.option(seat, 2), "--turns=2@127.0.0.1:1/0123456789abcdef")
        )
        site = cast("Site", SimpleNamespace(pids=lambda: {mine.pid, other.pid}))
        ended = partial(upkeep.signal_programs, [mine.pid, other.pid], signal.SIGKILL, ())
        try:
            # for a moment after a process has begun, the kernel has no command line of it
            wait_until(lambda: in_turns.own(site, seat.name) == [mine.pid], "command line of the rank")
            in_turns.end_rest(table, cast("Deployed", SimpleNamespace(end_named=ended)), seat)
            assert mine.wait() == -signal.SIGKILL
            assert other.poll() is None
        finally:
            for each in (mine, other):
                each.kill()
                each.communicate()
        table.close()


def test_every_program_of_a_launch_is_told_to_take_turns() -> None:
    argv = ("mpirun", "-n", "1", "/opt/bin/tare-kernels", "--order=0,1", "halo", ":", "-n", "1", "tare-kernels", "halo")
    told = in_turns.with_turns(argv, "--turns=2@a:1/b")
    assert told.count("--turns=2@a:1/b") == 2
    assert [told[told.index("--turns=2@a:1/b") - 1], told[-3]] == ["/opt/bin/tare-kernels", "tare-kernels"]


def test_a_section_begins_at_the_moment_at_which_the_one_before_it_ended() -> None:
    moments: list[Moment] = []
    begun: list[bool] = []

    def take(moment: Moment, *, whole: bool, begins: bool = False) -> CounterReading:
        moments.append(moment)
        begun.append(begins)
        return CounterReading(moment=moment, nodes=())

    cell = SimpleNamespace(workload=SimpleNamespace(time_limit_s=1.0))
    usages = iter((1.0, 2.0, 4.0))
    launch = SimpleNamespace(
        ready=SimpleNamespace(deployed=SimpleNamespace(take=take), cell=cell),
        site=SimpleNamespace(usage_s=lambda: next(usages)),
        sections=[], shares_pods=False, active_s=0.0, seat=None, thread=None, waits=True,
    )  # fmt: skip
    table = cast("TurnScheduler", SimpleNamespace(wait=lambda *_: TurnOutcome.READY))
    moment = in_turns._now(launch.site)
    for _ in range(2):
        moment = in_turns._section(table, cast("in_turns._Launch", launch), lambda: None, moment)
    first, second = moments[:2], moments[2:]
    assert second[0] is first[1], "nothing ran between them"
    assert second[1] is moment
    assert len({each.number for each in moments}) == 3
    assert {each.since for each in moments} == {moments[0].number}, "all are of one series"
    assert begun == [True, False] * 2
    assert [each.site_s for each in moments] == [1.0, 2.0, 2.0, 4.0]


def test_a_launch_still_runs_when_waiting_for_its_end_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def launched(*_: object, stop: socket.socket, **__: object) -> str:
        stop.recv(1)
        os.kill(os.getpid(), signal.SIGINT)
        may_end.wait()
        return "its result"

    monkeypatch.setattr(in_turns, "run_launch", launched)
    ours, theirs = socket.socketpair()
    launch = in_turns._Launch(
        ready=cast("in_turns.Ready", SimpleNamespace(cell=SimpleNamespace(key="one"))), padding=0,
        site=cast("Site", None), seat=TurnClient(ranks=1, ended=ours), ended=theirs, stop=socket.socketpair(),
    )  # fmt: skip
    launch.start()
    with pytest.raises(KeyboardInterrupt):
        launch.end()
    assert launch.waits
    assert launch.result is None
    may_end.set()
    launch.end()
    assert (launch.waits, cast("str", launch.result)) == (False, "its result")
    assert ours.recv(2) == b"e"
    launch.close()
    ours.close()


@pytest.mark.parametrize(("first", "printed"), [("echo before", "before\n"), ("exec >&- 2>&-", "")])
def test_a_command_is_ended_when_its_socket_says_so_as_at_its_time_limit(
    first: str, printed: str, tmp_path: Path
) -> None:
    for name in ("ready", "never"):
        os.mkfifo(tmp_path / name)
    script = f"{first}; echo > {tmp_path}/ready; read line < {tmp_path}/never"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stopper = threading.Thread(target=lambda: (tmp_path / "ready").read_text() and ours.send(b"s"))
        stopper.start()
        result = run(("/bin/sh", "-c", script), check=False, stop=theirs, at_limit=lambda: "seen")
        stopper.join()
    assert result.timed_out
    assert (result.stdout, result.at_limit) == (printed, "seen")
    assert result.status < 0


def test_a_command_that_ends_first_is_not_stopped() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        result = run(("echo", "done"), stop=theirs)
    assert (result.stdout, result.timed_out) == ("done\n", False)


SPEC = "npb-ep:class=A"


def launch_of(metric: Metric, **told: Any) -> Launched:
    """Return a launch that measured this, with what its program told of it."""
    parsed = Parsed(metrics=(metric,), ranks=(), payload=Payload(), mpi_library="", init_s=0.0, measured_s=1.0, **told)
    return Launched(
        result=Result(argv=("x",), status=0, stdout="", stderr="", elapsed_s=1.0, began_s=0.0),
        outcome=Completed(metrics=(metric,)), parsed=parsed, observed=Observed(), active_s=1.0,
    )  # fmt: skip


def launched(turns: list[float] | None) -> Launched:
    """Return a launch whose parts took so long in its turns, and whose cost is that of ten parts."""
    typical = 10 * float(np.median(turns or [1.0]))
    metric = latency(20.0, key=SPEC, kind=MetricKind.RATE, median_s=typical, p99_s=30.0, statistic="mean over turns")
    samples = {} if turns is None else {f"{SPEC}/{BY_TURN}": np.asarray(turns)}
    return launch_of(metric, samples=samples)


def typical_s(one: Launched) -> float:
    (metric,) = one.outcome.metrics
    assert metric.value == 20.0, "the mean stays"
    return metric.typical_s


def test_a_drift_that_all_saw_is_in_no_difference() -> None:
    first = launched([1.0, 1.0, 2.0, 2.0, 2.0])  # the machine became slow after two passes
    second = launched([1.1, 1.1, 1.1, 2.2, 2.2])  # here after three, in the middle of a pass
    alone = typical_s(second) / typical_s(first)
    made = in_the_same_passes([first, second], 5)
    assert alone == pytest.approx(0.55)
    assert typical_s(made[1]) / typical_s(made[0]) == pytest.approx(1.1)


FAILED = replace(launched([1.0, 2.0]), outcome=Failed(reason="it ended", status=1))
OTHERS = {"untold": launched(None), "failed": FAILED, "short": launched([1.0, 1.0])}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_has_no_turns_of_the_same_passes_is_left_alone(other: Launched) -> None:
    one = launched([1.0, 1.5, 2.0])
    assert in_the_same_passes([one, other], 3) == [one, other]
    assert in_the_same_passes([one], 3) == [one]
    assert in_the_same_passes([], 3) == []


KERNEL = "latency:8"
TURNS = 10


def kernel(seconds: np.ndarray, *, key: str = KERNEL) -> Launched:
    """Return a launch of a kernel whose iterations took so long."""
    median_s, p99_s = (float(np.quantile(seconds, part)) for part in (0.5, 0.99))
    metric = latency(float(seconds.mean()), key=key, median_s=median_s, p99_s=p99_s, samples=len(seconds))
    return launch_of(metric, iterations={key: seconds})


def metric_of(one: Launched) -> Metric:
    (metric,) = one.outcome.metrics
    return metric


def drawn(rng: np.random.Generator, scale: float, *, burst: int, slow: float = 0.1, count: int = 200) -> np.ndarray:
    """Return iterations, one in ten `slow` times slower, on a machine that drifts, with a burst in one turn."""
    drift = np.repeat(1.0 + 0.05 * np.arange(TURNS), count)
    seconds = scale * drift * np.where(np.arange(TURNS * count) % 10 == 0, 1.0 + slow, 1.0)
    seconds *= 1.0 + 0.001 * rng.random(seconds.size)
    seconds[burst * count : burst * count + 5] *= 1000.0
    return seconds


def test_of_a_kernel_the_typical_and_the_mean_iteration_of_turns_are_compared_pass_by_pass() -> None:
    rng = np.random.default_rng(3)
    bare, dearer = drawn(rng, 1e-5, burst=2), drawn(rng, 1.1e-5, burst=7, slow=0.5)
    one, other = (metric_of(each) for each in in_the_same_passes([kernel(bare), kernel(dearer)], TURNS))
    assert other.typical_s / one.typical_s == pytest.approx(1.1, rel=0.002)
    assert other.turn_mean_s / one.turn_mean_s == pytest.approx(1.1 * 1.05 / 1.01, rel=0.002)
    assert other.turn_spread_s / one.turn_spread_s == pytest.approx(1.1 * 0.5 / 0.1, rel=0.02)
    assert (one.value, other.value) == (bare.mean(), dearer.mean()), "the mean of all iterations stays"


@pytest.mark.parametrize(("count", "mean", "spread"), [(4, False, False), (LEAST_IN_A_TURN, True, False)])
def test_turns_of_few_iterations_have_a_typical_one_only(count: int, mean: bool, spread: bool) -> None:
    rng = np.random.default_rng(4)
    launches = [kernel(rng.uniform(1.0, 2.0, TURNS * count)) for _ in range(3)]
    for before, after in zip(launches, in_the_same_passes(launches, TURNS), strict=True):
        assert metric_of(after).median_s != metric_of(before).median_s
        assert (metric_of(after).turn_mean_s is not None) is mean
        assert (metric_of(after).turn_spread_s is not None) is spread


def test_what_no_pass_can_be_made_of_is_left_alone_and_messages_of_a_window_count() -> None:
    rng = np.random.default_rng(4)
    one = kernel(rng.uniform(1.0, 2.0, TURNS * 5))
    zero = kernel(np.append(rng.uniform(1.0, 2.0, TURNS * 5 - 1), 0.0))
    few = kernel(rng.uniform(1.0, 2.0, TURNS - 1))
    another = kernel(rng.uniform(1.0, 2.0, TURNS * 5), key="barrier")
    assert in_the_same_passes([one, zero, few, another], TURNS) == [one, zero, few, another]
    rng = np.random.default_rng(4)
    launches = []
    for _ in range(2):
        one = kernel(rng.uniform(1.0, 2.0, TURNS * 2))
        windowed = replace(metric_of(one), done_per_sample=64 * 1024, message_bytes=1024)
        launches.append(replace(one, outcome=Completed(metrics=(windowed,))))
    assert all(metric_of(one).turn_mean_s is not None for one in in_the_same_passes(launches, TURNS))
