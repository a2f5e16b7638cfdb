"""The contents of a report: verdicts, estimates, comparisons and findings, all recomputed from the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tare.model.choices import MetricKind
from tare.model.study import Cell, Environment, Published


class Verdict(StrEnum):
    """The verdict on one comparison."""

    BASELINE = "baseline"
    NO_COST = "no cost"
    COSTS = "costs"
    GAINS = "gains"
    FAILS = "fails more"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_COMPARABLE = "not comparable"
    UNAVAILABLE = "unavailable"
    NOISE_FLOOR = "noise floor"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval and the number of rounds that it is computed from."""

    value: float
    low: float
    high: float
    n: int

    def map(self, of: Callable[[float], float]) -> Estimate:
        """Return the estimate of a growing function of the value."""
        return Estimate(value=of(self.value), low=of(self.low), high=of(self.high), n=self.n)

    def per(self, amount: float) -> Estimate:
        """Return the estimate of an amount divided by the value; by nothing it is infinite."""
        value, high, low = (amount / part if part > 0 else math.inf for part in (self.value, self.low, self.high))
        return Estimate(value=value, low=low, high=high, n=self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanCost:
    """The cost of the mean launch, which programs pay; the verdict is about the typical launch instead.

    `overhead` and `at_most` (one-sided, 95 %, 0 for a gain) are fractions of the baseline's mean; `significant` if the
    adjusted interval excludes zero and A/A of the mean does not differ; for A/A itself, if it does. `limit` and exit
    code 1 refer to this cost.
    """

    overhead: Estimate
    added_s: Estimate | None
    at_most: float
    significant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """The number of launches that failed or timed out, with the 95 % interval of their share (Clopper & Pearson).

    `p_value`: one-sided, Fisher's exact test against the baseline's launches; `more` if it rejects, adjusted for the
    table.
    """

    failed: int
    launches: int
    low: float
    high: float
    p_value: float | None = None
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Launches that were repeated because of the machine's state, and the overhead over all launches.

    `p_value`: Fisher's exact test for a rate of repeats equal to the baseline's.
    """

    repeated: int
    launches: int
    p_value: float | None = None
    overhead: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEffect:
    """The effect of a machine state on one metric, over all environments together; costs are adjusted for it.

    There is none if the effect is not estimated (`tare.analysis.stats.covariates`).

    `state` is the covariate; `effect` is the fraction by which the cost grows per `per` of it ("doubling", "all of the
    launch").
    """

    group: str
    metric: str
    state: str
    effect: Estimate
    per: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Modes of one metric over all environments: centres are relative to the cell's typical cost, shares sum to 1.

    `p_value`: Hartigan's dip test on the pooled, centred log costs of `n` launches, adjusted for the table.
    `separated_by` is what of the launches' surroundings differs most between the modes; empty if nothing does.
    """

    group: str
    metric: str
    p_value: float
    n: int
    centres: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    separated_by: str = ""


class PatternKind(StrEnum):
    """What a distribution of launches or iterations shows besides its centre."""

    DRIFT = "drift"
    TAIL = "tail"
    WARM_UP = "warm-up not reached"
    DEPENDENCE = "dependent iterations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Something that a distribution shows besides its centre, found in `n` launches.

    `value` is, for a drift, the change of ln cost (of the log ratio to the baseline, if `environment` is set) from the
    first to the last launch; for a tail, ln of its p99 / median over the baseline's; for a warm-up, ln of the first
    tenth's median over the others'; for dependence, the autocorrelation at lag 1. `p_value` is adjusted for the table.
    """

    group: str
    environment: str
    metric: str
    kind: PatternKind
    value: float
    p_value: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One environment against the baseline on one metric.

    All estimates except `mean` are about the *typical* launch: the median over its iterations (its mean, if it has one
    sample). `overhead` is a fraction of the baseline's cost (0.59 = 59 % more), the geometric mean over rounds;
    `added_s` the added time in seconds, the arithmetic mean over rounds; `median_ratio` the ratio of medians (1 =
    equal) with its BCa interval; `simultaneous` is `overhead` with the adjusted interval (Holm, looks), which decides
    the verdict. `within` is the margin of the ladder for which NO_COST was shown, `at_most` the one-sided 95 % upper
    bound of the overhead, 0 for a gain. `misses` is the largest share of launches with a cost that these rounds may all
    have missed (95 %). An estimate that is not computable is `None`, with the cause in `reason`; so for `INVALID`,
    `NOT_COMPARABLE` and `UNAVAILABLE`. `values_s` holds the cost of every trial in order of `rounds`, `means_s` their
    means.
    """

    metric: str
    environment: str
    group: str
    verdict: Verdict
    reason: str = ""
    within: float | None = None
    at_most: float | None = None
    overhead: Estimate | None = None
    simultaneous: Estimate | None = None
    added_s: Estimate | None = None
    median_ratio: Estimate | None = None
    absolute_s: Estimate | None = None
    mean: MeanCost | None = None
    mean_absolute_s: Estimate | None = None
    loop_s: Estimate | None = None
    failures: FailureRate | None = None
    repeats: Repeats | None = None
    adjusted_for: tuple[str, ...] = ()
    misses: float | None = None
    p_value: float | None = None
    p_holm: float | None = None
    more_rounds: int | None = None
    rounds: tuple[int, ...] = ()
    values_s: tuple[float, ...] = ()
    means_s: tuple[float, ...] = ()
    median_s: float | None = None
    p99_s: float | None = None
    p99_interval_s: tuple[float, float] | None = None
    reruns: int = 0
    over_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A mechanism that `launches` of `of` launches of a cell show; `text` has the evidence and the remedy."""

    group: str
    environment: str
    kind: str
    text: str
    launches: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an environment costs more than the baseline on `metrics` (their keys) of a group.

    `name` is the name of the cause's plug-in, `words` says it in at most five words. `share` is the fraction of the
    cost that it explains, and `proven` is set if the share, measured by an ablation, excludes zero. `remedy` is a
    command or a key of the study. `unmeasured` says why the share could not be measured, "" if that was not tried.
    """

    group: str
    environment: str
    metrics: tuple[str, ...]
    name: str
    words: str
    proven: bool
    share: Estimate | None
    remedy: str
    unmeasured: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofGap:
    """What is not proven of the treatment in `launches` of `of` completed launches of a cell.

    `environment` is the cell's row. If `partly`, a part of the proof holds.
    """

    group: str
    environment: str
    text: str
    partly: bool
    launches: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The privileges and the isolation of an environment's ranks, as text; `shared` are namespaces of the node.

    `devices` are the additional ones that can be opened, `mounts` the writable ones, `limits` those that the kernel
    enforces on a container, `of_processes` those of its processes where they differ from the baseline's. `by` is with
    which rights its pods were made.
    """

    environment: str
    daemon: str
    capabilities: str
    seccomp: str
    no_new_privileges: str
    users: str
    speculation: str
    shared: tuple[str, ...]
    devices: str = "not known"
    mounts: str = "not known"
    setuid: str = "not known"
    by: str = "not known"
    limits: str = "not known"
    of_processes: str = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """A column of the report. One that is not `judged` has values, but no verdict."""

    key: str
    label: str
    kind: MetricKind
    statistic: str
    group: str
    message_bytes: int | None = None
    done_per_sample: float = 0.0
    rate_unit: str = "B/s"
    added_first: bool = False
    judged: bool = True

    @property
    def is_rate(self) -> bool:
        """Tell whether the metric is shown as a rate."""
        return self.kind is MetricKind.RATE and self.done_per_sample > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that a report shows, recomputed from the store.

    `comparisons` holds one entry per (environment, metric), including the baseline's and those of A/A, in the order of
    the table. `headline` is the sentence on the first screen. `cells` are the plan's: a report needs them to find the
    environment of a trial, and to list cells that did not run; `unavailable` has the reasons of cells that cannot run,
    by their keys.
    `warnings` are sentences before the headline about doubtful values. `looks` are the rounds at which verdicts are
    given (each spends error), `next_look` is the next of them.
    """

    name: str
    cluster: str
    emulated: bool
    baseline: str
    self_name: str
    margin: float
    limit: float | None
    confidence: float
    rounds_done: int
    metrics: tuple[MetricInfo, ...]
    environments: tuple[Environment, ...]
    comparisons: tuple[Comparison, ...]
    headline: str
    machine: str
    manifest: Mapping[str, Any]
    counts: Mapping[str, int]
    exit_code: int = 0
    cells: tuple[Cell, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    proof_gaps: tuple[ProofGap, ...] = ()
    isolation: tuple[Isolation, ...] = ()
    published: tuple[Published, ...] = ()
    warnings: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    next_look: int | None = None
    state_effects: tuple[StateEffect, ...] = ()
    modes: tuple[Modes, ...] = ()
    causes: tuple[Cause, ...] = ()
    patterns: tuple[Pattern, ...] = ()
