"""Write the report of a study between its blocks, as a watcher of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from markupsafe import Markup

from tare.errors import TareError
from tare.model import Plan, Summary, TrialKey
from tare.report import embed, html_parts, remarks
from tare.report.html import prepare
from tare.report.jinja import templates
from tare.run.progress import Progress, duration
from tare.store.writer import Store
from tare.system.safe_files import write_whole

SHARE: Final = 0.01
"""The most of a run's time that goes into pages: after each one nothing is drawn for so many times as long."""


class Live(Progress):
    """Show a run's progress, and write its report so far after each block; nothing is done during a launch."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        page: Path,
        summary: Callable[[], Summary],
        clock: Callable[[], float] = time.monotonic,
        *,
        quiet: bool = False,
    ) -> None:
        super().__init__(plan, clock, quiet=quiet)
        self._store, self._page, self._summary = store, page, summary
        self._not_before_s = -math.inf
        self._block: tuple[int, int, int] | None = None

    def __enter__(self) -> Self:
        """Load what the report needs before the first launch, and write the page; a run that resumes has figures."""
        prepare()
        self._write()
        return super().__enter__()

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Say on the page that a run was ended early; a whole run writes its report itself."""
        super().__exit__(*error)
        if error[0] is not None:
            self._write(ended=True)

    def round_started(self, number: int, attempt: int) -> None:
        """Renew the page while the pods of a round are not being made yet."""
        super().round_started(number, attempt)
        self._next_block(None)

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Renew the page before the first launch of a block."""
        super().launching(keys)
        self._next_block((keys[0].round, keys[0].block, keys[0].attempt))

    def _next_block(self, following: tuple[int, int, int] | None) -> None:
        """Renew the page if a block has ended, unless the last page has taken too long for that."""
        ended, self._block = self._block not in {None, following}, following
        if ended and self._clock() >= self._not_before_s:
            self._write()

    def _write(self, *, ended: bool = False) -> None:
        """Write the page. If that fails the last one stays: the run goes on, and its report raises the same error."""
        began_s = self._clock()
        with suppress(TareError, OSError, ArithmeticError, LookupError, TypeError, ValueError):
            summary = self._summary()
            addition = self._state(remarks.looks_text(summary), ended=ended)
            write_whole(self._page, html_parts(summary, self._store.trials, self._store, addition))
        now_s = self._clock()
        self._not_before_s = now_s + (now_s - began_s) / SHARE

    def _state(self, looks: str, *, ended: bool) -> embed.Addition:
        """Return what the report has while its study runs: a box with the state of the run, and a script."""
        body = templates("tare.report.live").get_template("state.html.j2").render(
            ended=ended,
            position=self.position,
            left=duration(self.position.left_s),
            at=time.strftime("%H:%M:%S"),
            looks=looks,
        )  # fmt: skip
        return embed.Addition(
            body=Markup(body),  # noqa: S704 - our own, and escaped
            script=embed.asset("tare.report.live", "templates/live.js"),
            style=embed.asset("tare.report.live", "templates/live.css"),
        )
