"""Write blocks of the small study into a store, and check that its results are whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tare.analysis.summary.select import select
from tare.model import Plan, Trial, TrialKey
from tare.store.schedule import BlockKey, Ledger
from tare.store.writer import Results, Store
from tare.study.plan.cells import block_order
from unit.stored import PLAN, SAMPLES, trial


def ledger_of(trials: Iterable[Trial]) -> Ledger:
    """Return the ledger of trials."""
    ledger = Ledger()
    for each in trials:
        ledger.add(each.key, type(each.outcome).__name__)
    return ledger


def remaining_blocks(plan: Plan, trials: Iterable[Trial], *, rounds: int | None = None) -> Iterator[BlockKey]:
    """Yield the blocks that trials leave to run."""
    yield from ledger_of(trials).remaining(plan, rounds=rounds)


def run_block(store: Store, round_: int, block: int, attempt: int, *, cells: int | None = None) -> None:
    for cell in block_order(store.plan, round_, block, attempt)[:cells]:
        store.append(trial(TrialKey(cell=cell, round=round_, block=block, attempt=attempt)), SAMPLES)


def finish(store: Store) -> None:
    for key in list(remaining_blocks(store.plan, store.trials)):
        run_block(store, *key)


def counted(plan: Plan, trials: Sequence[Trial]) -> list[Trial]:
    return [trial for own in select(plan, trials).trials.values() for trial in own.values()]


def assert_whole(results: Results, plan: Plan = PLAN) -> None:
    """Check that every block has each cell once in what counts, that no key is doubled, that samples are there."""
    assert list(remaining_blocks(plan, results.trials)) == []
    keys = Counter(t.key for t in results.trials)
    assert set(keys.values()) == {1}
    blocks = Counter((t.key.round, t.key.block, t.key.cell) for t in counted(plan, results.trials))
    repeat = plan.study.repetition
    assert len(blocks) == repeat.rounds * repeat.blocks_per_round * len(plan.cells)
    assert set(blocks.values()) == {1}
    per_block = Counter((t.key.round, t.key.block, t.key.attempt) for t in counted(plan, results.trials))
    assert len(per_block) == repeat.rounds * repeat.blocks_per_round
    assert all(np.array_equal(results.columns(t)["barrier"], SAMPLES["barrier"]) for t in counted(plan, results.trials))
