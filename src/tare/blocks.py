"""Say which blocks are complete, which are still to run, and which trials count. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tare import disturbance, model

BlockKey = tuple[int, int, int]
MOVED_RERUNS: Final = 4


def attempts(trials: Iterable[model.Trial]) -> dict[BlockKey, dict[str, model.Trial]]:
    """Return the trials by (round, block, attempt) and then by cell."""
    found: defaultdict[BlockKey, dict[str, model.Trial]] = defaultdict(dict)
    for trial in trials:
        found[trial.key.round, trial.key.block, trial.key.attempt][trial.key.cell] = trial
    return dict(found)


def is_complete(plan: model.Plan, block: dict[str, model.Trial]) -> bool:
    """Say whether one attempt at a block has a trial of every cell that can run, and was not interrupted."""
    return not is_interrupted(block) and all(cell in block for cell in can_run(plan))


def remaining_blocks(
    plan: model.Plan, trials: Iterable[model.Trial], *, rounds: int | None = None
) -> Iterator[BlockKey]:
    """Yield (round, block, attempt) of every block without a complete attempt or to be run again, in order.

    A block that was broken off comes again whole, as its next attempt, so that pairs stay pairs; where no cell can
    run there is nothing. So does one that others disturbed: at most `reruns` times (`MOVED_RERUNS` where the host moved
    the cores in between, for then it has no pairs), and no more than half of the wanted blocks in all, so that a busy
    machine makes a study half as long again and not endless. `rounds` looks
    further than the study's own number of rounds (up to `max_rounds` the runner may go on).
    """
    if not can_run(plan):
        return
    done = attempts(trials)
    complete: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for round_, block, attempt in sorted(key for key, block in done.items() if is_complete(plan, block)):
        complete[round_, block].append(attempt)
    repeat = plan.study.repetition
    wanted = repeat.rounds if rounds is None else rounds
    allowed = (wanted * repeat.blocks_per_round + 1) // 2 - sum(len(whole) - 1 for whole in complete.values())
    for round_ in range(wanted):
        for block in range(repeat.blocks_per_round):
            whole = complete[round_, block]
            if whole:
                if allowed <= 0 or len(whole) > reruns_due(repeat, done[round_, block, whole[-1]]):
                    continue
                allowed -= 1
            tried = [key[2] for key in done if key[:2] == (round_, block)]
            yield round_, block, max(tried, default=-1) + 1


def reruns_due(repeat: model.Repetition, block: Mapping[str, model.Trial]) -> int:
    """Return how often a block may be run again, by its last attempt: 0 where nothing disturbed that."""
    if repeat.reruns and disturbance.moved_between(block.values()):
        return max(repeat.reruns, MOVED_RERUNS)
    return repeat.reruns if any(map(disturbance.is_disturbed, block.values())) else 0


def counted(plan: model.Plan, trials: Iterable[model.Trial]) -> tuple[model.Trial, ...]:
    """Return the trials that count: those of each block's last complete attempt, in order of (round, block)."""
    last: dict[tuple[int, int], tuple[int, dict[str, model.Trial]]] = {}
    for (round_, block, attempt), found in attempts(trials).items():
        if is_complete(plan, found) and attempt >= last.get((round_, block), (-1, {}))[0]:
            last[round_, block] = (attempt, found)
    return tuple(trial for key in sorted(last) for trial in last[key][1].values())


def is_interrupted(block: Mapping[str, model.Trial]) -> bool:
    """Say whether an attempt at a block was broken off and has been marked so."""
    return any(isinstance(trial.outcome, model.Interrupted) for trial in block.values())


def can_run(plan: model.Plan) -> list[str]:
    """Return the keys of the cells that can run."""
    return [cell.key for cell in plan.cells if cell.key not in plan.unavailable]
