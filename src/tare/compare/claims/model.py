"""What a publication claims, and how a study tests it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tare.model import Estimate


class ClaimKind(StrEnum):
    """What sort of statement a claim is; a condition says how something was measured, and has no outcome."""

    SIZE = "size"
    SIGN = "sign"
    ORDER = "order"
    TREND = "trend"
    DISTRIBUTION = "distribution"
    CAUSE = "cause"
    CAPABILITY = "capability"
    CONDITION = "condition"


class Here(StrEnum):
    """What of a claim two cores with nodes in network namespaces can decide."""

    YES = "yes"
    SIGN_ONLY = "sign only"
    BY_SIMULATION = "by simulation"
    NO_HARDWARE = "no hardware"


class ClaimVerdict(StrEnum):
    """What results say of a claim."""

    REPRODUCED = "reproduced"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    UNTESTABLE = "untestable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPattern:
    """A cell and a column of results. `workload`, `placement` and `metric` may be patterns; "" is any, if it is one.

    A metric is a cost: that of a launch's typical iteration, with `mean:` before it the mean over its iterations, and
    with `spread:` how far its 99th percentile lies above its median. `counter:A+B` is
    the sum of counters, `figure:NAME` what a program reported beside its metrics, and `traffic:packets` what the nodes'
    data NICs sent. `dip:`, `share:`, `lower:` and `upper:` before a cost are numbers of the modes of a launch's
    iterations (`tare.compare.claims.modes`). `variation:` before a cost is the standard deviation of its logarithms
    over rounds. `study` is "" for that of the test.
    """

    environment: str
    workload: str = ""
    placement: str = ""
    metric: str = ""
    study: str = ""

    @property
    def what(self) -> str:
        """Return its metric in words: the variation of a cell's only cost is `variation:cost`."""
        return f"{self.metric}cost" if self.metric.endswith(":") else self.metric

    def __str__(self) -> str:
        parts = (self.what, self.workload, self.environment, self.placement)
        return " / ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A product of costs by round: `places` with their exponents, so that A over B is ((A, 1), (B, -1)).

    Costs are times, and times per amount of work for rates: more is slower. With `counts` it is a sum of counters or
    figures, with factors in place of exponents, and its region is in their unit. With `absolute` it is a product
    that is not compared with 1: its region is of the product itself.
    """

    places: tuple[tuple[CellPattern, int], ...]
    counts: bool = False
    absolute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """By how much a contrast grows from the least to the largest of a number, along a line through `points`.

    A point is where the number is read (its mean over rounds), and the contrast there; in each round a line is fitted.
    """

    points: tuple[tuple[CellPattern, Contrast], ...]

    @property
    def counts(self) -> bool:
        """Return whether the contrasts are of numbers."""
        return self.points[0][1].counts

    @property
    def absolute(self) -> bool:
        """Return False: a growth is compared with none."""
        return False

    @property
    def places(self) -> tuple[tuple[CellPattern, int], ...]:
        """Return the places of all contrasts."""
        return tuple(place for _, contrast in self.points for place in contrast.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The values of a contrast (of a product less 1) for which the claim holds: above `low` and below `high`.

    With `beyond` it is the others: below `low`, or above `high`.
    """

    low: float | None = None
    high: float | None = None
    beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """The claim holds if each contrast is in its region."""

    contrasts: tuple[tuple[Contrast | Slope, Region], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The claim holds if all launches of `places` were completed and proven, and all of `failing` failed.

    `saying` must be in the reason of each failure: another one decides nothing. Without it, nothing is decided by
    launches that were ended at their time limit, are invalid or are not proven. Where no cell must fail, it is in the
    reason of a launch that contradicts the claim.
    """

    places: tuple[CellPattern, ...] = ()
    failing: tuple[CellPattern, ...] = ()
    saying: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The claim holds if a number of every launch, or its difference from another cell's launches, is in its region."""

    counts: tuple[tuple[CellPattern, CellPattern | None, Region], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactPattern:
    """What ranks of a place report under a name: one of `patterns`, or with `differs` none of them."""

    place: CellPattern
    name: str
    patterns: tuple[str, ...]
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stating:
    """The claim holds if all ranks of all launches report the facts."""

    facts: tuple[FactPattern, ...]


Testing = Comparing | Running | Counting | Stating


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """How a study tests a claim.

    `study` is the name of the study. `cores` is how many a run needs; with fewer its figure decides nothing. `rebuilt`
    says that a product's data path was rebuilt, on which a claim about the product is not decided.
    """

    __test__ = False

    study: str
    testing: Testing
    cores: int = 0
    rebuilt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A claim that the publication's own words and figures decide."""

    verdict: ClaimVerdict
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A claim that is not decided here: what would decide it, and the study that tests it on a machine with that."""

    what: str
    study: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement: its place in the publication, its conditions, and what decides it (`by`).

    `short` says it in twelve words at most, where `says` is longer.
    """

    number: str
    place: str
    says: str
    kind: ClaimKind
    here: Here
    by: Test | Text | Undecided
    short: str = ""
    conditions: str = ""
    note: str = ""
    changed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A publication and its claims, by number; `conditions` hold unless a claim says otherwise."""

    name: str
    title: str
    source: str
    conditions: str
    claims: Mapping[str, Claim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A claim and what results say of it.

    `estimate` is the figure that decides, with its 95 % interval: a fraction by which the first cost is more than the
    second, or with `counts` a difference. `contrast` is what it is a figure of, and `region` where the claim puts it.
    `p` is the probability of data at least as clear if the opposite were true, `p_holm` after Holm's correction for all
    claims that were judged together. `why` is a sentence.
    """

    claim: Claim
    verdict: ClaimVerdict
    why: str
    estimate: Estimate | None = None
    contrast: Contrast | None = None
    region: Region | None = None
    counts: bool = False
    p: float | None = None
    p_holm: float | None = None
    conditions: str = ""
    results: str = ""
