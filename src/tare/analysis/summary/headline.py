"""State in a few plain sentences which environments are free, which cost time, and which to choose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.analysis.stats import MIN_ROUNDS
from tare.clusters import CLUSTERS
from tare.model import Comparison, Estimate, MetricInfo, MetricKind, Plan, Verdict
from tare.model.text import counted, three_digits

DECIDED = (Verdict.COSTS, Verdict.GAINS, Verdict.NO_COST)
NOT_COMPARED = (Verdict.BASELINE, Verdict.NOISE_FLOOR, Verdict.NOT_JUDGED)
BLOCKED = (Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.UNAVAILABLE)
MOST_WORDS: Final = 40
SMALL_BYTES: Final = 4096
"""Up to this size the time of a message is latency, above it bandwidth."""
TIMES_FROM: Final = 9.0
"""Overhead (as a fraction) from which a multiple is easier to read than a percentage."""
MANY_ROUNDS: Final = 200
"""Above this many rounds the advice is to check whether the machine is quiet, not to add rounds."""
BOUND_BY: Final = ("latency", "bandwidth", "computing")
"""What programs are bound by, in the order in which the headline names them."""


def headline(plan: Plan, infos: Sequence[MetricInfo], comparisons: Sequence[Comparison], pending: str = "") -> str:
    """Return sentences of at most `MOST_WORDS` words: what is free, what costs most, what to choose.

    Which environments are named, and as what, is decided over the table as a whole. A figure is that of one cell of the
    table, rounded to the digits that its interval carries; intervals and n are in the table. `pending` is the reason
    why there are no verdicts yet.
    """
    environments = {each.name for each in plan.study.environments}
    judged = [item for item in comparisons if item.verdict not in NOT_COMPARED and item.environment in environments]
    writer = _Writer(plan, infos)
    if pending or not any(item.verdict in DECIDED or item.verdict is Verdict.FAILS for item in judged):
        sentences = [pending or _undecided(judged), *writer.so_far(judged)]
    else:
        sentences = writer.sentences(_findings(judged))
    return f"{_location(plan.study.cluster)} {'. '.join(sentences)}."


def _location(cluster: str) -> str:
    """Return the first words: the cluster that the sentences are about."""
    return CLUSTERS[cluster].location if cluster in CLUSTERS else f"On this {cluster} cluster"


def _undecided(judged: Sequence[Comparison]) -> str:
    if not judged:
        return "nothing is compared with the baseline"
    blocked = [item for item in judged if item.verdict in BLOCKED]
    if len(blocked) == len(judged):
        why = blocked[0]
        return f"nothing could be compared: {why.environment} is {why.verdict.value}: {_short(why.reason)}"
    n = max(len(set(item.rounds)) for item in judged)
    needed = [item.more_rounds for item in judged if item.more_rounds is not None]
    more = f"; {_more(max(needed), n)}" if needed else ""
    return f"nothing is decided after {counted(n, 'round')}{more}"


def _short(reason: str) -> str:
    """Return the beginning of a reason, which is whole below the table."""
    words = reason.rstrip(".").split()
    return " ".join(words[:25]) + (" ..." if len(words) > 25 else "")


def _more(rounds: int, done: int) -> str:
    if rounds > MANY_ROUNDS and done < MIN_ROUNDS:
        return f"a verdict needs at least {MIN_ROUNDS}"
    if rounds > MANY_ROUNDS:
        return (
            f"launches differ too much for a verdict within {MANY_ROUNDS} more; is the machine quiet? See `tare doctor`"
        )
    return f"about {rounds} more are needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """The judged comparisons of one environment."""

    name: str
    items: tuple[Comparison, ...]

    def of(self, *verdicts: Verdict) -> list[Comparison]:
        """Return the comparisons with one of these verdicts, the largest difference first."""
        return sorted((item for item in self.items if item.verdict in verdicts), key=_size, reverse=True)

    @property
    def bound(self) -> float:
        """Return the upper end of its intervals, as a fraction; infinite if one is not known."""
        return max((item.overhead.high if item.overhead else math.inf for item in self.items), default=math.inf)


def _findings(judged: Sequence[Comparison]) -> list[_Findings]:
    names = dict.fromkeys(item.environment for item in judged)
    return [_Findings(name=name, items=tuple(item for item in judged if item.environment == name)) for name in names]


class _Writer:
    """Sentences about environments, with the names of metrics that they need."""

    def __init__(self, plan: Plan, infos: Sequence[MetricInfo]) -> None:
        self._study = plan.study
        self._infos: Mapping[tuple[str, str], MetricInfo] = {(info.group, info.key): info for info in infos}
        self._same_label = Counter(info.label for info in infos)

    def sentences(self, findings: Sequence[_Findings]) -> list[str]:
        """Return the sentences, with as many names as `MOST_WORDS` allow."""
        found: list[str] = []
        for listed, whole in ((3, True), (2, True), (1, True), (1, False)):
            found = list(filter(None, self._sentences(findings, listed, whole)))
            if sum(len(sentence.split()) for sentence in found) + len(self._where()) <= MOST_WORDS:
                break
        return found

    def _where(self) -> list[str]:
        return _location(self._study.cluster).split()

    def _sentences(self, findings: Sequence[_Findings], listed: int, whole: bool) -> Iterator[str]:
        """Yield the sentences with lists of at most so many names; without `whole` only the necessary ones."""
        costly = sorted(
            (one for one in findings if one.of(Verdict.COSTS)), key=lambda one: _worst_cost(one.items), reverse=True
        )
        rest = [one for one in findings if not one.of(Verdict.COSTS, Verdict.FAILS)]
        gains = [one.of(Verdict.GAINS)[0] for one in findings if one.of(Verdict.GAINS)]
        most = max(gains, key=_size) if gains and whole else None
        free = [one for one in rest if not one.of(Verdict.INCONCLUSIVE, *BLOCKED)]
        free = [one for one in free if most is None or one.name != most.environment]
        yield self._free(sorted(free, key=lambda one: one.bound), listed)
        yield self._costs(costly, listed, whole)
        if most is not None:
            yield f"{most.environment} takes {_figure(most)} on {self._label(most)}"
        yield _told([one.name for one in findings if one.of(Verdict.FAILS)], listed, "fails", "fail")
        undecided = [one for one in rest if one.of(Verdict.INCONCLUSIVE)]
        yield _told([one.name for one in undecided], listed, "is undecided", "are undecided")
        blocked = [one.name for one in rest if one.of(*BLOCKED) and one not in undecided]
        yield _told(blocked, listed, "could not be compared", "could not be compared")
        if whole and costly:
            yield self._choice(findings)

    def so_far(self, judged: Sequence[Comparison]) -> Sequence[str]:
        """Return at most one sentence: the largest difference beyond the margin while nothing is decided yet."""
        clear = [item for item in judged if _smallest_difference(item) > math.log1p(self._study.margin)]
        if not clear:
            return ()
        lead = max(clear, key=_smallest_difference)
        return (f"So far {lead.environment} takes {_figure(lead)} on {self._label(lead)}",)

    def _free(self, free: Sequence[_Findings], listed: int) -> str:
        """Return the environments with the smallest margin, containers first, and how many have a larger one."""
        if not free:
            return ""
        within = {one.name: max(item.within or self._study.margin for item in one.items) for one in free}
        least = min(within.values())
        best = [name for name, margin in within.items() if margin == least]
        best.sort(key=self._is_control)
        told = f"{_told(best, listed, 'is free', 'are free')}, within {_percent(least)}"
        others = len(free) - len(best)
        return f"{told}, {others} more within {_percent(max(within.values()))}" if others else told

    def _costs(self, costly: Sequence[_Findings], listed: int, whole: bool) -> str:
        if not costly:
            return ""
        first, *others = costly
        worst = first.of(Verdict.COSTS)[0]
        sentence = f"{first.name} {'costs most:' if others else 'takes'} {_figure(worst)} on {self._label(worst)}"
        if not others or not whole:
            return sentence
        largest = others[0].of(Verdict.COSTS)[0]
        also = _told([one.name for one in others], listed, "costs", "cost")
        return f"{sentence}; {also} up to {_figure(largest)}"

    def _choice(self, findings: Sequence[_Findings]) -> str:
        """Return which environment to choose for a program bound by each of `BOUND_BY`, of those decided there.

        Environments of the baseline's runtime are no choice if there are others: they are there to compare. Those that
        are free there are equal, and the one is chosen whose largest cost anywhere is the smallest. What fails or could
        not be compared anywhere is no choice.
        """
        sound = [one for one in findings if not one.of(Verdict.FAILS, *BLOCKED)]
        candidates = [one for one in sound if not self._is_control(one.name)] or sound
        asked = {self._bound_by(item) for one in findings for item in one.items}
        best: dict[str, list[str]] = {}
        for bound_by in BOUND_BY:
            worst = {
                one.name: (_worst_cost(items), _worst(one.items))
                for one in candidates
                if (items := [item for item in one.items if self._bound_by(item) == bound_by])
                and all(item.verdict in DECIDED for item in items)
            }
            if len(worst) > 1:
                best.setdefault(min(worst, key=lambda name: worst[name]), []).append(bound_by)
        if len(best) == 1 and len(next(iter(best.values()))) == len(asked):
            return f"Choose {next(iter(best))}"
        parts = [f"for {' and '.join(bound_by)} {name}" for name, bound_by in best.items()]
        return f"Choose {', '.join(parts)}" if parts else ""

    def _is_control(self, name: str) -> bool:
        """Tell whether an environment has the baseline's runtime."""
        runtime = {each.name: each.runtime for each in self._study.environments}
        return runtime.get(name) == runtime.get(self._study.baseline)

    def _bound_by(self, item: Comparison) -> str:
        info = self._infos[item.group, item.metric]
        if info.kind is MetricKind.RATE:
            return "bandwidth" if info.rate_unit == "B/s" else "computing"
        if info.message_bytes is None and "barrier" not in info.key.lower():
            return "computing"
        return "latency" if (info.message_bytes or 0) <= SMALL_BYTES else "bandwidth"

    def _label(self, item: Comparison) -> str:
        label = self._infos[item.group, item.metric].label
        return f"{label}, {item.group}" if self._same_label[label] > 1 else label


def _worst_cost(items: Sequence[Comparison]) -> float:
    """Return the size of the largest cost, as a logarithm; 0 without one."""
    return max((_size(item) for item in items if item.verdict is Verdict.COSTS), default=0.0)


def _worst(items: Sequence[Comparison]) -> float:
    return max(_signed_size(item) for item in items)


def _size(item: Comparison) -> float:
    return abs(_signed_size(item))


def _signed_size(item: Comparison) -> float:
    return math.log1p(item.overhead.value) if item.overhead and item.overhead.value < math.inf else math.inf


def _smallest_difference(item: Comparison) -> float:
    """Return the smallest difference in the adjusted interval, as a logarithm; 0 if it contains zero."""
    bounds = item.simultaneous
    if bounds is None or bounds.low <= 0 <= bounds.high:
        return 0.0
    return math.log1p(bounds.low) if bounds.low > 0 else -math.log1p(bounds.high)


def _told(names: Sequence[str], listed: int, one: str, several: str) -> str:
    """Return names and what is said of them; "" if there are none."""
    if not names:
        return ""
    shown = list(names[:listed])
    if len(names) > listed:
        shown.append(f"{len(names) - listed} more")
    text = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{text} {one if len(names) == 1 else several}"


# The import contract forbids `tare.report.units` here; a sentence needs less than a table.


def _figure(item: Comparison) -> str:
    """Return a difference as more or less time, with the digits that its interval carries."""
    found = item.overhead
    if found is None or not math.isfinite(found.value):
        return "more time"
    half = (found.high - found.low) / 2
    if found.value >= TIMES_FROM:
        return f"{_rounded(1 + found.value, half)} times the time"
    return f"{_rounded(100 * abs(found.value), 100 * half)} % {'more' if found.value > 0 else 'less'} time"


def _rounded(value: float, half: float) -> str:
    """Return a value rounded to the first digit of half its interval, at most three digits."""
    if not 0 < half < math.inf:
        return three_digits(value)
    place = math.floor(math.log10(half))
    rounded = round(value, -place) or value
    return three_digits(rounded)


def signed(overhead: Estimate) -> str:
    """Return an overhead with its interval, in per cent or as a multiple."""
    if overhead.value >= TIMES_FROM:
        value, low, high = (three_digits(1 + part) for part in (overhead.value, overhead.low, overhead.high))
        return f"×{value} [{low}, {high}]"
    low, value, high = (_per_cent(part) for part in (overhead.low, overhead.value, overhead.high))
    return f"{value} % [{low}, {high}]"


def _per_cent(fraction: float) -> str:
    text = three_digits(round(100.0 * fraction, 3), "+")
    return text if text != "-100" else f"{100.0 * fraction:.9g}"  # a ratio of costs is above zero


def _percent(fraction: float) -> str:
    return f"{three_digits(100.0 * fraction)} %"
