"""Arrange a results folder for the tables: trials numbered in order of execution, with the cell of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tare.model import Cause, Cell, Completed, Failed, Interrupted, Invalid, Role, Summary, Trial, Unavailable
from tare.store.cycles import without_cycle_search
from tare.store.results import Results
from tare.summary import summarise
from tare.summary.rows import self_name
from tare.summary.select import Selection, select


@dataclass(frozen=True, slots=True)
class Numbered:
    """A trial with its number (from 1, in order of execution), its cell, its row, and whether it counts."""

    number: int
    trial: Trial
    cell: Cell
    environment: str
    counts: bool


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
        with without_cycle_search():
            summary = summarise(results.plan, results.trials, results.facts, results.looks, results.caveats)
            return replace(summary, causes=self._explain(results, summary))

    @cached_property
    def selection(self) -> Selection:
        """Return the trials that count."""
        return select(self.results.plan, self.results.trials)

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """Return the planned cells by key."""
        return {cell.key: cell for cell in self.results.plan.cells}

    @cached_property
    def trials(self) -> tuple[Numbered, ...]:
        """Return the trials in order of execution."""
        ordered = sorted(self.results.trials, key=lambda trial: (trial.started_unix_s, trial.position))
        return tuple(
            Numbered(
                number=number,
                trial=trial,
                cell=(cell := self.cells[trial.key.cell]),
                environment=self.row_name(cell),
                counts=self.selection.counts(trial),
            )
            for number, trial in enumerate(ordered, start=1)
        )

    def row_name(self, cell: Cell) -> str:
        """Return the environment of a cell as the report names it; A/A has a name of its own."""
        return self._self_name if cell.role is Role.SELF else cell.environment.name

    @cached_property
    def _self_name(self) -> str:
        return self_name(self.results.plan)


def outcome_word(trial: Trial) -> str:
    """Return the outcome as one word."""
    match trial.outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Invalid():
            return "invalid"
        case Unavailable():
            return "unavailable"
        case Interrupted():
            return "interrupted"


def outcome_reason(trial: Trial) -> str:
    """Return the reason why a trial has no metrics; "" if it completed."""
    return "" if isinstance(trial.outcome, Completed) else trial.outcome.reason
