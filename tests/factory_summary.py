"""Make the summary of a made-up result, with plain paired statistics in place of those of `tare.analysis.stats`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from factory_options import LIMIT, MARGIN, MEAN_OF_TYPICAL, SELF, Floats, Options, Shape
from tare.model import (
    Cell,
    Comparison,
    Completed,
    Estimate,
    FailureRate,
    Invalid,
    MeanCost,
    MetricInfo,
    Plan,
    Repeats,
    Role,
    Summary,
    Trial,
    Verdict,
)


def _estimate(d: Floats, confidence: float) -> Estimate:
    half = float(stats.t.ppf(0.5 + confidence / 2, d.size - 1) * d.std(ddof=1) / np.sqrt(d.size))
    return Estimate(value=float(d.mean()), low=float(d.mean()) - half, high=float(d.mean()) + half, n=d.size)


def _ratio(d: Floats, confidence: float) -> Estimate:
    log = _estimate(d, confidence)
    return Estimate(value=np.expm1(log.value), low=np.expm1(log.low), high=np.expm1(log.high), n=log.n)


LADDER = (MARGIN, 0.05, 0.10)


def _verdict(d: Floats) -> tuple[Verdict, float | None]:
    equal, wide = _ratio(d, 0.9), _ratio(d, 0.995)
    for margin in LADDER:
        if equal.low > -margin and equal.high < margin and (margin == MARGIN or not (wide.low > 0 or wide.high < 0)):
            return Verdict.NO_COST, margin
    return (Verdict.COSTS if wide.low > 0 else Verdict.GAINS if wide.high < 0 else Verdict.INCONCLUSIVE), None


def _series(cell: Cell, metric: str, trials: Sequence[Trial]) -> dict[int, float]:
    return {
        trial.key.round: found.typical_s
        for trial in trials
        if trial.key.cell == cell.key and isinstance(trial.outcome, Completed)
        for found in trial.outcome.metrics
        if found.key == metric
    }


def _comparison(
    cell: Cell, shape: Shape, plan: Plan, trials: Sequence[Trial], base: dict[int, float], options: Options
) -> Comparison:
    name = SELF if cell.role is Role.SELF else cell.environment.name
    if cell.key in plan.unavailable:
        return Comparison(
            metric=shape.key, environment=name, group=cell.group, verdict=Verdict.UNAVAILABLE,
            reason=plan.unavailable[cell.key],
        )  # fmt: skip
    own = _series(cell, shape.key, trials)
    if not own:
        reason = next(t.outcome.reason for t in trials if t.key.cell == cell.key and isinstance(t.outcome, Invalid))
        return Comparison(metric=shape.key, environment=name, group=cell.group, verdict=Verdict.INVALID, reason=reason)
    if options.failing and name == "docker+bridge":
        own = {number: value for number, value in own.items() if number % 3}
    rounds = tuple(number for number in own if number in base)
    mine, bare = (np.array([values[number] for number in rounds]) for values in (own, base))
    d = np.log(mine / bare)
    given = {Role.BASELINE: Verdict.BASELINE, Role.SELF: Verdict.NOISE_FLOOR}.get(cell.role)
    judged, within = (given, None) if given else _verdict(d)
    if not shape.judged and given is not Verdict.BASELINE:
        judged, within = Verdict.NOT_JUDGED, None
    failures = FailureRate(failed=0, launches=len(own), low=0.0, high=0.31)
    if options.failing and name == "docker+bridge":
        failures = FailureRate(failed=4, launches=10, low=0.12, high=0.74, p_value=0.043, more=True)
        judged = Verdict.FAILS if shape.judged else judged
    other = cell.role is not Role.BASELINE
    median = float(np.median(mine) / np.median(bare))
    wide = _ratio(d, 0.995)
    half = float(d.std()) / np.sqrt(d.size) * 2
    return Comparison(
        metric=shape.key, environment=name, group=cell.group, verdict=judged, within=within, failures=failures,
        at_most=_ratio(d, 0.9).high if other else None, mean=_mean(d, mine, bare) if other else None,
        mean_absolute_s=_estimate(mine * MEAN_OF_TYPICAL, 0.95),
        loop_s=_estimate(mine * 0.94, 0.95) if shape.kernel.kernel == "barrier" else None,
        repeats=_repeats(name, d) if other else None, misses=0.26,
        overhead=_ratio(d, 0.95) if other else None, simultaneous=_ratio(d, 0.995) if other else None,
        added_s=_estimate(mine - bare, 0.95) if other else None,
        median_ratio=Estimate(value=median, low=median - half, high=median + half, n=d.size) if other else None,
        absolute_s=_estimate(mine, 0.95), p_value=0.01 if other else None, p_holm=0.04 if other else None,
        more_rounds=24 if judged is Verdict.INCONCLUSIVE else None, rounds=rounds, values_s=tuple(map(float, mine)),
        median_s=float(np.median(mine)) * 0.985, p99_s=float(np.median(mine)) * 1.4,
        p99_interval_s=(float(np.median(mine)) * 1.38, float(np.median(mine)) * 1.42),
        over_limit=judged is Verdict.COSTS and wide.low > LIMIT,
        reason=_reason(judged, wide),
    )  # fmt: skip


def _reason(judged: Verdict, wide: Estimate) -> str:
    if judged is Verdict.FAILS:
        return "4 of 10 launches failed, more often than the baseline's (p = 0.04)"
    return f"above the limit of {LIMIT:.0%}" if judged is Verdict.COSTS and wide.low > LIMIT else ""


def _mean(d: Floats, mine: Floats, bare: Floats) -> MeanCost:
    overhead = _ratio(d + 0.004, 0.95)
    added = _estimate(MEAN_OF_TYPICAL * (mine - bare), 0.95)
    return MeanCost(overhead=overhead, added_s=added, at_most=_ratio(d + 0.004, 0.9).high)


def _repeats(name: str, d: Floats) -> Repeats:
    if name == "docker+overlay":
        return Repeats(repeated=4, launches=14, p_value=0.032, overhead=_ratio(d + 0.01, 0.95))
    return Repeats(repeated=0, launches=10, p_value=1.0, overhead=_ratio(d, 0.95))


def _headline(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    found = next(c for c in comparisons if c.metric == first.metric and c.environment == "docker+overlay")
    if found.added_s is None or found.overhead is None or first.absolute_s is None:
        return "nothing could be compared"
    added = [f"{value * 1e6:.1f}" for value in (found.added_s.value, found.added_s.low, found.added_s.high)]
    base, percent = f"{first.absolute_s.value * 1e6:.1f} µs", f"{found.overhead.value * 100:.0f} %"
    return "docker+overlay adds {} µs [{}, {}] ".format(*added) + f"({percent}) to {base} of a small message on bare"


def make_summary(plan: Plan, trials: Sequence[Trial], options: Options) -> Summary:
    """Return the summary with plain paired statistics."""
    kept = [trial for trial in trials if not (options.trouble and trial.key.round == 4 and trial.key.attempt == 0)]
    comparisons: list[Comparison] = []
    metrics: list[MetricInfo] = []
    for group in dict.fromkeys(cell.group for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.group == group]
        for shape in options.shapes:
            base = _series(cells[0], shape.key, kept)
            comparisons += [_comparison(cell, shape, plan, kept, base, options) for cell in cells]
            metrics.append(
                MetricInfo(
                    key=shape.key, label=shape.label, kind=shape.kind, statistic=shape.statistic, group=group,
                    message_bytes=shape.kernel.message_bytes, done_per_sample=shape.done_per_sample,
                    judged=shape.judged,
                )
            )  # fmt: skip
    completed = sum(isinstance(trial.outcome, Completed) for trial in trials)
    counts = {
        "cells": len(plan.cells), "trials": len(trials), "trials completed": completed,
        "trials interrupted": len(trials) - len(kept), "reruns": 0, "comparisons": len(comparisons),
    }  # fmt: skip
    where = "In this emulated lab" if options.emulated else "On cluster zeus"
    return Summary(
        name="quickstart", cluster="lab" if options.emulated else "zeus", emulated=options.emulated, baseline="bare",
        self_name=SELF, margin=MARGIN, limit=LIMIT, confidence=0.95, rounds_done=options.rounds,
        metrics=tuple(metrics), environments=plan.study.environments, comparisons=tuple(comparisons),
        headline=f"{where} {_headline(comparisons)}.",
        machine=(
            f"{'emulated lab: 2 nodes x 1 core in one machine' if options.emulated else '2 nodes x 10 cores'}, "
            "Intel Xeon E5-2680 v4, Linux 6.1.0-18-amd64, Open MPI 4.1.4, veth 1500 B MTU"
        ),
        manifest=MANIFEST, counts=counts, exit_code=4 if options.trouble else 1, cells=plan.cells,
        unavailable=plan.unavailable, looks=(options.rounds,), next_look=2 * options.rounds,
    )  # fmt: skip


MANIFEST: Mapping[str, object] = {
    "host": {
        "hostname": "node-0",
        "cpu": "Intel Xeon E5-2680 v4 @ 2.40 GHz",
        "cores": 2,
        "memory_bytes": 25_202_515_968,
        "kernel": "6.1.0-18-amd64",
        "governor": "performance",
        "mitigations": ["spectre_v2: Retpolines", "ssbd: prctl"],
    },
    "versions": {"tare": "0.1.0", "mpi": "Open MPI v4.1.4", "docker": "20.10.24", "python": "3.11.2"},
    "images": {"debian12": "sha256:0d9b2f6c41e3a1c5d6a6d1e0a4b2c9d7b8f6e5a4"},
    "network": {
        "data link": {"mtu": 1500, "rate": "not shaped", "segmented": False, "tso": "on", "gso": "on"},
        "overlay": {"vxlan id": 4097, "mtu": 1450, "tunnel offload": "on"},
    },
    "mpi": {"pml": "ob1", "btl": "tcp,self", "coll": "basic,libnbc,tuned"},
    "repetition": {"rounds": 10, "blocks_per_round": 1, "confidence": 0.95, "order": "random within a block"},
    "seed": 1,
    "started": "2026-11-21T03:01:00Z",
}
