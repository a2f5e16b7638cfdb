"""Simulate studies of known truth through the production path, and count wrong verdicts.

    python benchmarks/truth.py [--studies 4000] [--only NAME ...] [--jobs 2]      (about ten minutes on two cores)

Each scenario makes whole studies (trials with noise, failures and repeats, as the store keeps them), gives them to
`tare.analysis.summary.summarise` and holds the verdicts against the truth. Launches cost exp(base + truth + round +
pods + block + launch), as in benchmarks/simulation.py, and log ratios have a standard deviation of 4 %. Every
environment is compared on one metric: `null` costs nothing, `costs` 10 %, `margin` exactly the margin, where "no cost"
is hardest.

A verdict is wrong if it says of a cost that it is there (or a gain) where there is none, or that there is none within a
margin that it exceeds. Exit code 1 if the 95 % interval of a rate of wrong verdicts lies above 5 %, a coverage is
below 93 %, the power below 90 %, or a tenth of intervals wider than without the machine's states. Seeds are fixed:
study i of a scenario has the seed (scenario, i).

It is one file because all scenarios share how a study is made and how its verdicts are counted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pool

import numpy as np
from scipy.stats import nct
from scipy.stats import t as student

from tare.analysis.stats import SELF_ALPHA, share_interval, share_of_look
from tare.analysis.summary import summarise
from tare.model import (
    Cell,
    Comparison,
    Completed,
    Environment,
    Failed,
    LabSpec,
    Metric,
    MetricKind,
    Outcome,
    Placement,
    Plan,
    Repetition,
    Role,
    Study,
    Summary,
    Trial,
    TrialKey,
    Verdict,
    Workload,
)

MARGIN = 0.02
COST = 0.10
BASE_S = 10e-6
LIMIT_S = 60.0
MOST_WRONG, LEAST_COVERED, LEAST_POWER = 0.05, 0.93, 0.90
MOST_WIDER = 0.10
"""Share of intervals that may be wider with the machine's states than without; the median is not if half are."""
CLEAR = {Verdict.COSTS, Verdict.GAINS}
BARE, SELF, NULL, COSTS, EDGE = "bare", "bare (A/A)", "null", "costs", "margin"
TRUTHS = {BARE: 0.0, SELF: 0.0, NULL: 0.0, COSTS: math.log1p(COST), EDGE: math.log1p(MARGIN)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One simulated launch: its log cost relative to the base, what is known of the machine, and how it ended."""

    log: float
    noise: Mapping[str, float]
    failed: bool = False


Launches = Callable[[np.random.Generator, str, float], list[Launch]]
"""The launches of one cell in one block (repeats after the first), from its log cost without what the scenario adds."""


def plain(_rng: np.random.Generator, _name: str, log: float) -> list[Launch]:
    return [Launch(log=log, noise={})]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated and what counts as wrong.

    `launches` makes the launches of a cell in a block. `judge` tells of a summary which claims are wrong, by kind: one
    rate is made of each kind. `looks` are the rounds at which somebody looks and, unless something is clear, asks for
    more. `edge`: the environment `margin` is there. `covers` is the environment whose interval must hold its truth.
    `adjusts`: the machine's state is known, and the median interval must be no wider than without it.
    """

    name: str
    what: str
    judge: Callable[[Summary], Iterator[tuple[str, bool]]]
    launches: Launches = plain
    looks: tuple[int, ...] = (10,)
    shifts: Mapping[str, float] | None = None
    covers: str = COSTS
    covered_truth: float = math.log1p(COST)
    power: bool = True
    adjusts: bool = False


# --- what is wrong ------------------------------------------------------------------------------------------------


def of(summary: Summary, name: str) -> Comparison:
    return next(item for item in summary.comparisons if item.environment == name)


def is_wrong(item: Comparison, truth: float) -> bool:
    """Tell whether a verdict contradicts the log cost `truth`."""
    if item.verdict is Verdict.COSTS:
        return truth <= 0
    if item.verdict is Verdict.GAINS:
        return truth >= 0
    if item.verdict is Verdict.NO_COST:
        return abs(truth) >= math.log1p(item.within or MARGIN)
    return item.verdict is Verdict.FAILS


def usual(summary: Summary) -> Iterator[tuple[str, bool]]:
    wrong = [is_wrong(of(summary, name), TRUTHS[name]) for name in (NULL, COSTS)]
    clear = of(summary, EDGE).verdict is Verdict.GAINS
    yield "any wrong verdict of a study", any(wrong) or clear
    yield "no cost within 2 % said of exactly 2 %", of(summary, EDGE).within == MARGIN


def of_null(truth: float, kind: str) -> Callable[[Summary], Iterator[tuple[str, bool]]]:
    def judge(summary: Summary) -> Iterator[tuple[str, bool]]:
        yield kind, is_wrong(of(summary, NULL), truth)
        yield "a wrong verdict of the others", is_wrong(of(summary, COSTS), TRUTHS[COSTS])

    return judge


def of_column(summary: Summary) -> Iterator[tuple[str, bool]]:
    decided = {*CLEAR, Verdict.NO_COST}
    yield "any verdict in the column", any(item.verdict in decided for item in summary.comparisons)


BURST = math.log(1.5)


def of_rare(share: float, truth: float, kind: str) -> Callable[[Summary], Iterator[tuple[str, bool]]]:
    """Judge `null`, of which a share of the launches costs more or fails: `truth` is its mean log cost.

    "No cost" is wrong where the study claims to have met whatever such a share of launches has (`misses`).
    """

    def judge(summary: Summary) -> Iterator[tuple[str, bool]]:
        item = of(summary, NULL)
        claims = item.misses is not None and item.misses < share
        hidden = item.verdict is Verdict.NO_COST and claims and math.log1p(item.within or MARGIN) < truth
        yield kind, item.verdict is Verdict.GAINS or hidden
        yield "a wrong verdict of the others", is_wrong(of(summary, COSTS), TRUTHS[COSTS])

    return judge


# --- what launches meet -------------------------------------------------------------------------------------------


def bursts(share: float) -> Launches:
    """Make a share of the launches of `null` cost half more."""

    def launches(rng: np.random.Generator, name: str, log: float) -> list[Launch]:
        return [Launch(log=log + BURST * (name == NULL and rng.random() < share), noise={})]

    return launches


SLOWED, SLOW = 0.30, math.log(1.3)


def repeats(rng: np.random.Generator, name: str, log: float) -> list[Launch]:
    """Three launches of ten of `null` are 30 % slower, and just those are repeated (once)."""
    first = name == NULL and rng.random() < SLOWED
    found = [Launch(log=log + SLOW * first, noise={})]
    if first:
        again = rng.random() < SLOWED
        found.append(Launch(log=log + SLOW * again + rng.normal(0.0, 0.02), noise={}))
    return found


TAIL = 0.10


def own_time_outs(share: float) -> Launches:
    """Make a share of the launches of `null` take longer than the time limit: in truth it costs."""

    def launches(rng: np.random.Generator, name: str, log: float) -> list[Launch]:
        return [Launch(log=log, noise={}, failed=name == NULL and rng.random() < share)]

    return launches


def base_time_outs(rng: np.random.Generator, name: str, log: float) -> list[Launch]:
    """A tenth of all launches has a slow tail, which the baseline's time limit cuts and the others' does not."""
    tail = rng.random() < TAIL
    return [Launch(log=log + (0.0 if name == BARE else math.log(3.0) * tail), noise={}, failed=name == BARE and tail)]


def shared_time_outs(rng: np.random.Generator, _name: str, log: float) -> list[Launch]:
    return [Launch(log=log, noise={}, failed=rng.random() < TAIL)]


def distances(rng: np.random.Generator, _name: str, log: float) -> list[Launch]:
    """Half of the launches meet vCPUs five times as far apart, which cost 30 % more."""
    far = rng.random() < 0.5
    seconds = (200e-9 if far else 40e-9) * math.exp(rng.normal(0.0, 0.05))
    return [Launch(log=log + math.log(1.3) * far, noise={"core_hand_over_s": seconds})]


def speeds(rng: np.random.Generator, _name: str, log: float) -> list[Launch]:
    """Every launch meets vCPUs of another speed, which samples tell with an error of 3 %."""
    slower = rng.normal(0.0, 0.1)
    seconds = 1e-6 * math.exp(slower + rng.normal(0.0, 0.03))
    return [Launch(log=log + slower, noise={"core_counting_s": seconds})]


def steady_distances(rng: np.random.Generator, _name: str, log: float) -> list[Launch]:
    """Distances differ hardly within a block, as in turns, and cost nothing: no coefficient can be known."""
    return [Launch(log=log, noise={"core_hand_over_s": 40e-9 * math.exp(rng.normal(0.0, 0.06))})]


def four_states(rng: np.random.Generator, name: str, log: float) -> list[Launch]:
    """Distances cost 30 %, and all other states vary without any effect; three launches of a hundred are outliers."""
    (launch,) = distances(rng, name, log + rng.normal(0.0, 0.5) * (rng.random() < 0.03))
    other = {
        "core_counting_s": 1e-6 * math.exp(rng.normal(0.0, 0.03)),
        "cores": 2.0,
        "throttled_s": rng.uniform(0, 0.1),
    }
    return [Launch(log=launch.log, noise={**launch.noise, **other})]


SCENARIOS = (
    Scenario(name="fixed", what="10 rounds", judge=usual),
    Scenario(name="six", what="6 rounds", judge=usual, looks=(6,), power=False),
    Scenario(
        name="continued", what="looked at 10, 20, 30, 40, 60, on until something is clear of null", judge=usual,
        looks=(10, 20, 30, 40, 60),
    ),
    Scenario(
        name="bursts", what="3 launches in 10 of null x1.5, 10 rounds", launches=bursts(0.3),
        judge=of_rare(0.3, 0.3 * BURST, "no cost within less than the true 13 %, or a gain"),
    ),
    Scenario(
        name="rare-bursts", what="1 launch in 10 of null x1.5, 10 rounds, which may all miss it", launches=bursts(0.1),
        judge=of_rare(0.1, 0.1 * BURST, "a gain, or no cost without saying what n can miss"),
    ),
    Scenario(
        name="rare-bursts-30", what="1 launch in 10 of null x1.5, 30 rounds", launches=bursts(0.1), looks=(30,),
        judge=of_rare(0.1, 0.1 * BURST, "no cost within less than the true 4 %, or a gain"),
    ),
    Scenario(
        name="repeats", what="3 launches in 10 of null x1.3, and repeated for it", launches=repeats,
        judge=of_null(SLOWED * SLOW, "no cost within less than the true 8 %, or a gain"),
    ),
    Scenario(
        name="time-outs", what="3 launches in 10 of null time out", launches=own_time_outs(0.3),
        judge=of_rare(0.3, math.inf, "no cost or a gain said of what times out"),
    ),
    Scenario(
        name="rare-time-outs-30", what="1 launch in 10 of null times out, 30 rounds", launches=own_time_outs(0.1),
        judge=of_rare(0.1, math.inf, "no cost or a gain said of what times out"), looks=(30,),
    ),
    Scenario(
        name="baseline-time-outs", what="1 launch in 10 is slow; in the baseline it times out", launches=base_time_outs,
        judge=of_null(0.0, "a verdict that only the cut tail made"), power=False, covers="",
    ),
    Scenario(
        name="shared-time-outs", what="1 launch in 10 of every cell times out", launches=shared_time_outs,
        judge=of_null(0.0, "a cost or a gain said of null"), power=False,
    ),
    Scenario(
        name="self-differs", what="A/A is 10 % off", judge=of_column, shifts={SELF: math.log(1.1)}, power=False,
    ),
    Scenario(
        name="baseline-differs", what="the baseline is 10 % off its own copy and all others", judge=of_column,
        shifts=dict.fromkeys((SELF, NULL, COSTS, EDGE), math.log(1.1)), power=False, covers="",
    ),
    Scenario(
        name="distances", what="half of the launches on far vCPUs (+30 %)", judge=usual, launches=distances,
        adjusts=True,
    ),
    Scenario(
        name="speeds", what="vCPUs of another speed in each launch (sd 10 %)", judge=usual, launches=speeds,
        power=False, adjusts=True,
    ),
    Scenario(
        name="steady-distances", what="distances that hardly differ and cost nothing", judge=usual,
        launches=steady_distances, adjusts=True,
    ),
    Scenario(
        name="four-states", what="far vCPUs (+30 %), other states without effect, 3 % outliers", judge=usual,
        launches=four_states, power=False, adjusts=True,
    ),
    Scenario(
        name="four-states-six", what="the same with 6 rounds", judge=usual, launches=four_states, looks=(6,),
        power=False, adjusts=True,
    ),
)  # fmt: skip


# --- one study ----------------------------------------------------------------------------------------------------


def make_plan(rounds: int) -> Plan:
    workload, placement = Workload(name="micro", time_limit_s=LIMIT_S), Placement()
    roles = {BARE: Role.BASELINE, SELF: Role.SELF}
    cells = tuple(
        Cell(
            key=f"micro/{name}",
            group="micro",
            role=roles.get(name, Role.ENVIRONMENT),
            workload=workload,
            environment=Environment(name=name, runtime="fake", network="host"),
            placement=placement,
        )
        for name in TRUTHS
    )
    study = Study(
        name="simulated",
        cluster="lab",
        lab=LabSpec(),
        baseline=BARE,
        environments=tuple(cell.environment for cell in cells if cell.role is not Role.SELF),
        placements=(placement,),
        workloads=(workload,),
        repetition=Repetition(rounds=rounds, max_rounds=rounds),
        margin=MARGIN,
    )
    return Plan(study=study, cells=cells, unavailable={}, digest="simulated")


def make_trials(plan: Plan, scenario: Scenario, rng: np.random.Generator) -> list[Trial]:
    trials = []
    for r in range(max(scenario.looks)):
        shared = rng.normal(0.0, 0.05) + rng.normal(0.0, 0.03)
        for position, cell in enumerate(plan.cells):
            name = cell.environment.name
            log = TRUTHS[name] + (scenario.shifts or {}).get(name, 0.0)
            log += shared + rng.normal(0.0, 0.02) + rng.normal(0.0, 0.02)
            for repeat, launch in enumerate(scenario.launches(rng, name, log)):
                key = TrialKey(cell=cell.key, round=r, block=0, attempt=0, repeat=repeat)
                trials.append(_trial(key, position, launch))
    return trials


def _trial(key: TrialKey, position: int, launch: Launch) -> Trial:
    value = BASE_S * math.exp(launch.log)
    metric = Metric(key="m", label="metric", kind=MetricKind.COST, value=value, median_s=value, p99_s=value)
    outcome: Outcome = Failed(reason="timed out") if launch.failed else Completed(metrics=(metric,))
    return Trial(key=key, position=position, started_unix_s=0.0, elapsed_s=1.0, outcome=outcome, noise=launch.noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one study got wrong by kind, whether its interval held the truth, and whether the cost was called one."""

    wrong: Mapping[str, bool]
    covered: bool | None
    found: bool
    wider: bool | None = None


def run_study(scenario: Scenario, seed: tuple[int, int]) -> Result:
    trials = make_trials(make_plan(max(scenario.looks)), scenario, np.random.default_rng(seed))
    wrong: dict[str, bool] = {}
    summary = None
    for number, rounds in enumerate(scenario.looks):
        done = [trial for trial in trials if trial.key.round < rounds]
        summary = summarise(make_plan(rounds), done, {}, looks=scenario.looks[:number])
        for kind, is_it in scenario.judge(summary):
            wrong[kind] = wrong.get(kind, False) or is_it
        if of(summary, NULL).verdict in CLEAR:
            break  # whoever hopes for a difference stops here
    assert summary is not None
    covered = None
    if scenario.covers:
        overhead = of(summary, scenario.covers).overhead
        covered = overhead is not None and overhead.low <= math.expm1(scenario.covered_truth) <= overhead.high
    wider = None
    if scenario.adjusts:
        blind = summarise(make_plan(max(scenario.looks)), [replace(trial, noise={}) for trial in trials], {})
        wider = _width(summary) > _width(blind) * (1 + 1e-9)
    return Result(wrong=wrong, covered=covered, found=of(summary, COSTS).verdict is Verdict.COSTS, wider=wider)


def _width(summary: Summary) -> float:
    overhead = of(summary, COSTS).overhead
    return math.inf if overhead is None else math.log((1 + overhead.high) / (1 + overhead.low))


# --- many studies -------------------------------------------------------------------------------------------------


def _run(job: tuple[int, int, int]) -> list[Result]:
    index, first, last = job
    return [run_study(SCENARIOS[index], (index, study)) for study in range(first, last)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened, with the exact 95 % interval, and the bound that it is held to."""

    what: str
    hits: int
    n: int
    most: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Tell whether the interval allows the bound: a rate held to `most` is broken if all of it lies above."""
        low, high = share_interval(self.hits, self.n)
        return (self.most is None or low <= self.most) and (self.least is None or high >= self.least)

    def __str__(self) -> str:
        low, high = share_interval(self.hits, self.n)
        held = f"<= {self.most:.2f}" if self.most is not None else f">= {self.least:.2f}"
        mark = "" if self.holds else "   BROKEN"
        return f"  {self.what:<62} {self.hits / self.n:6.4f} [{low:.4f}, {high:.4f}]  {held}  n = {self.n}{mark}"


def rates(scenario: Scenario, results: Sequence[Result]) -> list[Rate]:
    n = len(results)
    found = [
        Rate(what=kind, hits=sum(result.wrong[kind] for result in results), n=n, most=MOST_WRONG)
        for kind in results[0].wrong
    ]
    known = [result.covered for result in results if result.covered is not None]
    if known:
        what = f"the 95 % interval of {scenario.covers} holds {100 * math.expm1(scenario.covered_truth):.1f} %"
        found.append(Rate(what=what, hits=sum(known), n=len(known), least=LEAST_COVERED))
    if scenario.adjusts:
        hits = sum(bool(result.wider) for result in results)
        found.append(Rate(what="the interval of costs is wider than without states", hits=hits, n=n, most=MOST_WIDER))
    if scenario.power:
        hits = sum(result.found for result in results)
        found.append(Rate(what="a cost of 10 % is called one", hits=hits, n=n, least=LEAST_POWER))
    return found


def simulate(scenario: Scenario, studies: int, jobs: int = 1, chunk: int = 50) -> list[Rate]:
    """Return the rates of a scenario over so many studies."""
    index = SCENARIOS.index(scenario)
    parts = [(index, first, min(studies, first + chunk)) for first in range(0, studies, chunk)]
    if jobs == 1:
        return rates(scenario, [result for part in parts for result in _run(part)])
    with Pool(jobs) as pool:
        return rates(scenario, [result for part in pool.map(_run, parts, chunksize=1) for result in part])


def self_power(columns: int, *, rounds: int = 10, spread: float = 0.04, power: float = 0.9) -> float:
    """Return the difference (a fraction) of A/A that is found with so much power in one of so many columns.

    Noncentral t at the level of Holm's first step, at the first look; found by bisection.
    """
    alpha = SELF_ALPHA * share_of_look(0) / columns
    critical = float(student.isf(alpha / 2.0, rounds - 1))
    low, high = 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        found = float(nct.sf(critical, rounds - 1, middle / spread * math.sqrt(rounds)))
        low, high = (low, middle) if found > power else (middle, high)
    return math.expm1(high)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count wrong verdicts on simulated studies of known truth.")
    parser.add_argument("--studies", type=int, default=4000, help="studies a scenario (default 4000)")
    parser.add_argument("--only", nargs="+", default=[], help="scenarios by name")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--self-power", action="store_true", help="print what A/A finds with 90 %% power, nothing else")
    options = parser.parse_args(arguments)
    if options.self_power:
        for columns in (1, 6):
            print(f"A/A of {columns} column(s), 10 rounds, sd 4 %: {100 * self_power(columns):.1f} % with 90 % power")
        return 0
    chosen = [scenario for scenario in SCENARIOS if not options.only or scenario.name in options.only]
    held = True
    for scenario in chosen:
        started = time.monotonic()
        found = simulate(scenario, options.studies, options.jobs)
        print(f"{scenario.name}: {scenario.what} ({time.monotonic() - started:.0f} s)")
        for rate in found:
            print(rate, flush=True)
            held = held and rate.holds
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
