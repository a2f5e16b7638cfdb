"""Compose the live page: the report as of its last rendering, and above it the state of the run at this moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from tare.errors import TareError
from tare.live.budget import Budget
from tare.live.discards import Discards
from tare.model import Summary
from tare.report import embed, render_html
from tare.report.jinja import templates
from tare.run.progress import Position, duration
from tare.store.writer import Store

MARKER: Final = "<!-- tare: the state of the run -->"
"""Where the state goes; text of others cannot contain it, because the report escapes it."""
REFRESH_S: Final = 20
"""Interval at which a browser without scripts loads the page again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A rendering of the report, in two parts: before and after the state of the run."""

    number: int
    before: bytes
    after: bytes
    trials: int = 0
    as_of: str = ""
    looks: str = ""


class Page:
    """The page of one run. `summary` computes the summary of the trials stored so far."""

    def __init__(self, results: Store, summary: Callable[[], Summary], token: str, budget: Budget) -> None:
        self._results = results
        self._summary = summary
        self._token = token
        self._budget = budget
        self.discards = Discards()
        self.position = Position()
        self.now = "getting ready: the cluster comes up"
        self.ended = ""
        self.stale = True
        self._failed = ""
        self._report = self._empty()

    @property
    def number(self) -> str:
        """Return the number of the report that the page shows, as text; "0" before the first."""
        return str(self._report.number)

    def renew(self) -> None:
        """Render the report if it has changed and the budget allows it."""
        count = self._results.count
        if not self.stale or not count or not self._budget.allows_rendering(count):
            return
        self.stale = False
        try:
            with self._budget.of_rendering(count):
                self._render(count)
            self._failed = ""
        except (TareError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            # The run must not end because a page about it cannot be drawn; its report raises the same error.
            self._failed = f"{type(error).__name__}: {error}"

    def _render(self, count: int) -> None:
        summary = self._summary()
        if summary.rounds_done:
            self._report = self._rendered(summary, count)

    def html(self) -> bytes:
        """Return the page."""
        return self._report.before + self._state().encode() + self._report.after

    def progress(self) -> bytes:
        """Return the state of the run as JSON, for the page's script."""
        return json.dumps(
            {"html": self._state(), "title": self._title(), "report": self.number, "ended": bool(self.ended)}
        ).encode()

    def _title(self) -> str:
        done, total = self.position.done, self.position.total
        return f"{done}/{total} {self._results.plan.study.name}" if total else self._results.plan.study.name

    def _state(self) -> str:
        report = self._report
        return templates("tare.live").get_template("state.html.j2").render(
            now=self.now,
            ended=self.ended,
            position=self.position,
            left=duration(self.position.left_s) if self.position.total else "",
            at=time.strftime("%H:%M:%S"),
            report=report,
            note=self._note(),
            discards=self.discards,
            folder=self._results.path,
        )  # fmt: skip

    def _note(self) -> str:
        """Return why the figures are not newer; "" if they are as new as can be."""
        if self._failed:
            return f"The figures cannot be shown: {self._failed}"
        if self.stale and self._budget.too_large(self._results.count):
            return (
                "The figures are not renewed here any more, because this would hold the run up for more than 5 s; "
                "the report at the end has all."
            )
        return ""

    def _rendered(self, summary: Summary, count: int) -> Report:
        number = self._report.number + 1
        text = render_html(summary, self._results.trials, self._results, addition=self._addition(number))
        before, _, after = text.partition(MARKER)
        rounds = max(self._results.plan.study.repetition.rounds, self.position.rounds)
        return Report(
            number=number,
            before=before.encode(),
            after=after.encode(),
            trials=count,
            as_of=f"{count:,} launches in {summary.rounds_done} of {rounds} rounds",
            looks=_looks_text(summary),
        )

    def _empty(self) -> Report:
        """Return the page without figures."""
        addition = self._addition(0)
        report_style = embed.asset("tare.report", "templates/report.css")
        text = templates("tare.live").get_template("page.html.j2").render(
            name=self._results.plan.study.name,
            policy=embed.policy(scripts=(addition.script,), styles=(report_style, addition.style), connect="'self'"),
            report_style=report_style,
            addition=addition,
        )  # fmt: skip
        before, _, after = text.partition(MARKER)
        return Report(number=0, before=before.encode(), after=after.encode())

    def _addition(self, number: int) -> embed.Addition:
        """Return what the report has while its study runs."""
        body = templates("tare.live").get_template("frame.html.j2").render(number=number, marker=MARKER)
        head = templates("tare.live").get_template("head.html.j2").render(token=self._token, refresh_s=REFRESH_S)
        return embed.Addition(
            head=Markup(head),  # noqa: S704 - our own template, which escapes
            body=Markup(body),  # noqa: S704
            script=embed.asset("tare.live", "templates/live.js"),
            style=embed.asset("tare.live", "templates/live.css"),
        )


def _looks_text(summary: Summary) -> str:
    """Return when verdicts are given: between looks there are none."""
    if summary.rounds_done in summary.looks:
        further = f", the next at {summary.next_look}" if summary.next_look else ""
        return f"verdicts are given at {summary.rounds_done} rounds{further}"
    if summary.next_look:
        return f"there are no verdicts before {summary.next_look} rounds"
    return f"the last verdicts were given at {summary.looks[-1]} rounds" if summary.looks else ""
