"""Which launches can take turns, and what is counted of those that do."""

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
from typing import cast

import pytest

from tare.cluster import Site
from tare.counters.monitor import CounterValues, Moment, Reading, joined
from tare.deploy.hosts import Deployed
from tare.host.process import run
from tare.model import Cell, Control, KernelSpec, Role
from tare.node_service import upkeep
from tare.plan.cells import expand
from tare.run import in_turns
from tare.run.turns import Seat, Table, Waited
from unit.runs import known_study

GIB = 1 << 30


def cells() -> list[Cell]:
    return [cell for cell in expand(known_study(), lambda *_: None).cells if cell.role is not Role.SELF]


def test_small_kernels_of_several_environments_take_turns() -> None:
    assert in_turns.may(cells(), 8 * GIB)
    assert not in_turns.may(cells()[:1], 8 * GIB)
    assert not in_turns.may([], 8 * GIB)


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


def test_the_memory_of_waiting_ranks_is_bounded() -> None:
    small = (KernelSpec(kernel="latency", message_bytes=8),)
    both = [replace(cell, workload=replace(cell.workload, kernels=small)) for cell in cells()]
    ranks = sum(cell.placement.ranks for cell in both)
    assert not in_turns.may(both, 4 * ranks * in_turns.RANK_BYTES)
    assert in_turns.may(both, 5 * ranks * in_turns.RANK_BYTES)


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
        table = Table(listener)
        seat = table.seat(1, ours)
        script = "trap '' TERM HUP; read until_the_test_ends"
        mine, other = (
            subprocess.Popen(["/bin/sh", "-c", script, "tare-kernels", option], stdin=subprocess.PIPE)
            for option in (table.option(seat, 2), "--turns=2@127.0.0.1:1/0123456789abcdef")
        )
        site = cast("Site", SimpleNamespace(pids=lambda: {mine.pid, other.pid}))
        ended = partial(upkeep.end_named, [mine.pid, other.pid])
        try:
            assert in_turns.own(site, seat.key) == [mine.pid]
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


def reading(number: int) -> CounterValues:
    return CounterValues(
        interfaces={(7, "eth0"): (number, 2 * number, 3 * number, 4 * number), (9, "gone"): (number,) * 4},
        growing={("", "n0", "net 7"): {"TcpRetransSegs": number}},
        busy_s=float(number),
        steal_s=number / 2,
        softirq_s=number / 4,
        job_s=number / 5,
        ours_s=number / 8,
        throttled_s=number / 10,
    )


def test_what_happens_between_sections_is_not_counted() -> None:
    before, after = joined([(reading(100), reading(110)), (reading(500), reading(503)), (reading(900), reading(907))])
    assert before == reading(100)
    assert after.interfaces == reading(120).interfaces
    assert after.growing == reading(120).growing
    for name in ("busy_s", "steal_s", "softirq_s", "job_s", "ours_s", "throttled_s"):
        assert getattr(after, name) == pytest.approx(getattr(reading(120), name)), name


def test_a_section_begins_at_the_moment_at_which_the_one_before_it_ended() -> None:
    moments: list[Moment] = []
    begun: list[bool] = []

    def take(moment: Moment, *, whole: bool, begins: bool = False) -> Reading:
        moments.append(moment)
        begun.append(begins)
        return Reading(moment=moment, nodes=())

    cell = SimpleNamespace(workload=SimpleNamespace(time_limit_s=1.0))
    usages = iter((1.0, 2.0, 4.0))
    launch = SimpleNamespace(
        ready=SimpleNamespace(deployed=SimpleNamespace(take=take), cell=cell),
        site=SimpleNamespace(usage_s=lambda: next(usages)),
        sections=[], shares_pods=False, active_s=0.0, seat=None, thread=None, waits=True,
    )  # fmt: skip
    table = cast("Table", SimpleNamespace(wait=lambda *_: Waited.READY))
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


def test_a_counter_that_is_not_read_in_every_section_is_left_out() -> None:
    lost = replace(reading(503), interfaces={(7, "eth0"): (503, 1006, 1509, 2012)}, throttled_s=None)
    _, after = joined([(reading(100), reading(110)), (reading(500), lost)])
    assert set(after.interfaces) == {(7, "eth0")}
    assert after.throttled_s is None


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
        ready=cast("in_turns.Ready", SimpleNamespace(cell=SimpleNamespace(key="one"))), padding=0, kills={},
        site=cast("Site", None), seat=Seat(ranks=1, ended=ours), ended=theirs, stop=socket.socketpair(),
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
