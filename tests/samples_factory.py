"""Make a realistic result without running anything: a plan, its trials, their samples and the summary.

The figures follow what was seen on a quiet machine (METHOD.md section 3), so that a report made of them looks like a
report. The statistics are the plain paired ones; the real ones live in `tare.analysis.stats` and
`tare.analysis.summary`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from factory_options import ENVIRONMENTS, MARGIN, MEAN_OF_TYPICAL, USUAL, Floats, Options, Shape
from factory_summary import make_summary
from tare.model import (
    Cause,
    Cell,
    Completed,
    Estimate,
    Failed,
    Interrupted,
    Invalid,
    LabSpec,
    Metric,
    Outcome,
    Plan,
    Repetition,
    Role,
    Study,
    Summary,
    Trial,
    TrialKey,
    Workload,
)
from tare.report.plots.histograms import Read

START_UNIX_S = 1_795_000_000.0


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

    def reader(self, trial: Trial) -> Read:
        """Return what makes the samples of a trial."""
        return partial(self.columns, trial)

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


def make(options: Options = USUAL) -> Result:
    """Return a plan, its trials, their samples and the summary, the same for the same options."""
    plan = make_plan(options)
    trials = make_trials(plan, options)
    samples = FakeSamples(shapes=options.shapes, count=options.samples)
    return Result(plan=plan, trials=trials, samples=samples, summary=make_summary(plan, trials, options))


def with_causes(result: Result) -> Result:
    """Return the result with a proven cause for docker+bridge, and one for two metrics of docker+overlay."""
    first = result.summary.metrics[0].group
    keys = tuple(info.key for info in result.summary.metrics if info.group == first and info.judged)
    proven = Cause(
        group=first, environment="docker+bridge", metrics=keys, name="packet-filter", words="packet filter on bridge",
        proven=True, share=Estimate(value=0.8, low=0.7, high=0.9, n=10),
        remedy="sysctl net.bridge.bridge-nf-call-iptables=0",
    )  # fmt: skip
    likely = Cause(
        group=first, environment="docker+overlay", metrics=keys[:2], name="encapsulation", words="encapsulation in UDP",
        proven=False, share=None, remedy="network: direct",
    )  # fmt: skip
    return replace(result, summary=replace(result.summary, causes=(proven, likely)))


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
