"""Say in one sentence what was found, where, and against what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tare.model import Comparison, Estimate, MetricInfo, MetricKind, Plan, Verdict
from tare.stats import MIN_ROUNDS
from tare.text import rate_scale, three_digits

DECIDED = (Verdict.COSTS, Verdict.GAINS, Verdict.NO_COST)
LISTED = 3
TIMES_FROM: Final = 9.0
"""Overhead (as a fraction) from which a multiple is easier to read than a percentage."""
MANY_ROUNDS: Final = 200
"""Beyond this many rounds the advice is to calm the machine, not to repeat."""


def place(cluster: str) -> str:
    """Return what the sentence holds for."""
    return "In this emulated lab" if cluster == "lab" else f"On this {cluster} cluster"


def headline(plan: Plan, infos: Sequence[MetricInfo], comparisons: Sequence[Comparison], rounds_done: int) -> str:
    """Return the sentence: the largest clear cost, what shows none, and how much is open.

    Where nothing is decided yet, what differs most and surely so far, by the interval that holds for the whole table.

    No ratio stands without the baseline's absolute value, no figure without interval and n.
    """
    judged = [item for item in comparisons if item.verdict not in {Verdict.BASELINE, Verdict.NOISE_FLOOR}]
    decided = [item for item in judged if item.verdict in DECIDED]
    where = place(plan.study.cluster)
    writer = _Writer(plan, infos, comparisons)
    if not decided:
        return f"{where} {'; '.join([_undecided(judged, rounds_done), *writer.so_far(judged)])}."
    parts = [text for text in (writer.largest(decided), writer.free(decided, judged)) if text]
    sentence = f"{where} {'; '.join(parts)}"
    open_text = _open(judged)
    return f"{sentence}{'; ' if open_text else ''}{open_text}."


def _undecided(judged: Sequence[Comparison], rounds_done: int) -> str:
    rounds = f"{rounds_done} round{'s' if rounds_done != 1 else ''}"
    if not judged:
        return f"nothing is compared with the baseline ({rounds})"
    blocked = [item for item in judged if item.verdict in {Verdict.INVALID, Verdict.UNAVAILABLE}]
    if len(blocked) == len(judged):
        return (
            f"nothing could be compared: {blocked[0].environment} is {blocked[0].verdict.value} ({blocked[0].reason})"
        )
    needed = [item.more_rounds for item in judged if item.more_rounds is not None]
    more = f"; {_more(max(needed), rounds_done)}" if needed else ""
    return f"nothing is decided after {rounds}{more}"


def _more(rounds: int, done: int) -> str:
    if rounds > MANY_ROUNDS and done < MIN_ROUNDS:
        return f"a verdict needs {MIN_ROUNDS} at least"
    if rounds > MANY_ROUNDS:
        return f"launches differ too much for a verdict within {MANY_ROUNDS} more (is the machine quiet? tare doctor)"
    return f"about {rounds} more are needed"


def _open(judged: Sequence[Comparison]) -> str:
    counts = Counter(item.verdict for item in judged if item.verdict not in DECIDED)
    words = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return f"{', '.join(words)} of {len(judged)} comparisons" if words else ""


class _Writer:
    """Phrases about comparisons, with the names and the baseline's values they need."""

    def __init__(self, plan: Plan, infos: Sequence[MetricInfo], comparisons: Sequence[Comparison]) -> None:
        self._study = plan.study
        self._infos: Mapping[tuple[str, str], MetricInfo] = {(info.group, info.key): info for info in infos}
        self._same_label = Counter(info.label for info in infos)
        self._base = {
            (item.group, item.metric): item.absolute_s for item in comparisons if item.verdict is Verdict.BASELINE
        }

    def largest(self, decided: Sequence[Comparison]) -> str:
        """Return the largest cost (or, without one, gain), and where the same environment costs nothing."""
        for verdict in (Verdict.COSTS, Verdict.GAINS):
            found = [item for item in decided if item.verdict is verdict and item.overhead is not None]
            if found:
                lead = max(found, key=_size)
                free = [
                    self._label(item)
                    for item in decided
                    if item.environment == lead.environment and item.verdict is Verdict.NO_COST
                ]
                tail = f", and nothing beyond {_percent(self._study.margin)} to {_list(free)}" if free else ""
                return f"{lead.environment} {self._effect(lead)}{tail}"
        return ""

    def so_far(self, judged: Sequence[Comparison]) -> Sequence[str]:
        """Return what surely differs most of what is not decided yet, a phrase at most."""
        clear = [item for item in judged if _least(item) > math.log1p(self._study.margin)]
        if not clear:
            return ()
        lead = max(clear, key=_least)
        return (f"so far {lead.environment} {self._effect(lead)}",)

    def free(self, decided: Sequence[Comparison], judged: Sequence[Comparison]) -> str:
        """Return which environments show no cost beyond the margin on anything that was compared."""
        loud = {item.environment for item in judged if item.verdict is not Verdict.NO_COST}
        quiet = list(dict.fromkeys(item.environment for item in decided if item.environment not in loud))
        if quiet:
            n = min(item.overhead.n for item in decided if item.environment in quiet and item.overhead is not None)
            verb = "show" if len(quiet) > 1 else "shows"
            return f"{_list(quiet)} {verb} no cost beyond {_percent(self._study.margin)} on anything compared (n = {n})"
        if all(item.verdict is Verdict.NO_COST for item in decided):
            clear = [f"{item.environment} on {self._label(item)}" for item in decided]
            return f"there is no cost beyond {_percent(self._study.margin)} for {_list(clear)}"
        return ""

    def _effect(self, item: Comparison) -> str:
        """Return what an environment does to one metric."""
        info = self._infos[item.group, item.metric]
        base, overhead, added = self._base.get((item.group, item.metric)), item.overhead, item.added_s
        costs = overhead.value >= 0 if overhead is not None else item.verdict is Verdict.COSTS
        if base is None or overhead is None or added is None:
            return f"{'costs' if costs else 'gains'} on {self._label(item)}"
        if info.kind is MetricKind.RATE and info.done_per_sample > 0 and item.absolute_s is not None:
            verb = "lowers" if costs else "raises"
            of_base, of_item = (
                _rate(info.done_per_sample / cost.value, info.rate_unit) for cost in (base, item.absolute_s)
            )
            each = "a byte" if info.rate_unit == "B/s" else "for the same work"
            bounds = f"{_signed(overhead)} time {each}, n = {overhead.n}"
            return f"{verb} {self._label(item)} from {of_base} to {of_item} ({bounds})"
        verb, to = ("adds", "to") if costs else ("takes", "off")
        share = f"{_signed(overhead)} on {self._study.baseline}'s {_time(base.value)}"
        return f"{verb} {_time_interval(added)} ({share}, n = {added.n}) {to} {self._label(item)}"

    def _label(self, item: Comparison) -> str:
        label = self._infos[item.group, item.metric].label
        return f"{label} ({item.group})" if self._same_label[label] > 1 else label


def _size(item: Comparison) -> float:
    return abs(math.log1p(item.overhead.value)) if item.overhead and item.overhead.value < math.inf else math.inf


def _least(item: Comparison) -> float:
    """Return the smallest difference that the interval holds, as a logarithm; 0 where it holds none."""
    bounds = item.simultaneous or item.overhead
    if bounds is None or bounds.low <= 0 <= bounds.high:
        return 0.0
    return math.log1p(bounds.low) if bounds.low > 0 else -math.log1p(bounds.high)


def _list(names: Sequence[str]) -> str:
    shown = list(names[:LISTED])
    if len(names) > LISTED:
        shown.append(f"{len(names) - LISTED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# Layers forbid `tare.report.units` here; a sentence needs less than a table does.


def _time(seconds: float) -> str:
    size, unit = _unit(seconds)
    return f"{three_digits(seconds / size)} {unit}"


def _time_interval(added: Estimate) -> str:
    """Return an added (or saved) time with its interval in one unit, with the digits that its width supports."""
    sign = -1.0 if added.value < 0 else 1.0
    bounds = sorted((sign * added.low, sign * added.high))
    size, unit = _unit(abs(added.value))
    half = (added.high - added.low) / 2.0 / size
    digits = min(4, max(0, -math.floor(math.log10(half)))) if half > 0 else 2
    low, high = (f"{bound / size:.{digits}f}" for bound in bounds)
    return f"{abs(added.value) / size:.{digits}f} {unit} [{low}, {high}]"


def _signed(overhead: Estimate) -> str:
    if overhead.value >= TIMES_FROM:
        return f"×{1 + overhead.value:,.0f} [{1 + overhead.low:,.0f}, {1 + overhead.high:,.0f}]"
    low, value, high = (100.0 * part for part in (overhead.low, overhead.value, overhead.high))
    return f"{three_digits(value, '+')} % [{three_digits(low, '+')}, {three_digits(high, '+')}]"


def _percent(fraction: float) -> str:
    return f"{three_digits(100.0 * fraction)} %"


def _unit(seconds: float) -> tuple[float, str]:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size:
            return size, unit
    return 1e-9, "ns"


def _rate(value: float, unit: str) -> str:
    size, suffix = rate_scale(value, unit)
    return f"{three_digits(value / size)} {suffix}"
