"""Make a realistic result without running anything: a plan, its trials, their samples and the summary.

The figures follow what was seen on a quiet machine (METHOD.md section 3), so that a report made of them looks like a
report. The statistics are the plain paired ones; the real ones live in `tare.stats` and `tare.summary`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tare.model import (
    Cell,
    Comparison,
    Completed,
    Environment,
    Estimate,
    Failed,
    FailureRate,
    Interrupted,
    Invalid,
    KernelSpec,
    LabSpec,
    MeanCost,
    Metric,
    MetricInfo,
    MetricKind,
    Outcome,
    Placement,
    Plan,
    Repeats,
    Repetition,
    Role,
    Study,
    Summary,
    Trial,
    TrialKey,
    Verdict,
    Workload,
)

SELF = "bare (A/A)"
MARGIN = 0.02
LIMIT = 0.05
START_UNIX_S = 1_795_000_000.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one metric looks like on the bare hosts; `weight` is how much of an environment's cost it feels."""

    key: str
    label: str
    kernel: KernelSpec
    base_s: float
    latency_weight: float
    bandwidth_weight: float
    kind: MetricKind = MetricKind.COST
    done_per_sample: int = 0
    statistic: str = "mean of max over ranks"
    columns: tuple[str, ...] = ("max_s", "mean_s")
    judged: bool = True


def _sizes(key: str, label: str, sizes: Sequence[int], start_s: float, per_byte_s: float) -> tuple[Shape, ...]:
    return tuple(
        Shape(
            key=f"{key}:{size}",
            label=f"{label} {_size(size)}",
            kernel=KernelSpec(kernel=key, message_bytes=size),
            base_s=start_s + size * per_byte_s,
            latency_weight=start_s / (start_s + size * per_byte_s),
            bandwidth_weight=size * per_byte_s / (start_s + size * per_byte_s),
        )
        for size in sizes
    )


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def _rate(key: str, label: str, size: int, rate: float) -> Shape:
    return Shape(
        key=f"{key}:{size}",
        label=f"{label} {_size(size)}",
        kernel=KernelSpec(kernel=key, message_bytes=size),
        base_s=64 * size / rate,
        latency_weight=0.0,
        bandwidth_weight=1.0,
        kind=MetricKind.RATE,
        done_per_sample=64 * size,
    )


QUICKSTART: tuple[Shape, ...] = (
    *_sizes("latency", "latency", (8, 65536), 8.2e-6, 0.45e-9),
    _rate("bw", "bw", 1 << 20, 3.1e9),
    Shape(
        key="barrier", label="barrier", kernel=KernelSpec(kernel="barrier"), base_s=9.6e-6,
        latency_weight=1.0, bandwidth_weight=0.0,
    ),
    *_sizes("alltoallv", "alltoallv", (65536,), 18e-6, 0.9e-9),
    *(
        Shape(
            key=f"spacing:8@10000.{side}", label=f"spacing 8 B {side}",
            kernel=KernelSpec(kernel="spacing", rate_hz=10000.0), base_s=base_s, latency_weight=weight,
            bandwidth_weight=0.0, statistic="p99 minus median gap",
            columns=("send_gap_s", "receive_gap_s"), judged=False,
        )
        for side, base_s, weight in (("send", 3.5e-6, 0.1), ("receive", 11e-6, 0.6))
    ),
)  # fmt: skip

SWEEP: tuple[Shape, ...] = (
    *_sizes("latency", "latency", tuple(4**k for k in range(11)), 8.2e-6, 0.45e-9),
    *(_rate("bw", "bw", 4**k, 3.1e9 * min(1.0, 4**k / 65536) ** 0.8) for k in range(3, 11)),
    *QUICKSTART[3:],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an environment adds to latency and to bandwidth-bound time, as fractions, and how noisy it is."""

    latency: float
    bandwidth: float
    noise: float = 0.012


ENVIRONMENTS: Mapping[str, tuple[Environment, Cost]] = {
    name: (Environment(name=name, runtime=runtime, network=network, image=image), Cost(latency=lat, bandwidth=band))
    for name, runtime, network, image, lat, band in (
        ("bare", "bare", "host", "", 0.0, 0.0),
        ("bare+image", "bare", "host", "debian12", 0.003, -0.004),
        ("bare+bridge", "bare", "bridge", "", 0.31, 0.26),
        ("docker+host", "docker", "host", "debian12", 0.006, 0.002),
        ("docker+bridge", "docker", "bridge", "debian12", 0.33, 0.27),
        ("docker+direct", "docker", "direct", "debian12", 0.004, 0.001),
        ("docker+macvlan", "docker", "macvlan", "debian12", 0.035, 0.015),
        ("docker+overlay", "docker", "overlay", "debian12", 0.59, 0.77),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to make: sizes, and which misfortunes to put in; `collapse` is an overhead that the overlay gets instead.

    With `failing` a third of the launches of docker+bridge failed.
    """

    shapes: tuple[Shape, ...] = QUICKSTART
    rounds: int = 10
    samples: int = 400
    trouble: bool = True
    emulated: bool = True
    placements: tuple[Placement, ...] = (Placement(),)
    seed: int = 7
    collapse: float = 0.0
    failing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that a report is made of."""

    plan: Plan
    trials: tuple[Trial, ...]
    samples: FakeSamples
    summary: Summary


@dataclass(slots=True, kw_only=True)
class FakeSamples:
    """A `SampleSource` that makes the samples of a trial when they are asked for."""

    shapes: tuple[Shape, ...]
    count: int
    asked: list[TrialKey] = field(default_factory=list)

    def columns(self, trial: Trial) -> Mapping[str, Floats]:
        """Return samples whose mean is the trial's metric."""
        self.asked.append(trial.key)
        if not isinstance(trial.outcome, Completed):
            return {}
        rng = np.random.default_rng(_seed(trial.key))
        values = {metric.key: metric.value for metric in trial.outcome.metrics}
        result: dict[str, Floats] = {}
        for shape in self.shapes:
            for column in shape.columns:
                samples = _samples(rng, shape, values[shape.key], self.count, column)
                result[f"{shape.key.rpartition('.')[0] or shape.key}/{column}"] = samples
        return result


def _seed(key: TrialKey) -> int:
    return zlib.crc32(f"{key.cell}{key.round}{key.block}{key.attempt}".encode())


def _samples(rng: np.random.Generator, shape: Shape, value_s: float, count: int, column: str) -> Floats:
    if shape.kernel.rate_hz:
        spread = value_s / 4 if column == "receive_gap_s" else value_s / 12
        gaps = 1 / shape.kernel.rate_hz + spread * rng.standard_t(4, count)
        return np.asarray(np.abs(gaps), dtype=np.float64)
    body = rng.lognormal(0.0, 0.06, count)
    body[rng.random(count) < 0.01] *= rng.uniform(1.5, 6.0)
    return np.asarray(body * (value_s / body.mean()) * (1.0 if column == "max_s" else 0.97), dtype=np.float64)


def make(options: Options = Options()) -> Result:
    """Return a plan, its trials, their samples and the summary, the same for the same options."""
    plan = make_plan(options)
    trials = make_trials(plan, options)
    samples = FakeSamples(shapes=options.shapes, count=options.samples)
    return Result(plan=plan, trials=trials, samples=samples, summary=make_summary(plan, trials, options))


def make_plan(options: Options) -> Plan:
    """Return the expanded study."""
    workload = Workload(name="micro", kernels=tuple(shape.kernel for shape in options.shapes))
    environments = tuple(environment for environment, _ in ENVIRONMENTS.values())
    study = Study(
        name="quickstart", cluster="lab", lab=LabSpec(), baseline="bare", environments=environments,
        placements=options.placements, workloads=(workload,),
        repetition=Repetition(rounds=options.rounds, max_rounds=options.rounds), margin=MARGIN,
    )  # fmt: skip
    cells: list[Cell] = []
    for placement in options.placements:
        group = f"micro @ {placement.label}"
        baseline, *others = environments
        roles = [(baseline, Role.BASELINE), (baseline, Role.SELF), *((other, Role.ENVIRONMENT) for other in others)]
        cells += [
            Cell(
                key=f"{group} | {environment.name}{' (self)' if role is Role.SELF else ''}", group=group, role=role,
                workload=workload, environment=environment, placement=placement,
            )
            for environment, role in roles
        ]  # fmt: skip
    unavailable = {}
    if options.trouble:
        unavailable = {
            cell.key: "no driver macvlan in this kernel: load it with `modprobe macvlan`"
            for cell in cells
            if cell.environment.name == "docker+macvlan"
        }
    return Plan(study=study, cells=tuple(cells), unavailable=unavailable, digest="sha256:5f0c2f", estimated_s=214.0)


def make_trials(plan: Plan, options: Options) -> tuple[Trial, ...]:
    """Return one trial per cell and round in random order, with an interrupted block if trouble is wanted."""
    rng = np.random.default_rng(options.seed)
    clock = START_UNIX_S
    trials: list[Trial] = []
    able = [cell for cell in plan.cells if cell.key not in plan.unavailable]
    for number in range(options.rounds):
        weather = rng.normal(0.0, 0.02, len(options.shapes))
        attempts = (0, 1) if options.trouble and number == 4 else (0,)
        for attempt in attempts:
            order = rng.permutation(len(able))
            for position, index in enumerate(order):
                outcome = _outcome(able[index], options, number, weather, rng)
                if attempt < attempts[-1] and position >= 3:
                    outcome = Interrupted()
                elapsed = 1.9 + float(rng.random()) * 0.3
                trials.append(_trial(able[index], number, attempt, position, clock, elapsed, outcome))
                clock += elapsed
                if isinstance(outcome, Interrupted):
                    break
    return tuple(trials)


def _trial(cell: Cell, number: int, attempt: int, position: int, at: float, elapsed: float, outcome: Outcome) -> Trial:
    return Trial(
        key=TrialKey(cell=cell.key, round=number, block=number, attempt=attempt),
        position=position, started_unix_s=at, elapsed_s=elapsed, outcome=outcome,
        argv=("mpirun", "-n", "2", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "kernels", "latency:bytes=8"),
        startup_s={"pods": 0.21, "launch": 0.17, "mpi_init": 0.03},
        mpi_library="Open MPI v4.1.4",
        counters={"TcpRetransSegs": 0.0}, noise={"background_cpu": 0.004},
    )  # fmt: skip


def _outcome(cell: Cell, options: Options, number: int, weather: Floats, rng: np.random.Generator) -> Outcome:
    cost = ENVIRONMENTS[cell.environment.name][1]
    if options.trouble and cell.environment.name == "bare+bridge":
        return Invalid(
            reason="eth1 carried 12 % of the payload and the bridge the rest: the cell claims the bridge alone"
        )
    if options.trouble and cell.environment.name == "docker+direct" and number == 7:
        return Failed(
            reason="rank 1 ended by signal 11 on node 2", status=139, stderr_tail="*** Process received signal ***"
        )
    metrics = []
    for shape, shared in zip(options.shapes, weather, strict=True):
        overhead = cost.latency * shape.latency_weight + cost.bandwidth * shape.bandwidth_weight
        if options.collapse and cell.environment.name == "docker+overlay":
            overhead = options.collapse
        noisy = 4.0 if shape.kernel.rate_hz else 1.0
        value = shape.base_s * (1 + overhead) * float(np.exp(shared + rng.normal(0.0, cost.noise * noisy)))
        metrics.append(_metric(shape, value, options.samples))
    return Completed(metrics=tuple(metrics))


def _metric(shape: Shape, value: float, samples: int) -> Metric:
    return Metric(
        key=shape.key, label=shape.label, kind=shape.kind, value=value, statistic=shape.statistic,
        median_s=value / MEAN_OF_TYPICAL, p99_s=value * 1.4, judged=shape.judged, rank_average_s=value * 0.97,
        samples=samples, done_per_sample=shape.done_per_sample, message_bytes=shape.kernel.message_bytes,
    )  # fmt: skip


# --- the summary ------------------------------------------------------------------------------------------------


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
        dip_p_value=0.62 if other and d.size >= 20 else None, over_limit=judged is Verdict.COSTS and wide.low > LIMIT,
        reason=_reason(judged, wide),
    )  # fmt: skip


def _reason(judged: Verdict, wide: Estimate) -> str:
    if judged is Verdict.FAILS:
        return "4 of 10 launches failed, more than the baseline's (p = 0.04)"
    return f"beyond the limit of {LIMIT:.0%}" if judged is Verdict.COSTS and wide.low > LIMIT else ""


MEAN_OF_TYPICAL = 1.03


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
