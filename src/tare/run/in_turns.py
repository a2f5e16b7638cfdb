"""Run the launches of a block at the same time, in turns: each is measured in shares, next to the others' shares.

A launch is started, gets ready and sleeps, then the next is started; then they take turns in an order that is random in
every pass, and end one after the other. Only one is ever at work, so that counters between the beginning and the end of
its sections are its own (docs/adr/0017-turns.md).
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final

from tare.cluster import Site
from tare.errors import InfrastructureError
from tare.host.process import Result
from tare.host.signals import uninterrupted
from tare.model import Cell, Control
from tare.node import monitor
from tare.run import job
from tare.run.outcome import Ready, run_launch
from tare.run.turns import Seat, Table, Waited
from tare.workloads.kernel_order import PROGRAM, in_flight_bytes

MOST_RANKS: Final = 256
"""Ranks that wait at the same time, of all launches together."""
MOST_OF_MEMORY: Final = 0.25
"""Share of this machine's memory that all of them may take."""
RANK_BYTES: Final = 40 << 20
"""Memory of a rank that waits, besides its messages: the MPI library's, mostly."""
LEFT_LIMIT_S: Final = 2.0
"""How long to wait for what a broken launch left, once it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A launch that has ended, with counters that leave out what happened while it slept.

    `active_s` is how long it was at work, `kills` how many processes its containers' memory limits had killed before.
    """

    result: Result
    before: monitor.Reading
    after: monitor.Reading
    active_s: float
    kills: Mapping[str, int]


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def may(cells: Sequence[Cell], memory: int) -> bool:
    """Tell whether launches of these cells, of one group, can take turns: kernels over a control network, and small.

    `memory` is that of the machine, in bytes.
    """
    if len(cells) < 2 or any(not _fits(cell) for cell in cells):
        return False
    ranks = sum(cell.placement.ranks for cell in cells)
    return ranks <= MOST_RANKS and sum(map(_bytes, cells)) <= MOST_OF_MEMORY * memory


def _fits(cell: Cell) -> bool:
    """Messages of all kernels are in memory together, so what limits memory has each launch on its own."""
    kernels, over_control = bool(cell.workload.kernels), cell.environment.control is not Control.DATA
    return kernels and over_control and not cell.placement.memory_per_container


def _bytes(cell: Cell) -> int:
    """Return how many bytes a launch needs at most: its ranks, and their messages, all to all, sent and received."""
    ranks = cell.placement.ranks
    messages = 2 * ranks * ranks * sum(in_flight_bytes(kernel.token) for kernel in cell.workload.kernels)
    return ranks * RANK_BYTES + messages


def with_turns(argv: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the command line of a launch whose kernels are told to take turns."""
    made: list[str] = []
    for token in argv:
        made += [token, option] if token.rpartition("/")[2] == PROGRAM else [token]
    return tuple(made)


@dataclass(slots=True, kw_only=True)
class _Launch:
    """A launch at a table: it runs in a thread, which writes its result and then to `ended`."""

    ready: Ready
    padding: int
    site: Site
    seat: Seat
    ended: socket.socket
    stop: tuple[socket.socket, socket.socket]
    kills: Mapping[str, int]
    sections: list[tuple[monitor.Reading, monitor.Reading]] = field(default_factory=list)
    active_s: float = 0.0
    result: Result | None = None
    error: BaseException | None = None
    thread: Thread | None = None

    @property
    def waits(self) -> bool:
        """Tell whether it waits for a turn."""
        return self.thread is not None and self.thread.is_alive()

    def start(self) -> None:
        thread = Thread(target=self._go, name=self.ready.cell.key, daemon=True)
        with uninterrupted():
            thread.start()
            self.thread = thread

    def _go(self) -> None:
        try:
            self.result = run_launch(
                self.ready, self.padding, self.site, stop=self.stop[1], its_own=partial(own, self.site, self.seat.key)
            )
        except BaseException as error:  # noqa: BLE001  # it is raised where the launch is collected
            self.error = error
        finally:
            self.ended.send(b"e")

    def stop_it(self) -> None:
        """Let it be ended if it still runs."""
        self.stop[0].send(b"s")

    def end(self) -> None:
        """End it if it still runs, and wait until it has ended."""
        self.stop_it()
        if self.thread is not None:
            self.thread.join()

    def close(self) -> None:
        for each in (self.ended, *self.stop):
            each.close()


def run(
    site: Site, listener: socket.socket, launches: Sequence[tuple[Ready, int]], *, turns: int, drawn: str
) -> list[Watched]:
    """Run launches, each with its padding, in so many turns; `drawn` is what the orders of turns are drawn from.

    A launch that fails or takes longer than its time limit, its waiting left out, is ended; the others go on. Raises
    what starting a launch raises.
    """
    table = Table(listener)
    made: list[_Launch] = []
    try:
        for ready, padding in launches:
            with uninterrupted():
                made.append(_seated(table, site, ready, padding, turns=turns))
            _section(table, made[-1], made[-1].start)
        for turn in range(turns):
            waiting = [each for each in made if each.waits]
            random.Random(f"{drawn}/{turn}").shuffle(waiting)
            for each in waiting:
                _section(table, each, partial(table.give, each.seat))
        for each in made:
            if each.waits:
                _section(table, each, partial(table.give, each.seat), to_end=True)
        return [_watched(each) for each in made]
    finally:
        with uninterrupted():
            for each in made:
                each.stop_it()
            for each in made:
                each.end()
                each.close()
            table.close()


def own(site: Site, key: str) -> list[int]:
    """Return the ranks of one launch, and what started them: those whose command line has the key of its seat."""
    return [pid for pid in site.pids() if key.encode() in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def end_rest(table: Table, site: Site, seat: Seat) -> None:
    """End what a broken launch has left, before others have their turns; ranks in containers outlive their launcher."""
    table.dismiss(seat)
    until = time.monotonic() + LEFT_LIMIT_S
    while (left := own(site, seat.key)) and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _seated(table: Table, site: Site, ready: Ready, padding: int, *, turns: int) -> _Launch:
    ours, theirs = socket.socketpair()
    seat = table.seat(ready.cell.placement.ranks, ours)
    return _Launch(
        ready=replace(ready, argv=with_turns(ready.argv, table.option(seat, turns))),
        padding=padding,
        site=site,
        seat=seat,
        ended=theirs,
        stop=socket.socketpair(),
        kills=job.memory_kills(ready.deployed),
    )


def _section(table: Table, launch: _Launch, begin: Callable[[], None], *, to_end: bool = False) -> None:
    """Let a launch begin to work and wait until it sleeps again, or ends; end it where its time is up."""
    before, began = monitor.read(launch.ready.places, launch.site.usage_s()), time.monotonic()
    left_s = launch.ready.cell.workload.time_limit_s - launch.active_s
    begin()
    waited = table.wait(launch.seat, left_s)
    if waited is Waited.TIME_LIMIT or (to_end and waited is not Waited.ENDED):
        launch.end()
    if waited is not Waited.READY and launch.thread is not None:
        launch.thread.join()
    if launch.thread is not None and not launch.waits and (launch.result is None or launch.result.status != 0):
        end_rest(table, launch.site, launch.seat)
    launch.active_s += time.monotonic() - began
    launch.sections.append((before, monitor.read(launch.ready.places, launch.site.usage_s())))


def _watched(launch: _Launch) -> Watched:
    if launch.error is not None:
        raise launch.error
    if launch.result is None:
        raise InfrastructureError(f"the launch of {launch.ready.cell.key} has no result")
    before, after = monitor.joined(launch.sections)
    return Watched(result=launch.result, before=before, after=after, active_s=launch.active_s, kills=launch.kills)
