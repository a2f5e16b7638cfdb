"""Determine which blocks are complete; `tare.analysis.summary.select` decides which launches count. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tare import model

BlockKey = tuple[int, int, int]


@dataclass(slots=True)
class Ledger:
    """Which trials a folder has, without what they measured; kept up to date, so that no round looks at all trials.

    `attempts` are the cells with a trial by (round, block, attempt), `interrupted` the attempts that are marked so,
    `completed` the cells with a completed trial. `launches` counts trials without marks, `repeated` those of them that
    are repeats.
    """

    keys: set[model.TrialKey] = field(default_factory=set)
    attempts: defaultdict[BlockKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    interrupted: set[BlockKey] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    launches: int = 0
    repeated: int = 0
    last: BlockKey | None = None

    def add(self, key: model.TrialKey, outcome: str) -> None:
        """Add a trial by its key and the name of its outcome's class."""
        self.keys.add(key)
        self.last = attempt = key.round, key.block, key.attempt
        self.attempts[attempt].add(key.cell)
        if outcome == model.Interrupted.__name__:
            self.interrupted.add(attempt)
            return
        self.launches += 1
        self.repeated += key.repeat > 0
        if outcome == model.Completed.__name__:
            self.completed.add(key.cell)

    def remaining(self, plan: model.Plan, *, rounds: int | None = None) -> Iterator[BlockKey]:
        """Yield (round, block, attempt) of every block without a complete attempt, in order.

        An interrupted block is run again as a whole, as its next attempt, so that pairs stay pairs. If no cell can run,
        nothing is yielded. `rounds` overrides the study's number of rounds (the runner may go up to `max_rounds`).
        """
        cells = frozenset(can_run(plan))
        if not cells:
            return
        next_attempt: dict[tuple[int, int], int] = {}
        complete: set[tuple[int, int]] = set()
        for (round_, block, attempt), ran in self.attempts.items():
            next_attempt[round_, block] = max(attempt + 1, next_attempt.get((round_, block), 0))
            if cells <= ran and (round_, block, attempt) not in self.interrupted:
                complete.add((round_, block))
        repeat = plan.study.repetition
        for round_ in range(repeat.rounds if rounds is None else rounds):
            for block in range(repeat.blocks_per_round):
                if (round_, block) not in complete:
                    yield round_, block, next_attempt.get((round_, block), 0)


def can_run(plan: model.Plan) -> list[str]:
    """Return the keys of the cells that can run."""
    return [cell.key for cell in plan.cells if cell.key not in plan.unavailable]
