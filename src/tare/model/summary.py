"""What a report says: verdicts, estimates, comparisons and findings, all computed anew from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tare.model.study import Cell, Environment, MetricKind, Published


class Verdict(StrEnum):
    """The judgement on one comparison."""

    BASELINE = "baseline"
    NO_COST = "no cost"
    COSTS = "costs"
    GAINS = "gains"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    NOISE_FLOOR = "noise floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its interval and the number of rounds behind it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One environment against the baseline on one metric.

    `overhead` is a fraction of the baseline's cost (0.59 = 59 % more); `added_s` the added time in seconds;
    `median_ratio` the ratio of medians (1 = equal) with its BCa interval; `simultaneous` is `overhead` with its
    Holm-adjusted interval. Absent estimates (`None` here is "not computable", with `reason` saying why) belong to
    `INVALID` and `UNAVAILABLE`. `values_s` holds the cost of every trial in order of `rounds`.
    """

    metric: str
    environment: str
    group: str
    verdict: Verdict
    reason: str = ""
    overhead: Estimate | None = None
    simultaneous: Estimate | None = None
    added_s: Estimate | None = None
    median_ratio: Estimate | None = None
    absolute_s: Estimate | None = None
    p_value: float | None = None
    p_holm: float | None = None
    more_rounds: int | None = None
    rounds: tuple[int, ...] = ()
    values_s: tuple[float, ...] = ()
    median_s: float | None = None
    p99_s: float | None = None
    dip_p_value: float | None = None
    reruns: int = 0
    over_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A mechanism that the launches of a cell show, in `launches` of `of`: what it is, how it was seen, its remedy."""

    group: str
    environment: str
    kind: str
    text: str
    launches: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What an environment kept from its ranks and what it gave them, in words; `shared` are namespaces of the node.

    `devices` are those beyond the usual that can be opened, `mounts` where files can be written, `limits` what
    the kernel holds a container to.
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
    limits: str = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """What a column of the report is."""

    key: str
    label: str
    kind: MetricKind
    statistic: str
    group: str
    message_bytes: int | None = None
    done_per_sample: float = 0.0
    rate_unit: str = "B/s"
    added_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that a report shows, computed anew from the store.

    `comparisons` holds one entry per (environment, metric), the baseline's and the A/A's among them, in the
    order in which a table lists them. `headline` is the one sentence of the first screen. `cells` are the plan's:
    a report needs them to tell which environment a trial belongs to, and to list also what never ran.
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
    findings: tuple[Finding, ...] = ()
    isolation: tuple[Isolation, ...] = ()
    published: tuple[Published, ...] = ()
