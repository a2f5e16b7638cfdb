"""Choose the trials that count: of every block the last attempt that is whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare.errors import ResultsError
from tare.model import Interrupted, Plan, Trial
from tare.stats import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The trials that count, by cell and then by (round, block) ascending.

    `reruns` counts for each cell the launches that were made more than once because their block was run again.
    `rounds_done` counts the rounds in which every group has a whole block.
    """

    trials: Mapping[str, Mapping[Block, Trial]]
    reruns: Mapping[str, int]
    rounds_done: int


def select(plan: Plan, trials: Sequence[Trial]) -> Selection:
    """Return the trials of each block's highest attempt in which every available cell of the group has its line.

    An `Interrupted` line breaks the attempt for its group. A failed or invalid trial is a line like any other: it
    costs its own cell a round, not the others. Order does not matter, except that of two lines with one key the later
    counts. Raises ResultsError for a trial of a cell that is not in the plan.
    """
    group_of = {cell.key: cell.group for cell in plan.cells}
    wanted: dict[str, list[str]] = {}
    for cell in plan.cells:
        if cell.key not in plan.unavailable:
            wanted.setdefault(cell.group, []).append(cell.key)
    attempts = _by_attempt(trials, group_of)
    chosen: dict[str, dict[Block, Trial]] = {cell.key: {} for cell in plan.cells}
    rounds: dict[str, set[int]] = {group: set() for group in wanted}
    for (group, block), numbered in sorted(attempts.items()):
        lines = _last_whole(numbered, wanted.get(group, []))
        for key, trial in lines.items():
            chosen[key][block] = trial
        if lines:
            rounds[group].add(block[0])
    return Selection(
        trials=chosen,
        reruns=_reruns(trials),
        rounds_done=len(set.intersection(*rounds.values())) if rounds else 0,
    )


def _by_attempt(
    trials: Sequence[Trial], group_of: Mapping[str, str]
) -> dict[tuple[str, Block], dict[int, dict[str, Trial]]]:
    """Sort trials into (group, block) -> attempt -> cell."""
    found: dict[tuple[str, Block], dict[int, dict[str, Trial]]] = {}
    for trial in trials:
        key = trial.key
        if key.cell not in group_of:
            raise ResultsError(
                f"the results hold a trial of {key.cell!r} (round {key.round}, block {key.block}), "
                "which is not a cell of this study",
                remedy="report with the plan that the results were made with",
            )
        blocks = found.setdefault((group_of[key.cell], (key.round, key.block)), {})
        blocks.setdefault(key.attempt, {})[key.cell] = trial
    return found


def _last_whole(attempts: Mapping[int, Mapping[str, Trial]], wanted: Sequence[str]) -> Mapping[str, Trial]:
    for number in sorted(attempts, reverse=True):
        lines = attempts[number]
        broken = any(isinstance(trial.outcome, Interrupted) for trial in lines.values())
        if not broken and all(key in lines for key in wanted):
            return {key: lines[key] for key in wanted}
    return {}


def _reruns(trials: Sequence[Trial]) -> dict[str, int]:
    launches = {trial.key for trial in trials}
    places = {(key.cell, key.round, key.block) for key in launches}
    counts: dict[str, int] = {}
    for key in launches:
        counts[key.cell] = counts.get(key.cell, 0) + 1
    for cell, _, _ in places:
        counts[cell] -= 1
    return counts
