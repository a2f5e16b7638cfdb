"""Run the launches of a block at the same time, in turns, so that shares of their measurements alternate.

A launch is started, gets ready and sleeps; then the next is started. The launches then take turns, in a new random
order in every pass, and end one after the other. Only one is active at any time, so the counters between the beginning
and the end of its sections are its own (docs/adr/0017-turns.md).
"""

from __future__ import annotations

import math
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from tare.clusters import Site
from tare.errors import InfrastructureError
from tare.model import Cell, Control
from tare.run.deploy.hosts import Deployed
from tare.run.outcome import ReadyCell, run_launch
from tare.run.turns import TurnClient, TurnOutcome, TurnScheduler
from tare.system.counters import raw_readings
from tare.system.counters.raw_readings import CounterReading
from tare.system.counters.values import CounterValues, Moment
from tare.system.fault import reach
from tare.system.namespaces import command_line
from tare.system.process import Result
from tare.system.signals import uninterrupted
from tare.workloads import plugin_of
from tare.workloads.kernel_order import in_flight_bytes

MOST_RANKS: Final = 256
"""Largest number of ranks that wait at the same time, over all launches."""
MOST_OF_MEMORY: Final = 0.25
"""Largest share of this machine's memory that all of them together may use."""
RANK_BYTES: Final = 40 << 20
"""Memory of a waiting rank without its messages, most of it the MPI library's."""
PROGRAMS: Final = frozenset({"tare-kernels", "tare-miniapps"})
"""The programs that have the option `--turns`."""
LEFT_LIMIT_S: Final = 2.0
"""How long to wait for the remaining processes of a failed launch after they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLaunch:
    """A launch that has ended, with counters that exclude the time while it slept; `active_s` is the remaining time."""

    result: Result
    before: CounterValues
    after: CounterValues
    active_s: float


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def may(cells: Sequence[Cell], memory: int) -> bool:
    """Return whether the launches of one group's cells can take turns.

    They must be small launches over a control network of what divides its work. `memory` is the machine's, in bytes.
    """
    if len(cells) < 2 or any(not _fits(cell) for cell in cells):
        return False
    ranks = sum(cell.placement.ranks for cell in cells)
    return ranks <= MOST_RANKS and sum(map(_bytes, cells)) <= MOST_OF_MEMORY * memory


def _fits(cell: Cell) -> bool:
    """Return whether a cell's launch can take turns.

    The messages of all kernels are in memory together, so a launch with a memory limit runs on its own; so does one
    whose weight against other programs is set, because that is set on its node.
    """
    if not plugin_of(cell.workload).takes_turns(cell.workload) or cell.environment.control is Control.DATA:
        return False
    return not (cell.placement.memory_per_container or cell.placement.cpu_weight)


def _bytes(cell: Cell) -> int:
    """Return an upper bound of a launch's memory in bytes.

    That of kernels is their ranks' and that of all-to-all messages, sent and received.
    """
    ranks = cell.placement.ranks
    if not cell.workload.kernels:
        return math.ceil(ranks * plugin_of(cell.workload).memory_bytes(cell.workload, cell.placement))
    messages = 2 * ranks * ranks * sum(in_flight_bytes(kernel.token) for kernel in cell.workload.kernels)
    return ranks * RANK_BYTES + messages


def with_turns(argv: Sequence[str], option: str) -> tuple[str, ...]:
    """Return a launch's command line with the option that makes its programs take turns."""
    made: list[str] = []
    for token in argv:
        made += [token, option] if token.rpartition("/")[2] in PROGRAMS else [token]
    return tuple(made)


@dataclass(slots=True, kw_only=True)
class _Launch:
    """A launch at a table. It runs in a thread that writes the result and then signals `ended`.

    With `shares_pods` another launch at the table uses the same pods, so that all counters are read in every section.
    """

    ready: ReadyCell
    padding: int
    site: Site
    seat: TurnClient
    ended: socket.socket
    stop: tuple[socket.socket, socket.socket]
    shares_pods: bool = False
    sections: list[tuple[CounterReading, CounterReading]] = field(default_factory=list)
    active_s: float = 0.0
    result: Result | None = None
    error: BaseException | None = None
    thread: Thread | None = None
    done: Event = field(default_factory=Event)
    """Set as the thread's last act. `Thread.join`, once interrupted, takes a thread that runs for ended."""

    @property
    def waits(self) -> bool:
        """Return whether it waits for a turn."""
        return self.thread is not None and not self.done.is_set()

    def start(self) -> None:
        thread = Thread(target=self._go, name=self.ready.cell.key, daemon=True)
        with uninterrupted():
            thread.start()
            self.thread = thread

    def _go(self) -> None:
        try:
            self.result = run_launch(
                self.ready,
                self.padding,
                self.site,
                key=self.seat.key,
                stop=self.stop[1],
                its_own=partial(own, self.site, self.seat.name),
            )
        except BaseException as error:  # noqa: BLE001  # it is raised when the launch is collected
            self.error = error
        finally:
            try:
                self.ended.send(b"e")
            finally:
                self.done.set()

    def stop_it(self) -> None:
        """Request its end if it still runs."""
        self.stop[0].send(b"s")

    def end(self) -> None:
        """End it if it still runs, and wait until it has ended."""
        self.stop_it()
        if self.thread is not None:
            self.done.wait()

    def close(self) -> None:
        for each in (self.ended, *self.stop):
            each.close()


def run(
    site: Site, listener: socket.socket, launches: Sequence[tuple[ReadyCell, int]], *, turns: int, drawn: str
) -> list[WatchedLaunch]:
    """Run launches, each with its padding, in `turns` turns; `drawn` is the seed for the orders of turns.

    A launch is ended if it fails or exceeds its time limit, not counting the time it waits; the others continue. Raises
    the errors of starting a launch.
    """
    table = TurnScheduler(listener)
    made: list[_Launch] = []
    try:
        moment = _now(site)
        for ready, padding in launches:
            with uninterrupted():
                made.append(_seated(table, site, ready, padding, turns=turns))
                made[-1].shares_pods = sum(other.deployed is ready.deployed for other, _ in launches) > 1
            moment = _section(table, made[-1], made[-1].start, moment)
        reach("turns:seated")
        for turn in range(turns):
            waiting = [each for each in made if each.waits]
            random.Random(f"{drawn}/{turn}").shuffle(waiting)
            for each in waiting:
                moment = _section(table, each, partial(table.give, each.seat), moment)
        for each in made:
            if each.waits:
                moment = _section(table, each, partial(table.give, each.seat), moment, to_end=True)
        return [_watched(each) for each in made]
    finally:
        with uninterrupted():
            for each in made:
                each.stop_it()
            for each in made:
                each.end()
                each.close()
            table.close()


def own(site: Site, name: str) -> list[int]:
    """Return the processes of one launch, ranks and their starters: their command lines contain the seat's name."""
    return [pid for pid in site.pids() if name in " ".join(command_line(Path(f"/proc/{pid}")))]


def end_rest(table: TurnScheduler, deployed: Deployed, seat: TurnClient) -> None:
    """Kill what remains of a failed launch before others take turns; ranks in containers outlive the launcher."""
    table.dismiss(seat)
    until = time.monotonic() + LEFT_LIMIT_S
    while deployed.end_named(seat.name) and time.monotonic() < until:
        time.sleep(0.01)


def _seated(table: TurnScheduler, site: Site, ready: ReadyCell, padding: int, *, turns: int) -> _Launch:
    ours, theirs = socket.socketpair()
    seat = table.seat(ready.cell.placement.ranks, ours)
    return _Launch(
        ready=ready.with_argv(with_turns(ready.argv, table.option(seat, turns))),
        padding=padding,
        site=site,
        seat=seat,
        ended=theirs,
        stop=socket.socketpair(),
    )


def _now(site: Site, since: int = 0) -> Moment:
    """Return this moment, at which no launch is active, under a number of its own; without `since` a series begins."""
    number = time.monotonic_ns()
    return Moment(number=number, since=since or number, site_s=site.usage_s())


def _section(
    table: TurnScheduler, launch: _Launch, begin: Callable[[], None], start: Moment, *, to_end: bool = False
) -> Moment:
    """Let a launch work until it sleeps again or ends; end it if its time is up. Return the moment of its end.

    That is the `start` of the next section: what launches share is read once for both. The network of a lab's node that
    launches have used before is only read at the end of a section.
    """
    deployed, whole = launch.ready.deployed, launch.shares_pods or not launch.sections
    before, began = deployed.take(start, whole=whole, begins=True), time.monotonic()
    left_s = launch.ready.cell.workload.time_limit_s - launch.active_s
    begin()
    waited = table.wait(launch.seat, left_s)
    if waited is TurnOutcome.TIME_LIMIT or (to_end and waited is not TurnOutcome.ENDED):
        launch.end()
    if waited is not TurnOutcome.READY and launch.thread is not None:
        launch.done.wait()
    if launch.thread is not None and not launch.waits and (launch.result is None or launch.result.status != 0):
        end_rest(table, deployed, launch.seat)
    launch.active_s += time.monotonic() - began
    end = _now(launch.site, start.since)
    after = deployed.take(end, whole=launch.shares_pods or not launch.waits)
    launch.sections.append((before, after))
    return end


def _watched(launch: _Launch) -> WatchedLaunch:
    if launch.error is not None:
        raise launch.error
    if launch.result is None:
        raise InfrastructureError(f"the launch of {launch.ready.cell.key} has no result")
    before, after = raw_readings.joined_readings(launch.sections)
    return WatchedLaunch(result=launch.result, before=before, after=after, active_s=launch.active_s)
