"""Arrange a results folder for the tables: trials numbered in order of execution, with the cell of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from tare.analysis.summary import summarise
from tare.analysis.summary.rows import self_name
from tare.analysis.summary.select import PlannedCells, Selection, select
from tare.model import Cause, Cell, Completed, Metric, Role, Summary, Trial
from tare.store.results import Results


@dataclass(frozen=True, slots=True)
class NumberedTrial:
    """A trial with its number (from 1, in order of execution), its cell, its row, and whether it counts."""

    number: int
    trial: Trial
    cell: Cell
    environment: str
    counts: bool

    @property
    def group(self) -> str:
        """Return the group of its cell."""
        return self.cell.group

    @property
    def completed(self) -> bool:
        """Tell whether the launch has figures that count."""
        return self.counts and isinstance(self.trial.outcome, Completed)

    @property
    def metrics(self) -> dict[str, Metric]:
        """Return its metrics by key, none if it did not complete."""
        return {metric.key: metric for metric in self.trial.metrics}


def numbered(
    plan: PlannedCells, trials: Iterable[Trial], selection: Selection, own_name: str
) -> tuple[NumberedTrial, ...]:
    """Return trials in order of execution; `own_name` is that of the row of A/A."""
    cells = {cell.key: cell for cell in plan.cells}
    ordered = sorted(trials, key=lambda trial: (trial.started_unix_s, trial.position))
    return tuple(
        NumberedTrial(number, trial, cell := cells[trial.key.cell], row_name(cell, own_name), selection.counts(trial))
        for number, trial in enumerate(ordered, start=1)
    )


def row_name(cell: Cell, own_name: str) -> str:
    """Return the environment of a cell as the report names it; A/A has a name of its own."""
    return own_name if cell.role is Role.SELF else cell.environment.name


Explain = Callable[[Results, Summary], tuple[Cause, ...]]
"""Returns the causes of the costs in a results folder, whose summary is given."""


def unexplained(_results: Results, _summary: Summary) -> tuple[Cause, ...]:
    """Return no cause."""
    return ()


class Source:
    """The contents of a results folder; what costs time is computed at the first use."""

    def __init__(self, results: Results, summary: Summary | None = None, explain: Explain = unexplained) -> None:
        self.results = results
        self._explain = explain
        if summary is not None:
            self.__dict__["summary"] = summary

    @cached_property
    def summary(self) -> Summary:
        """Return everything that a report shows."""
        results = self.results
        summary = summarise(results.plan, results.trials, results.facts, results.looks, results.caveats)
        return replace(summary, causes=self._explain(results, summary))

    @cached_property
    def selection(self) -> Selection:
        """Return the trials that count."""
        return select(self.results.plan, self.results.trials)

    @cached_property
    def trials(self) -> tuple[NumberedTrial, ...]:
        """Return the trials in order of execution."""
        return numbered(self.results.plan, self.results.trials, self.selection, self.own_name)

    @cached_property
    def own_name(self) -> str:
        """Return the name of the row of A/A."""
        return self_name(self.results.plan)


def outcomes_of(trials: Iterable[NumberedTrial]) -> tuple[dict[str, Counter[str]], dict[str, dict[str, None]]]:
    """Return for each cell its launches by outcome, and why they have no metrics or no proof, each reason once."""
    outcomes: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for each in trials:
        trial, key = each.trial, each.cell.key
        outcomes.setdefault(key, Counter())[outcome_word(trial)] += 1
        for reason in filter(None, (trial.reason, trial.unproven, trial.partly_proven)):
            reasons.setdefault(key, {})[reason] = None
    return outcomes, reasons


def outcome_word(trial: Trial) -> str:
    """Return the outcome as one word."""
    return type(trial.outcome).__name__.lower()
