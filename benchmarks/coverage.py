"""Measure on simulated studies of known truth how often the intervals hold it, and how often A/A is called different.

    python benchmarks/coverage.py [repetitions]        (10,000 by default: about a minute)

benchmarks/simulation.py says what a simulated launch costs. tests/unit/analysis/stats/test_coverage.py asserts on the
same functions with fewer repetitions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from coverage_intervals import (
    added_coverage,
    median_coverage,
    overhead_coverage,
    pooled_blocks_coverage,
    pooled_iterations_called_different,
    self_called_different,
    stop_on_p_called_different,
    table_called_different,
)
from coverage_looks import sequential, sequential_table_called_different
from coverage_reports import pipeline
from simulation import CONFIDENCE, HARDEST_STOP, LARGE_COST, NOISY, ONE_BLOCK, SCENARIOS, SEVERAL_BLOCKS, Rate


def table(title: str, figures: Sequence[tuple[str, Callable[[], Rate]]]) -> None:
    print(f"\n{title}")
    for name, compute in figures:
        print(f"  {name:<46} {compute()}", flush=True)


def main(repetitions: int) -> None:
    started = time.monotonic()
    print(f"nominal confidence {CONFIDENCE}; brackets: Clopper-Pearson 95 % of the simulation itself")
    table(
        "Overhead, paired t over rounds: coverage",
        [(s.name, partial(overhead_coverage, s, repetitions)) for s in SCENARIOS],
    )
    table("Added seconds: coverage", [(s.name, partial(added_coverage, s, repetitions)) for s in SCENARIOS])
    table(
        "Ratio of medians, BCa: coverage",
        [(s.name, partial(median_coverage, s, repetitions // 4)) for s in SCENARIOS[:-1]],
    )
    table(
        "A/A called different: one comparison",
        [(s.name, partial(self_called_different, s, repetitions)) for s in SCENARIOS],
    )
    table(
        "A/A called different: any of a table (4 blocks a round)",
        [
            (
                f"{count} environments, {'Holm' if adjusted else 'unadjusted'}",
                partial(table_called_different, SEVERAL_BLOCKS, count, repetitions // 4, adjusted=adjusted),
            )
            for count in (5, 20)
            for adjusted in (True, False)
        ],
    )
    print("\nStopping at 10, 20 or 40 rounds by precision")
    for scenario in (ONE_BLOCK, SEVERAL_BLOCKS, LARGE_COST, NOISY, HARDEST_STOP):
        result = sequential(scenario, repetitions // 2)
        print(f"  {scenario.name + ': covered':<46} {result.covered}")
        print(f"  {scenario.name + ': A/A different':<46} {result.different}  ({result.mean_rounds:.1f} rounds)")
    table(
        "Stopping by precision, then Holm: any of 5 equal environments called different",
        [
            (s.name, partial(sequential_table_called_different, s, 5, repetitions // 4))
            for s in (SEVERAL_BLOCKS, NOISY, HARDEST_STOP)
        ],
    )
    print("\nWhole reports through summarise(), 3 metrics, with looks and Holm (one entry a study or a comparison)")
    for scenario in (SEVERAL_BLOCKS, NOISY):
        reports = pipeline(scenario, repetitions // 50)
        for name, figure in (
            ("any A/A differs (study)", reports.self_different),
            ("equal environment costs or gains (study)", reports.null_called),
            ("no cost said of a cost at the margin", reports.wrong_no_cost),
            ("true cost covered", reports.covered),
            ("true cost called so", reports.power),
        ):
            print(f"  {scenario.name + ': ' + name:<66} {figure}")
    table(
        "What is not done, and why",
        [
            (
                f"{SEVERAL_BLOCKS.name}, blocks pooled: coverage",
                lambda: pooled_blocks_coverage(SEVERAL_BLOCKS, repetitions),
            ),
            ("iterations pooled: A/A called different", partial(pooled_iterations_called_different, repetitions // 4)),
            ("stopping on p < .05: A/A called different", partial(stop_on_p_called_different, repetitions // 10)),
        ],
    )
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
