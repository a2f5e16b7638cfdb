"""Measure on simulated studies of known truth how often the intervals hold it, and how often A/A is called different.

    python benchmarks/coverage.py [repetitions]        (10,000 by default: about a minute)

A simulated launch costs exp(base + truth + round + interaction + block + launch): `round` and `block` are shared by
all environments of a round or block (they cancel in pairs), `interaction` is what one environment's pods do for a
whole round (it does not cancel and more blocks do not average it out: the reason why the round is the unit), `launch`
is independent. tests/unit/test_stats_coverage.py asserts on the same functions with fewer repetitions.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tare import stats
from tare.model import (
    Cell,
    Completed,
    Environment,
    LabSpec,
    Metric,
    MetricKind,
    Placement,
    Plan,
    Repetition,
    Role,
    Study,
    Trial,
    TrialKey,
    Verdict,
    Workload,
)
from tare.summary import precise_enough, summarise

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95
BASE_S = 10e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated; deviations are of the logarithm. `slow` is the share of launches that are 30 % slower."""

    name: str
    rounds: int = 10
    blocks: int = 1
    truth: float = 0.0
    round_sd: float = 0.05
    interaction_sd: float = 0.02
    block_sd: float = 0.03
    launch_sd: float = 0.02
    slow: float = 0.0


ONE_BLOCK = Scenario(name="10 rounds x 1 block", truth=math.log(1.05))
SEVERAL_BLOCKS = Scenario(name="10 rounds x 4 blocks", blocks=4, truth=math.log(1.05))
FEW_ROUNDS = Scenario(name="6 rounds x 3 blocks", rounds=6, blocks=3, truth=math.log(1.05))
LARGE_COST = Scenario(name="10 rounds, 4 blocks, x1.6", blocks=4, truth=math.log(1.6))
NOISY = Scenario(name="10 rounds x 2, noise 15 %", blocks=2, truth=math.log(1.2), launch_sd=0.15)
SLOW_LAUNCHES = Scenario(name="1 launch in 20 is 30 % slower", rounds=20, truth=math.log(1.05), slow=0.05)
HARDEST_STOP = Scenario(
    name="spread that stops at any look", round_sd=0.05, interaction_sd=0.014, launch_sd=0.0, block_sd=0.03
)
SCENARIOS = (ONE_BLOCK, SEVERAL_BLOCKS, FEW_ROUNDS, LARGE_COST, NOISY, SLOW_LAUNCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened, with its exact (Clopper-Pearson) 95 % interval."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        return self.hits / self.n

    def bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        tail = (1.0 - confidence) / 2.0
        low = float(special.betaincinv(self.hits, self.n - self.hits + 1, tail)) if self.hits else 0.0
        high = float(special.betaincinv(self.hits + 1, self.n - self.hits, 1.0 - tail)) if self.hits < self.n else 1.0
        return low, high

    def __str__(self) -> str:
        low, high = self.bounds()
        return f"{self.value:6.3f}  [{low:.3f}, {high:.3f}]  n = {self.n}"


def rate(hits: Sequence[bool]) -> Rate:
    return Rate(hits=sum(hits), n=len(hits))


def simulate(rng: np.random.Generator, scenario: Scenario, truths: Sequence[float]) -> FloatArray:
    """Return costs in seconds of one study, shape (1 + environments, rounds, blocks); row 0 is the baseline."""
    shape = (1 + len(truths), scenario.rounds, scenario.blocks)
    logs = np.full(shape, math.log(BASE_S))
    logs += np.asarray([0.0, *truths])[:, None, None]
    logs += rng.normal(0.0, scenario.round_sd, shape[1])[None, :, None]
    logs += rng.normal(0.0, scenario.interaction_sd, shape[:2])[:, :, None]
    logs += rng.normal(0.0, scenario.block_sd, shape[1:])[None]
    logs += rng.normal(0.0, scenario.launch_sd, shape)
    logs += math.log(1.3) * (rng.random(shape) < scenario.slow)
    costs: FloatArray = np.exp(logs)
    return costs


def round_ratios(environment: FloatArray, baseline: FloatArray) -> FloatArray:
    """Return d of shape (rounds,) from costs of shape (rounds, blocks)."""
    ratios = stats.log_ratios(environment.ravel(), baseline.ravel()).reshape(environment.shape)
    means: FloatArray = ratios.mean(axis=1)
    return means


# --- fixed number of rounds -------------------------------------------------------------------------------------


def overhead_coverage(scenario: Scenario, repetitions: int, seed: int = 1) -> Rate:
    """Return how often the paired t interval of the overhead holds the truth."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_t(round_ratios(environment, baseline), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high)
    return rate(hits)


def added_coverage(scenario: Scenario, repetitions: int, seed: int = 2) -> Rate:
    """Return how often the interval of the added seconds holds E[environment] - E[baseline]."""
    rng = np.random.default_rng(seed)
    variance = sum(sd**2 for sd in (scenario.round_sd, scenario.interaction_sd, scenario.block_sd, scenario.launch_sd))
    truth = BASE_S * math.exp(variance / 2) * (1.0 + 0.3 * scenario.slow) * math.expm1(scenario.truth)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_difference(environment.mean(axis=1), baseline.mean(axis=1), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= truth <= estimate.high)
    return rate(hits)


def median_coverage(scenario: Scenario, repetitions: int, seed: int = 3) -> Rate:
    """Return how often the BCa interval of the ratio of medians holds the truth."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.bca_ratio_of_medians(environment.mean(axis=1), baseline.mean(axis=1), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.exp(scenario.truth) <= estimate.high)
    return rate(hits)


def self_called_different(scenario: Scenario, repetitions: int, seed: int = 4) -> Rate:
    """Return how often A/A, alone, has an interval that leaves out zero."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, again = simulate(rng, scenario, [0.0])
        estimate = stats.paired_t(round_ratios(again, baseline), CONFIDENCE)
        hits.append(estimate is None or not estimate.low <= 0 <= estimate.high)
    return rate(hits)


def table_called_different(
    scenario: Scenario, environments: int, repetitions: int, *, adjusted: bool = True, seed: int = 5
) -> Rate:
    """Return how often any of several environments equal to their common baseline is called different."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, *others = simulate(rng, scenario, [0.0] * environments)
        hits.append(_any_different([round_ratios(other, baseline) for other in others], adjusted=adjusted))
    return rate(hits)


def _any_different(series: Sequence[FloatArray], *, adjusted: bool, confidence: float = CONFIDENCE) -> bool:
    p_values = [p for d in series if (p := stats.paired_p(d)) is not None]
    levels = stats.holm_confidences(p_values, confidence) if adjusted else [confidence] * len(series)
    estimates = [stats.paired_t(d, level) for d, level in zip(series, levels, strict=True)]
    return any(item is None or not item.low <= 0 <= item.high for item in estimates)


# --- with looks at 10, 20, 40 -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """What a study that stops by the rule gets: coverage, A/A called different, and the rounds it took."""

    covered: Rate
    different: Rate
    mean_rounds: float


def decision_confidence(look: int) -> float:
    """Return the confidence at which a difference is decided at a look, counted from 0."""
    return 1.0 - (1.0 - CONFIDENCE) * stats.share_of_look(look)


def sequential(
    scenario: Scenario, repetitions: int, *, looks: Sequence[int] = (10, 20, 40), seed: int = 6
) -> Sequential:
    """Run studies that stop at the first look that is precise enough, and judge by that look.

    Coverage is that of the 95 % interval that is shown, a difference is decided with the share of the error that its
    look spends.
    """
    rng = np.random.default_rng(seed)
    policy = Repetition(rounds=looks[0], max_rounds=looks[-1])
    covered: list[bool] = []
    different: list[bool] = []
    taken: list[int] = []
    longest = replace(scenario, rounds=looks[-1])
    for _ in range(repetitions):
        baseline, again, environment = simulate(rng, longest, [0.0, scenario.truth])
        for costs, truth, hits in ((environment, scenario.truth, covered), (again, 0.0, different)):
            d = round_ratios(costs, baseline)
            n = next((look for look in looks if stats.enough(d[:look], policy)), looks[-1])
            level = CONFIDENCE if hits is covered else decision_confidence(looks.index(n))
            estimate = stats.paired_t(d[:n], level)
            inside = estimate is not None and estimate.low <= math.expm1(truth) <= estimate.high
            hits.append(inside if hits is covered else not inside)
            taken.append(n)
    return Sequential(covered=rate(covered), different=rate(different), mean_rounds=float(np.mean(taken)))


def sequential_table_called_different(scenario: Scenario, environments: int, repetitions: int, seed: int = 7) -> Rate:
    """Return how often any of several equal environments is called different when all stop together, after Holm."""
    rng = np.random.default_rng(seed)
    looks, policy = (10, 20, 40), Repetition(rounds=10, max_rounds=40)
    longest = replace(scenario, rounds=40)
    hits = []
    for _ in range(repetitions):
        baseline, *others = simulate(rng, longest, [0.0] * environments)
        series = [round_ratios(other, baseline) for other in others]
        n = next((look for look in looks if all(stats.enough(d[:look], policy) for d in series)), looks[-1])
        stopped = [d[:n] for d in series]
        hits.append(_any_different(stopped, adjusted=True, confidence=decision_confidence(looks.index(n))))
    return rate(hits)


# --- what is not done, and why ----------------------------------------------------------------------------------


def pooled_blocks_coverage(scenario: Scenario, repetitions: int, seed: int = 8) -> Rate:
    """Return the coverage of an interval that takes every block for independent."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_t(stats.log_ratios(environment.ravel(), baseline.ravel()), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high)
    return rate(hits)


def pooled_iterations_called_different(repetitions: int, *, iterations: int = 200, seed: int = 9) -> Rate:
    """Return how often A/A is called different if the iterations of 10 launches are pooled (Welch's z)."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        launches = rng.normal(0.0, 0.03, (2, 10, 1))
        first, second = (launches + rng.normal(0.0, 0.05, (2, 10, iterations))).reshape(2, -1)
        error = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / first.size)
        hits.append(abs(float(first.mean() - second.mean())) > 1.96 * error)
    return rate(hits)


def stop_on_p_called_different(repetitions: int, seed: int = 10) -> Rate:
    """Return how often A/A is called different if one looks after every round from 6 to 40 and stops on p < .05."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        d = rng.normal(0.0, 0.03, 40)
        hits.append(any((stats.paired_p(d[:n]) or 1.0) < 0.05 for n in range(6, 41)))
    return rate(hits)


# --- the whole way through summarise() --------------------------------------------------------------------------


def make_plan(environments: int, *, rounds: int, blocks: int, max_rounds: int = 10, margin: float = 0.02) -> Plan:
    """Return a plan of a baseline, an A/A cell and environments, all available."""
    workload, placement = Workload(name="micro"), Placement()
    cells = []
    for index in range(environments + 2):
        role = (Role.BASELINE, Role.SELF)[index] if index < 2 else Role.ENVIRONMENT
        name = ("bare", "bare (A/A)")[index] if index < 2 else f"env{index - 1}"
        environment = Environment(name=name, runtime="fake", network="host")
        cells.append(
            Cell(
                key=f"micro/{name}",
                group="micro",
                role=role,
                workload=workload,
                environment=environment,
                placement=placement,
            )
        )
    study = Study(
        name="simulated",
        cluster="lab",
        lab=LabSpec(),
        baseline="bare",
        environments=tuple(cell.environment for cell in cells if cell.role is not Role.SELF),
        placements=(placement,),
        workloads=(workload,),
        repetition=Repetition(rounds=rounds, blocks_per_round=blocks, max_rounds=max(rounds, max_rounds)),
        margin=margin,
    )
    return Plan(study=study, cells=tuple(cells), unavailable={}, digest="simulated")


def make_trials(plan: Plan, costs: FloatArray) -> list[Trial]:
    """Return completed trials for costs of shape (metrics, cells, rounds, blocks)."""
    metrics, _, rounds, blocks = costs.shape
    return [
        Trial(
            key=TrialKey(cell=cell.key, round=r, block=b, attempt=0),
            position=index,
            started_unix_s=float(r),
            elapsed_s=1.0,
            outcome=Completed(
                metrics=tuple(
                    Metric(key=f"m{m}", label=f"metric {m}", kind=MetricKind.COST, value=float(costs[m, index, r, b]))
                    for m in range(metrics)
                )
            ),
        )
        for r in range(rounds)
        for b in range(blocks)
        for index, cell in enumerate(plan.cells)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What whole reports get wrong: A/A that differs, null environments with a verdict, true costs not covered."""

    self_different: Rate
    null_called: Rate
    wrong_no_cost: Rate
    covered: Rate
    power: Rate


def pipeline(scenario: Scenario, repetitions: int, *, metrics: int = 3, looks: bool = True, seed: int = 11) -> Pipeline:
    """Summarise simulated studies (A/A, one equal, one that costs `truth`, one just beyond the margin) by the rules."""
    rng = np.random.default_rng(seed)
    margin = 0.02
    truths = (0.0, 0.0, scenario.truth, math.log1p(margin))
    longest = replace(scenario, rounds=40 if looks else scenario.rounds)
    plan = make_plan(3, rounds=10, blocks=scenario.blocks, max_rounds=longest.rounds, margin=margin)
    outcomes: dict[str, list[bool]] = {name: [] for name in ("self", "null", "margin", "covered", "power")}
    for _ in range(repetitions):
        costs = np.stack([simulate(rng, longest, truths) for _ in range(metrics)])
        trials: list[Trial] = []
        for n in (10, 20, 40) if looks else (scenario.rounds,):
            trials = make_trials(plan, costs[:, :, :n])
            if precise_enough(plan, trials):
                break
        summary = summarise(plan, trials, {})
        by_name = {name: [c for c in summary.comparisons if c.environment == name] for name in ("env1", "env2", "env3")}
        outcomes["self"].append(any(warning.startswith("The baseline differs") for warning in summary.warnings))
        outcomes["null"].append(any(c.verdict in {Verdict.COSTS, Verdict.GAINS} for c in by_name["env1"]))
        for item in by_name["env3"]:
            outcomes["margin"].append(item.within == margin)
        for item in by_name["env2"]:
            estimate = item.overhead
            inside = estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high
            outcomes["covered"].append(inside)
            outcomes["power"].append(item.verdict is Verdict.COSTS)
    return Pipeline(
        self_different=rate(outcomes["self"]),
        null_called=rate(outcomes["null"]),
        wrong_no_cost=rate(outcomes["margin"]),
        covered=rate(outcomes["covered"]),
        power=rate(outcomes["power"]),
    )


# --- printing ---------------------------------------------------------------------------------------------------


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
