"""Write the report of a study between its blocks, as a watcher of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from markupsafe import Markup

from tare.errors import TareError
from tare.model import Cell, Summary, Trial, TrialKey
from tare.report import embed, render_html
from tare.report.html import prepare
from tare.report.jinja import templates
from tare.report.live.budget import LONGEST_S, CpuBudget
from tare.run.progress import Progress, duration
from tare.run.runner import Watcher
from tare.store.writer import Store
from tare.system.safe_files import write_whole

MARKER: Final = "<!-- tare: the state of the run -->"
"""Where the state goes; text of others cannot contain it, because the report escapes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnReport:
    """A report without the state of the run: what is before and after it, and of which launches it is."""

    before: str
    after: str
    as_of: str = ""
    looks: str = ""


class Live:
    """A watcher that passes everything on to the terminal's progress, and renews the page after each block.

    Nothing is done during a launch.
    """

    def __init__(
        self,
        progress: Progress,
        store: Store,
        page: Path,
        summary: Callable[[], Summary],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._store, self._page, self._summary = progress, store, page, summary
        self.budget = CpuBudget(clock)
        self._drawn = self._empty()
        self._failed = ""
        self._block: tuple[int, int, int] | None = None

    def __enter__(self) -> Self:
        """Load what the report needs before the first launch, and write the page; a run that resumes has figures."""
        prepare()
        self._renew()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say on the page that a run was ended early; a whole run writes its report itself."""
        if kind is not None:
            self._write(ended=True)

    def round_started(self, number: int, attempt: int) -> None:
        """Renew the page while the pods of a round are not being made yet."""
        self._progress.round_started(number, attempt)
        self._next_block(None)

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        """Pass it on."""
        self._progress.calibrated(cell, elapsed_s)

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        """Pass it on."""
        self._progress.launch_started(key, done, total)

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Renew the page before the first launch of a block."""
        self._progress.launching(keys)
        self._next_block((keys[0].round, keys[0].block, keys[0].attempt))

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Pass it on."""
        self._progress.trial_ended(trial, done, total)

    def _next_block(self, following: tuple[int, int, int] | None) -> None:
        """Renew the page if a block has ended: figures are of whole blocks."""
        ended, self._block = self._block not in {None, following}, following
        if ended:
            self._renew()

    def _renew(self) -> None:
        """Draw the report and write it, each if the budget allows it."""
        if self.budget.left_s <= 0.0:
            return
        with self.budget.spent():
            if (count := self._store.count) and self.budget.allows(count):
                self._draw(count)
            self._write()

    def _draw(self, count: int) -> None:
        try:
            with self.budget.drawing(count):
                summary = self._summary()
                if summary.rounds_done:
                    self._drawn = self._report(summary, count)
            self._failed = ""
        # The run must not end because a page about it cannot be drawn; its report raises the same error.
        except TareError as error:
            self._failed = error.message
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            self._failed = f"{type(error).__name__}: {error}"

    def _write(self, *, ended: bool = False) -> None:
        with suppress(OSError):  # as above
            write_whole(self._page, (self._drawn.before, self._state(ended=ended), self._drawn.after))

    def _state(self, *, ended: bool) -> str:
        """Return the box above the report."""
        position = self._progress.position
        return templates("tare.report.live").get_template("state.html.j2").render(
            ended=ended,
            position=position,
            left=duration(position.left_s) if position.total else "",
            at=time.strftime("%H:%M:%S"),
            drawn=self._drawn,
            note=self._note(),
        )  # fmt: skip

    def _note(self) -> str:
        """Return why the figures are not newer; "" if they are as new as can be."""
        if self._failed:
            return f"The figures cannot be shown: {self._failed}"
        if self.budget.too_large(self._store.count):
            return (
                f"The figures are not renewed here any more: this would hold the run up for more than {LONGEST_S:g} s. "
                "The report at the end has all of them."
            )
        return ""

    def _report(self, summary: Summary, count: int) -> DrawnReport:
        text = render_html(summary, self._store.trials, self._store, addition=_addition())
        before, _, after = text.partition(MARKER)
        rounds = max(self._store.plan.study.repetition.rounds, self._progress.position.rounds)
        return DrawnReport(
            before=before,
            after=after,
            as_of=f"{count:,} launches in {summary.rounds_done} of {rounds} rounds",
            looks=_looks_text(summary),
        )

    def _empty(self) -> DrawnReport:
        """Return the page without figures."""
        addition = _addition()
        style = embed.asset("tare.report", "templates/report.css")
        text = templates("tare.report.live").get_template("page.html.j2").render(
            name=self._store.plan.study.name,
            policy=embed.policy(scripts=(addition.script,), styles=(style, addition.style)),
            report_style=style,
            addition=addition,
        )  # fmt: skip
        before, _, after = text.partition(MARKER)
        return DrawnReport(before=before, after=after)


def _addition() -> embed.Addition:
    """Return what the report has while its study runs."""
    return embed.Addition(
        body=Markup(MARKER),  # noqa: S704 - our own
        script=embed.asset("tare.report.live", "templates/live.js"),
        style=embed.asset("tare.report.live", "templates/live.css"),
    )


def _looks_text(summary: Summary) -> str:
    """Return when verdicts are given: between looks there are none."""
    if summary.rounds_done in summary.looks:
        further = f", the next at {summary.next_look}" if summary.next_look else ""
        return f"verdicts are given at {summary.rounds_done} rounds{further}"
    if summary.next_look:
        return f"there are no verdicts before {summary.next_look} rounds"
    return f"the last verdicts were given at {summary.looks[-1]} rounds" if summary.looks else ""


@contextmanager
def followed(progress: Progress, store: Store, page: Path | None, summary: Callable[[], Summary]) -> Iterator[Watcher]:
    """Provide the watcher of a run: with a `page` it is renewed meanwhile, otherwise the terminal's progress alone."""
    if page is None:
        yield progress
        return
    with Live(progress, store, page, summary) as live:
        yield live
