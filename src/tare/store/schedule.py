"""Determine which blocks are complete and which remain; `tare.summary.select` decides which launches count. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tare import model

BlockKey = tuple[int, int, int]


def group_by_attempt(trials: Iterable[model.Trial]) -> dict[BlockKey, dict[str, model.Trial]]:
    """Return the trials by (round, block, attempt), then by cell."""
    by_attempt: defaultdict[BlockKey, dict[str, model.Trial]] = defaultdict(dict)
    for trial in trials:
        by_attempt[trial.key.round, trial.key.block, trial.key.attempt][trial.key.cell] = trial
    return dict(by_attempt)


def is_complete(plan: model.Plan, block: dict[str, model.Trial]) -> bool:
    """Return whether an attempt at a block has a trial of every cell that can run and was not interrupted."""
    return not is_interrupted(block) and all(cell in block for cell in can_run(plan))


def remaining_blocks(
    plan: model.Plan, trials: Iterable[model.Trial], *, rounds: int | None = None
) -> Iterator[BlockKey]:
    """Yield (round, block, attempt) of every block without a complete attempt, in order.

    An interrupted block is run again as a whole, as its next attempt, so that pairs stay pairs. If no cell can run,
    nothing is yielded. `rounds` overrides the study's number of rounds (the runner may go up to `max_rounds`).
    """
    if not can_run(plan):
        return
    tried: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    complete: set[tuple[int, int]] = set()
    for (round_, block, attempt), cells in group_by_attempt(trials).items():
        tried[round_, block].append(attempt)
        if is_complete(plan, cells):
            complete.add((round_, block))
    repeat = plan.study.repetition
    for round_ in range(repeat.rounds if rounds is None else rounds):
        for block in range(repeat.blocks_per_round):
            if (round_, block) not in complete:
                yield round_, block, max(tried[round_, block], default=-1) + 1


def is_interrupted(block: Mapping[str, model.Trial]) -> bool:
    """Return whether an attempt at a block was interrupted and is marked so."""
    return any(isinstance(trial.outcome, model.Interrupted) for trial in block.values())


def can_run(plan: model.Plan) -> list[str]:
    """Return the keys of the cells that can run."""
    return [cell.key for cell in plan.cells if cell.key not in plan.unavailable]
