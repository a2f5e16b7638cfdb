"""Show a run's progress on stderr: the running launch, the number of finished launches, the remaining time.

A terminal gets a progress bar. Otherwise one line is written per launch, at most one every five seconds.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from tare.analysis.summary.disturbance import REPEATED_SHARE
from tare.model import Cell, Completed, Plan, Trial, TrialKey
from tare.model.text import printable
from tare.study.plan.cells import available, estimate_pods_s, estimate_trial_s

INTERVAL_S: Final = 5.0


class Watcher(Protocol):
    """Follow a run, as a progress bar does. Neither `done` nor `total` counts repeats."""

    def round_started(self, number: int, attempt: int) -> None:
        """Note that a round begins, counted from 0."""

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        """Record how long a workload's calibration launch took, which precedes all of its trials."""

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        """Note that a trial begins."""

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Do what must not be done during a launch: these trials start when it returns, one, or several in turns."""

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Note that a trial is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a run is: rounds begun, launches done without repeats, and the estimated remaining seconds.

    `rounds`, `total` and `left_s` are 0 until the first launch starts.
    """

    round: int = 0
    rounds: int = 0
    done: int = 0
    total: int = 0
    left_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Pace:
    """Estimate the remaining time from the median times so far, of each cell and of making a round's pods.

    A cell that has not run yet is expected to take as long as the other cells of its group. If none of them has run,
    the calibration's time is used, or the plan's estimate, by as much longer as other cells took than theirs.
    """

    plan: Plan
    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    pods_s: list[float] = field(default_factory=list)
    calibrated_s: dict[str, float] = field(default_factory=dict)
    repeats: int = 0
    _in_block: set[str] = field(default_factory=set)

    def ended(self, key: TrialKey, took_s: float, done: int) -> None:
        """Record the duration of a launch, and the number of launches done."""
        self.took_s[key.cell].append(took_s)
        self.repeats += key.repeat > 0
        if done % len(available(self.plan)) == 0:
            self._in_block.clear()
        else:
            self._in_block.add(key.cell)

    def left_s(self, done: int, total: int, rounds_to_begin: int) -> float:
        """Return the estimated remaining time in seconds."""
        cells = available(self.plan)
        blocks = total // len(cells) - done // len(cells)
        launches_s = sum(self._cell_s(cell) * (blocks - (cell.key in self._in_block)) for cell in cells)
        made = sum(map(len, self.took_s.values())) - self.repeats
        again = min(REPEATED_SHARE, self.repeats / made) if made else 0.0
        return launches_s * (1 + again) + rounds_to_begin * self._pods_s()

    def _cell_s(self, cell: Cell) -> float:
        if own := self.took_s.get(cell.key):
            return median(own)
        known = [
            median(self.took_s[c.key]) for c in available(self.plan) if c.group == cell.group and c.key in self.took_s
        ]
        if known:
            return median(known)
        return self.calibrated_s.get(cell.workload.name) or estimate_trial_s(cell) * self._factor()

    def _factor(self) -> float:
        """Return by how much the launches so far took longer than estimated; 1 before the first."""
        cells = [cell for cell in available(self.plan) if self.took_s.get(cell.key)]
        estimated = sum(map(estimate_trial_s, cells))
        return sum(median(self.took_s[cell.key]) for cell in cells) / estimated if estimated else 1.0

    def _pods_s(self) -> float:
        if self.pods_s:
            return median(self.pods_s)
        return sum({(c.environment, c.placement): estimate_pods_s(c) for c in available(self.plan)}.values())


class Progress:
    """Follow a run on stderr; a context manager, so that a progress bar never outlives the run.

    If it is `quiet`, only launches that did not complete are told.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False) -> None:
        self._plan = plan
        self._clock = clock
        self._quiet = quiet
        self._pace = Pace(plan=plan)
        self._said_s = -INTERVAL_S
        self._began_s = clock()
        self._making_pods = False
        self._round = 0
        self._done = self._total = 0
        self.position = Position()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty() and not quiet:
            text = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), MofNCompleteColumn())
            left = TextColumn("{task.fields[left]}", markup=False)
            self._bar = Bar(*text, left, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("starting", total=None, left="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()
        elif self._total and not self._quiet:
            self._say(f"{self._done} of {self._total} launches done")

    def round_started(self, number: int, attempt: int) -> None:
        """Show that a new round starts."""
        self._round, self._making_pods, self._began_s = number, True, self._clock()
        self.position = replace(self.position, round=number + 1)
        again = f", attempt {attempt + 1}" if attempt else ""
        self._show(f"round {number + 1}{again}: making the environments, then the first launch")

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        """Print how long a launch in the baseline takes, and expect the same of the other environments."""
        self._pace.calibrated_s[cell.workload.name] = elapsed_s
        if not self._quiet:
            self._say(f"{cell.workload.name}: one launch in {cell.environment.name} takes {duration(elapsed_s)}")
        self._began_s += elapsed_s

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        """Show the launch that runs now."""
        now_s = self._clock()
        if self._making_pods:
            self._pace.pods_s.append(max(0.0, now_s - self._began_s))
            self._making_pods = False
        self._began_s = now_s
        rounds = total // (len(available(self._plan)) * self._plan.study.repetition.blocks_per_round)
        left_s = self._pace.left_s(done, total, max(0, rounds - self._round - 1))
        self.position = Position(round=key.round + 1, rounds=rounds, done=done, total=total, left_s=left_s)
        again = ", again" if key.repeat else ""
        self._show(
            f"round {key.round + 1} of {rounds}: {key.cell}{again}", done, total, f"about {duration(left_s)} left"
        )

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Do nothing: `launch_started` has shown the launch."""

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Record the duration, and print a failure at once."""
        self._pace.ended(trial.key, self._clock() - self._began_s, done)
        self.position = replace(self.position, done=done, total=total)
        self._done, self._total = done, total
        if not isinstance(trial.outcome, Completed):
            reason = printable(getattr(trial.outcome, "reason", ""))
            self._say(f"{type(trial.outcome).__name__}: {trial.key.cell}, round {trial.key.round + 1}: {reason}")
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def _show(self, what: str, done: int = 0, total: int = 0, left: str = "") -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what, left=left)
            if total:
                self._bar.update(self._task, completed=done, total=total)
        elif not self._quiet and self._clock() - self._said_s >= INTERVAL_S:
            self._said_s = self._clock()
            self._say(f"{what}; {done} of {total} launches done, {left}" if total else what)

    def _say(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """Return a duration in an easily readable unit."""
    if 0 < seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
