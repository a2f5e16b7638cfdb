"""Select the trials that count, and the columns that they make: one rule for tables, plots and the store.

The last whole attempt of each block counts, and in it the last repeat of each cell. All launches of whole attempts are
kept as well, because a verdict must also hold over those (`tare.analysis.summary.compare`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from tare.analysis.stats import Block
from tare.errors import ResultsError
from tare.model import Cell, Interrupted, Metric, MetricInfo, MetricKind, Plan, Trial, TrialKey

Attempts = dict[int, dict[str, list[Trial]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The trials that count, by cell and then by (round, block) ascending.

    `launches` holds all launches of the block's whole attempts; the one that counts is the last. `reruns` is the number
    of extra launches of each cell: repeats, and launches of blocks that were run again. `rounds_done` is the number of
    rounds in which every group has a whole block.
    """

    trials: Mapping[str, Mapping[Block, Trial]]
    launches: Mapping[str, Mapping[Block, tuple[Trial, ...]]]
    reruns: Mapping[str, int]
    rounds_done: int

    def counts(self, trial: Trial) -> bool:
        """Tell whether a trial is one of those that count."""
        key = trial.key
        chosen = self.trials.get(key.cell, {}).get((key.round, key.block))
        return chosen is trial or (chosen is not None and chosen.key == key)


class PlannedCells(Protocol):
    """The planned cells: a plan, or the summary of its results."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return all cells, including those that cannot run."""

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Return why cells cannot run, by their keys."""


def select(plan: PlannedCells, trials: Sequence[Trial]) -> Selection:
    """Return the trials of each block's highest attempt in which every available cell of the group has its line.

    An `Interrupted` line breaks the attempt for its group. A failed or invalid trial is a line like any other: it
    costs its own cell a round, not the others. Order does not matter, except that the last of several lines with the
    same key counts. Raises ResultsError for a trial of a cell that is not in the plan.
    """
    group_of = {cell.key: cell.group for cell in plan.cells}
    wanted: dict[str, dict[str, None]] = {}
    for cell in plan.cells:
        if cell.key not in plan.unavailable:
            wanted.setdefault(cell.group, {})[cell.key] = None
    chosen: dict[str, dict[Block, Trial]] = {cell.key: {} for cell in plan.cells}
    launches: dict[str, dict[Block, tuple[Trial, ...]]] = {cell.key: {} for cell in plan.cells}
    rounds: dict[str, set[int]] = {group: set() for group in wanted}
    latest = {trial.key: trial for trial in trials}
    for (group, block), attempts in sorted(_by_attempt(latest.values(), group_of).items()):
        keys = wanted.get(group, {}).keys()
        whole = [attempts[number] for number in sorted(attempts) if _is_whole(attempts[number], keys)]
        if not whole:
            continue
        rounds[group].add(block[0])
        for key in keys:
            all_of_cell = tuple([trial for attempt in whole for trial in attempt[key]])
            launches[key][block] = all_of_cell
            chosen[key][block] = all_of_cell[-1]
    return Selection(
        trials=chosen,
        launches=launches,
        reruns=_reruns(latest),
        rounds_done=len(set.intersection(*rounds.values())) if rounds else 0,
    )


def _by_attempt(trials: Iterable[Trial], group_of: Mapping[str, str]) -> dict[tuple[str, Block], Attempts]:
    """Sort trials into (group, block) -> attempt -> cell -> its launches in order of their repeats."""
    by_attempt: defaultdict[tuple[str, Block], Attempts] = defaultdict(dict)
    for trial in sorted(trials, key=lambda trial: trial.key.repeat):
        key = trial.key
        group = group_of.get(key.cell)
        if group is None:
            raise ResultsError(
                f"the results contain a trial of {key.cell!r} (round {key.round}, block {key.block}), "
                "which is not a cell of this study",
                remedy="use the plan that produced the results",
            )
        attempts = by_attempt[group, (key.round, key.block)]
        launches = attempts.setdefault(key.attempt, {})
        launches.setdefault(key.cell, []).append(trial)
    return by_attempt


def _is_whole(attempt: Mapping[str, Sequence[Trial]], wanted: Set[str]) -> bool:
    outcomes = {type(trial.outcome) for launches in attempt.values() for trial in launches}
    return Interrupted not in outcomes and attempt.keys() >= wanted


def _reruns(launches: Iterable[TrialKey]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for key in launches:
        counts[key.cell] += 1
    for cell, _, _ in {(key.cell, key.round, key.block) for key in launches}:
        counts[cell] -= 1
    return dict(counts)


def metric_infos(plan: Plan, selection: Selection) -> tuple[MetricInfo, ...]:
    """Return the columns: per group, in the order of the plan, every metric of a trial that counts.

    If no launch of a group completed, the group keeps one column, for its workload, so that its cells are still listed
    with their reasons (rule of metrics 2).
    """
    infos: dict[tuple[str, str], MetricInfo] = {}
    for cell in plan.cells:
        for trial in selection.trials[cell.key].values():
            for metric in trial.metrics:
                if (cell.group, metric.key) not in infos:
                    infos[cell.group, metric.key] = _info(metric, cell.group)
    for cell in plan.cells:
        if all(group != cell.group for group, _ in infos):
            infos |= _planned_infos(cell)
    order = list(dict.fromkeys(cell.group for cell in plan.cells))
    return tuple(sorted(infos.values(), key=lambda info: order.index(info.group)))


def _info(metric: Metric, group: str) -> MetricInfo:
    return MetricInfo(
        key=metric.key,
        label=metric.label,
        kind=metric.kind,
        statistic=metric.statistic,
        group=group,
        message_bytes=metric.message_bytes,
        done_per_sample=metric.done_per_sample,
        rate_unit=metric.rate_unit,
        added_first=metric.added_first,
        judged=metric.judged,
    )


def _planned_infos(cell: Cell) -> dict[tuple[str, str], MetricInfo]:
    name = cell.workload.name
    info = MetricInfo(key=name, label=name, kind=MetricKind.COST, statistic="no trial completed", group=cell.group)
    return {(cell.group, name): info}
