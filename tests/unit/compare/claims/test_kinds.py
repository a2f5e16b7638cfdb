"""Claims on traffic, lines, variation, modes and what ranks report come out either way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from factory_judged import HEAD, changed, claim, decided, judged, results
from tare.compare.claims import ClaimVerdict, judge, read_paper
from tare.compare.claims.counting import LAUNCHES
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.modes import number_of
from tare.errors import StudyError
from tare.model import Completed, InterfaceTraffic, RankPlace, Trial

PROGRAMS = """
baseline: plain
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: bare, network: bridge, env: {A: 1}}
placements: [{nodes: 2, ranks_per_node: 1}]
workloads: {few: {kernels: [latency]}, some: {kernels: [latency]}, many: {kernels: [latency]}}
repetition: {rounds: 8}
"""
MANY, FEW = (f"{{environment: plain, workload: {name}}}" for name in ("many", "few"))
PACKETS = {"few": 100, "some": 500, "many": 900}


def sending(trial: Trial, packets: int) -> Trial:
    """Return a trial whose two nodes send packets of 1000 bytes, beside what a veth and a silent interface count."""
    nics = [
        InterfaceTraffic(
            node=node, interface=role, role=role, rx_bytes=7, rx_packets=7, tx_bytes=500 * packets,
            tx_packets=packets // 2,
        )
        for node in ("n0", "n1")
        for role in ("data NIC", "veth of the pod", "must stay silent")
    ]  # fmt: skip
    return replace(trial, traffic=nics)


def programs(tmp_path: Path, factors: Mapping[str, float] | None = None) -> MeasuredStudy:
    """Return results of three programs with packets of PACKETS, whose time in `slow` has a factor."""

    def program(trial: Trial) -> Trial:
        name = next(name for name in PACKETS if trial.key.cell.startswith(name))
        (metric,) = trial.outcome.metrics
        times = (factors or {}).get(name, 1.0) if "slow" in trial.key.cell else 1.0
        metric = replace(metric, value=metric.value * times, median_s=metric.median_s * times, samples=1)
        return replace(sending(trial, PACKETS[name]), outcome=Completed(metrics=(metric,)))

    return changed(results(tmp_path, text=PROGRAMS, slow=1.0), "", program)


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("count: {of: {environment: plain, workload: many, metric: 'traffic:packets'}, above: 899, below: 901}",
         ClaimVerdict.REPRODUCED),
        ("count: {of: {environment: plain, workload: many, metric: 'traffic:bytes'}, above: 1000000}",
         ClaimVerdict.CONTRADICTED),
        ("count: {of: {environment: plain, workload: many, metric: 'traffic:packets/s'}, above: 8.5e7, below: 9.5e7}",
         ClaimVerdict.REPRODUCED),
        ("each: {of: {environment: plain, workload: few, metric: 'traffic:bytes/packet'}, above: 999, below: 1001}",
         ClaimVerdict.REPRODUCED),
        ("metric: 'traffic:packets', each: {of: {environment: plain, workload: few}, above: 200}",
         ClaimVerdict.CONTRADICTED),
        (f"metric: 'traffic:packets', each: [{{of: {MANY}, against: {FEW}, above: 0}}]", ClaimVerdict.REPRODUCED),
        (f"metric: 'traffic:packets', each: [{{of: {FEW}, against: {MANY}, above: 0}}]", ClaimVerdict.CONTRADICTED),
    ],
)  # fmt: skip
def test_traffic_between_nodes_is_counted_once(tmp_path: Path, test: str, verdict: ClaimVerdict) -> None:
    made = decided(tmp_path, test, programs(tmp_path))
    assert made.verdict is verdict, made.why


def test_launches_that_differ_decide_nothing_without_statistics(tmp_path: Path) -> None:
    found = programs(tmp_path)
    mixed = [sending(trial, 100 + trial.key.round) for trial in found.trials]
    test = "metric: 'traffic:packets', each: {of: {environment: plain, workload: few}, below: 104}"
    made = decided(tmp_path, test, replace(found, trials=mixed))
    assert made.verdict is ClaimVerdict.UNDECIDED
    assert "100 to 106" in made.why
    made = decided(tmp_path, test, changed(found, "", lambda trial: replace(trial, traffic=())))
    assert made.why.startswith("no launch has packets between nodes")


@pytest.mark.parametrize(
    ("spread", "bound", "verdict", "interval"),
    [
        (1, "above: 90, below: 110", ClaimVerdict.REPRODUCED, (98.5, 103.5)),
        (1, "above: 105", ClaimVerdict.CONTRADICTED, (98.5, 103.5)),
        (10, "above: 99, below: 200", ClaimVerdict.UNDECIDED, (85.2, 134.8)),  # all inside, but of three launches
    ],
)
def test_three_launches_that_vary_have_an_interval(
    tmp_path: Path, spread: int, bound: str, verdict: ClaimVerdict, interval: tuple[float, float]
) -> None:
    found = programs(tmp_path)
    trials = [
        sending(trial, 100 + 2 * spread * trial.key.round // 2) for trial in found.trials if trial.key.round < LAUNCHES
    ]
    test = f"metric: 'traffic:packets', each: {{of: {{environment: plain, workload: few}}, {bound}}}"
    made = decided(tmp_path, test, replace(found, trials=trials))
    assert made.verdict is verdict, made.why
    assert made.estimate.n == LAUNCHES
    assert (made.estimate.low, made.estimate.high) == pytest.approx(interval, rel=0.01)
    fewer = [trial for trial in trials if trial.key.round < LAUNCHES - 1]
    made = decided(tmp_path, test, replace(found, trials=fewer))
    assert made.estimate is None, "two launches have none"
    assert made.p is None


def test_the_launches_of_two_cells_are_not_paired(tmp_path: Path) -> None:
    found = programs(tmp_path)
    counts = {0: 900, 1: 902, 2: 904}
    trials = [
        sending(trial, counts[trial.key.round] if trial.key.cell.startswith("many") else 100)
        for trial in found.trials
        if trial.key.round in counts
    ]
    test = f"metric: 'traffic:packets', each: [{{of: {MANY}, against: {FEW}, above: 0}}]"
    made = decided(tmp_path, test, replace(found, trials=trials))
    assert made.verdict is ClaimVerdict.REPRODUCED
    assert (made.estimate.low, made.estimate.value, made.estimate.high) == pytest.approx(
        (797.03, 802, 806.97), rel=1e-4
    )
    assert made.p is not None
    assert made.p < 1e-5
    assert "in each of 9 comparisons" in made.why


def test_a_number_is_held_against_that_of_another_study(tmp_path: Path) -> None:
    first = programs(tmp_path)
    other = changed(first, "", lambda trial: sending(trial, 300))
    test = (
        "metric: 'traffic:packets', each: {of: {environment: plain, workload: many}, above: 500,"
        " against: {environment: plain, workload: few, study: another}}"
    )
    file = tmp_path / "900.yaml"
    file.write_text(HEAD + claim(1, f"test: {{study: made-up, {test}}}"))
    claims = read_paper(file).claims.values()
    (made,) = judge(claims, {"made-up": first, "another": other})
    assert made.verdict is ClaimVerdict.REPRODUCED
    (made,) = judge(claims, {"made-up": first, "another": first})
    assert made.verdict is ClaimVerdict.REPRODUCED
    (made,) = judge(claims, {"made-up": first})
    assert made.why == "no results of study another are given"
    of = "{environment: a, study: t}"
    file.write_text(HEAD + claim(1, f"test: {{study: s, cost: {{of: {of}, against: b, above: 0}}}}"))
    with pytest.raises(StudyError, match="study"):
        read_paper(file)


@pytest.mark.parametrize(
    ("factor", "bound", "verdict"),
    [
        ({"few": 1.0, "some": 1.1, "many": 1.2}, "above: 0%", ClaimVerdict.REPRODUCED),
        ({"few": 1.0, "some": 1.1, "many": 1.2}, "above: 30%", ClaimVerdict.CONTRADICTED),
        ({"few": 1.2, "some": 1.1, "many": 1.0}, "above: 0%", ClaimVerdict.CONTRADICTED),
        ({"few": 1.1, "some": 1.1, "many": 1.1}, "above: 0%", ClaimVerdict.UNDECIDED),
    ],
)
def test_a_cost_grows_with_packets(tmp_path: Path, factor: dict[str, float], bound: str, verdict: ClaimVerdict) -> None:
    test = f"slope: {{of: slow, against: plain, over: [few, some, many], x: 'traffic:packets', {bound}}}"
    made = decided(tmp_path, test, programs(tmp_path, factor))
    assert made.verdict is verdict
    assert made.estimate.value == pytest.approx(factor["many"] / factor["few"] - 1, abs=0.02)


def varied(tmp_path: Path, size: float) -> MeasuredStudy:
    """Return results where launches of `slow` vary by exp(+-size) from round to round, the others by 1 %."""

    def other(trial: Trial) -> Trial:
        if trial.key.cell.endswith("slower"):
            return trial
        (metric,) = trial.outcome.metrics
        cost_s = metric.value * math.exp(size * math.sin(7.0 * trial.key.round))
        return replace(trial, outcome=Completed(metrics=(replace(metric, value=cost_s, median_s=cost_s),)))

    return changed(results(tmp_path, slow=1.0, rounds=16), "slow", other)


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("cost: {of: slow, against: plain, above: 50%}", ClaimVerdict.REPRODUCED),
        ("cost: {of: plain, against: slow, above: 0%}", ClaimVerdict.CONTRADICTED),
        ("cost: {of: slower, against: plain, above: 200%}", ClaimVerdict.CONTRADICTED),
        ("count: {of: slow, above: 0.05}", ClaimVerdict.REPRODUCED),
        ("count: {of: slow, below: 0.02}", ClaimVerdict.CONTRADICTED),
        ("count: {of: plain, above: 0.002, below: 0.05}", ClaimVerdict.REPRODUCED),
    ],
)
def test_variation_over_rounds_is_compared(tmp_path: Path, test: str, verdict: ClaimVerdict) -> None:
    made = decided(tmp_path, f"metric: 'variation:latency*', {test}", varied(tmp_path, 0.15))
    assert made.verdict is verdict, made
    assert made.why == "variation of latency:8, 16 rounds"


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("{of: slow, against: plain, above: 1}", "compare variations by cost"),
        ("{of: slow, above: 0}", "the bound of a variation must be above 0"),
    ],
)
def test_a_variation_has_a_ratio_or_a_bound(tmp_path: Path, count: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as error:
        judged(tmp_path, claim(1, f"test: {{study: s, metric: 'variation:latency*', count: {count}}}"))
    assert "900.yaml:6:" in str(error.value)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ("{of: slow, name: capabilities, values: ['14: *']}", ClaimVerdict.REPRODUCED),
        ("{of: slow, name: capabilities, others: [none]}", ClaimVerdict.REPRODUCED),
        ("{of: slow, name: capabilities, values: [none]}", ClaimVerdict.CONTRADICTED),
        ("{of: slow, name: users, values: [the machine*]}", ClaimVerdict.REPRODUCED),
        ("[{of: slow, name: namespace net, values: [own]}, {of: slow, name: namespace pid, values: [the node*]}]",
         ClaimVerdict.REPRODUCED),
        ("{of: slow, name: namespace ipc, values: [own]}", ClaimVerdict.UNDECIDED),
        ("{of: slow, name: limit memory_bytes, values: ['1024']}", ClaimVerdict.REPRODUCED),
        ("{of: slow, name: limit cpus, others: [none]}", ClaimVerdict.CONTRADICTED),
        ("{of: plain, name: capabilities, values: [none]}", ClaimVerdict.UNDECIDED),
    ],
)  # fmt: skip
def test_what_ranks_report_is_compared(tmp_path: Path, facts: str, verdict: ClaimVerdict) -> None:
    rank = RankPlace(
        rank=0, host="h", hostname="h", pid=1, cpus=(0,), namespaces={"net": 1, "pid": 2}, node_namespaces=("pid",),
        rights={"capabilities": "00000000a80425fb", "uid_map": "0 0 4294967295", "limits": "cores=1 memory_bytes=1024"},
    )  # fmt: skip
    found = changed(results(tmp_path), "slow", lambda trial: replace(trial, ranks=(rank,)))
    made = decided(tmp_path, f"facts: {facts}", found)
    assert made.verdict is verdict, made.why


@pytest.mark.parametrize("where", ["of: slow", "of: plain, against: slow"])
def test_a_number_of_a_cell_that_cannot_run_is_not_testable(tmp_path: Path, where: str) -> None:
    found = results(tmp_path)
    slow = {cell.key: "it needs an adapter" for cell in found.plan.cells if cell.environment.name == "slow"}
    kept = [trial for trial in found.trials if trial.key.cell not in slow]
    lacking = replace(found, plan=replace(found.plan, unavailable=slow), trials=kept)
    made = decided(tmp_path, f"metric: 'figure:lost', each: {{{where}, below: 1}}", lacking)
    assert made.verdict is ClaimVerdict.UNTESTABLE
    assert made.why.endswith("is unavailable: it needs an adapter")


@pytest.mark.parametrize("kind", ["each", "count"])
def test_a_figure_that_no_launch_has_told_yet_decides_nothing(tmp_path: Path, kind: str) -> None:
    found = replace(results(tmp_path), trials=[])
    made = decided(tmp_path, f"metric: 'figure:lost', {kind}: {{of: slow, below: 1}}", found)
    assert made.verdict is ClaimVerdict.UNDECIDED


def test_costs_of_another_study_are_judged_by_its_results(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()
    here, there = results(mine, slow=1.2), results(others, slow=1.0)
    file = tmp_path / "900.yaml"
    costs = "{of: slow, against: plain, above: 10%}, {study: other, of: slow, against: plain, above: 10%}"
    file.write_text(HEAD + claim(1, f"test: {{study: made-up, costs: [{costs}]}}"))
    claims = read_paper(file).claims.values()
    (both,) = judge(claims, {"made-up": here, "other": there})
    assert both.verdict is ClaimVerdict.CONTRADICTED, "the other study has no such cost"
    (one,) = judge(claims, {"made-up": here})
    assert (one.verdict, one.why) == (ClaimVerdict.UNDECIDED, "no results of study other are given")


Floats = NDArray[np.float64]


def iterations(seed: int, *, upper: float = 2.0, share: float = 0.5, scale: float = 1e-5, n: int = 4000) -> Floats:
    """Return times of which a share is around `scale` and the others around `upper` times that."""
    rng = np.random.default_rng(seed)
    centre = np.where(rng.random(n) < share, scale, upper * scale)
    return centre * np.exp(rng.normal(0.0, 0.05, n))


def with_samples(measured: MeasuredStudy, samples: Mapping[str, Floats]) -> MeasuredStudy:
    """Return results whose launches have these iterations by environment."""

    def read(trial: Trial) -> Mapping[str, Floats]:
        return {"latency:8/max_s": samples["slow" if "slow" in trial.key.cell else "plain"]}

    return replace(measured, samples=read)


@pytest.fixture
def measured(tmp_path: Path) -> MeasuredStudy:
    return results(tmp_path)


DIP = "{of: {environment: plain, metric: 'dip:latency*'}, below: 0.05}"
SHARE = "{of: {environment: plain, metric: 'share:latency*'}, above: 0.4, below: 0.6}"
NEAR = "{of: slow, against: plain, within: 2%}"
SO, NOT_SO = ClaimVerdict.REPRODUCED, ClaimVerdict.CONTRADICTED


@pytest.mark.parametrize(
    ("test", "two", "one"),
    [
        (f"count: {DIP}", SO, NOT_SO),
        (f"count: {SHARE}", SO, SO),
        (f"metric: 'upper:latency*', cost: {NEAR}", NOT_SO, NOT_SO),
        (f"metric: 'lower:latency*', cost: {NEAR}", SO, NOT_SO),
        (f"metric: 'lower:latency*', count: {DIP}, costs: [{NEAR}]", SO, NOT_SO),
        (f"metric: 'upper:latency*', count: {DIP}, costs: [{NEAR}]", NOT_SO, NOT_SO),
    ],
)
def test_two_modes_are_told_from_one(
    tmp_path: Path, measured: MeasuredStudy, test: str, two: ClaimVerdict, one: ClaimVerdict
) -> None:
    slow = iterations(2, upper=3.0)
    assert decided(tmp_path, test, with_samples(measured, {"plain": iterations(1), "slow": slow})).verdict is two
    alone = with_samples(measured, {"plain": iterations(1, upper=1.0), "slow": slow})
    assert decided(tmp_path, test, alone).verdict is one


def test_the_share_is_that_of_the_faster_mode_and_slow_turns_give_no_modes(measured: MeasuredStudy) -> None:
    samples = {"latency:8/max_s": iterations(3, share=0.8)}
    assert number_of(measured.trials[0], samples, "latency:8", "share:") == pytest.approx(0.8, abs=0.02)
    drifting = np.concatenate([iterations(turn, upper=1.0, scale=(1 + turn % 2) * 1e-5, n=400) for turn in range(10)])
    samples = {"latency:8/max_s": drifting}
    (trial, *_) = measured.trials
    in_turns = replace(trial, counters={**trial.counters, "turns": 10})
    whole, parts = (number_of(each, samples, "latency:8", "dip:") for each in (trial, in_turns))
    assert whole is not None
    assert parts is not None
    assert whole < 0.001
    assert parts > 0.2


def test_launches_without_samples_or_with_few_decide_nothing(tmp_path: Path, measured: MeasuredStudy) -> None:
    test = f"count: {DIP}"
    assert decided(tmp_path, test, measured).verdict is ClaimVerdict.UNDECIDED
    few = iterations(1, n=10)
    assert (
        decided(tmp_path, test, with_samples(measured, {"plain": few, "slow": few})).verdict is ClaimVerdict.UNDECIDED
    )
