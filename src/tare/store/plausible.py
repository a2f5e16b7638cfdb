"""State what values from programs, nodes and files may be: bounds of numbers, forms of facts. Pure.

A program's report is checked when its launch ends (`tare.workloads.gate`), a trial before it is stored and when it is
read (`tare.store.results_checks`). An implausible figure makes a launch fail; a damaged fact is left out, and named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin, get_type_hints

from tare.model import Figure, InterfaceTraffic, Metric, RankPlace, Trial, TrialKey, Work
from tare.model.text import printable
from tare.model.trial import MOST_BACK_S

LEAST_S: Final = 1e-15
MOST_S: Final = 1e10
"""Bounds of a cost: no clock resolves less than a femtosecond, and no launch takes 300 years.

Within them no ratio, square or sum in a study comes near the limits of a double.
"""
LEAST_TIMED_S: Final = 1e-8
"""Bound of what tare's own programs time: to read the clock twice takes longer, and so does any message."""
MOST_DONE: Final = 1e30
"""Bound of the work in one sample, and of a figure: the largest class of an application does 1e17 operations."""
MOST: Final = 1_000_000
"""Largest number of rounds, blocks, ranks and the like in a study (`tare.study.schema`)."""
LATEST_S: Final = 1e11
"""Latest valid time stamp: the year 5000."""
MOST_DIGITS: Final = 19
"""Digits of an integer in results: those of counters and of numbers of namespaces."""
MOST_INTEGER: Final = 10**MOST_DIGITS - 1
CLOCKS: Final = 1.001
"""How much longer a rank's clock may find a launch than the head's, which started it before and waited longer."""

Bounds = Mapping[str, tuple[float, float]]
Rows = tuple[Callable[[Any], Iterable[Any]], list[float], list[float], list[tuple[str, tuple[float, float]]]]

_TIME, _COUNT, _NUMBER, _INDEX = (0, MOST_S), (0, MOST_DONE), (-MOST_DONE, MOST_DONE), (0, MOST)
_OF_METRIC: Final = ("median_s", "p99_s", "rank_average_s", "loop_s", "turn_mean_s", "turn_spread_s")

BOUNDS: Final[Mapping[type, Bounds]] = {
    Metric: {
        "value": (LEAST_S, MOST_S),
        **dict.fromkeys(_OF_METRIC, _TIME),
        **dict.fromkeys(("done_per_sample", "samples", "late", "message_bytes"), _COUNT),
        "noise": _NUMBER,
    },
    Figure: {"value": _NUMBER},
    RankPlace: {"rank": _INDEX},
    InterfaceTraffic: dict.fromkeys(("rx_bytes", "tx_bytes", "rx_packets", "tx_packets"), _COUNT),
    TrialKey: dict.fromkeys(("round", "block", "attempt", "repeat"), _INDEX),
    Work: dict.fromkeys(
        (
            "read_bytes",
            "written_bytes",
            "received_bytes",
            "sent_bytes",
            "user_s",
            "threads",
            "output_bytes",
            "output_lines",
        ),
        _COUNT,
    ),
    Trial: {
        "position": _INDEX,
        "started_unix_s": (0, LATEST_S),
        "elapsed_s": _TIME,
        "startup_s": _NUMBER,
        "noise": (-MOST_BACK_S, MOST_DONE),
        "left": _INDEX,
        **dict.fromkeys(("counters", "node_counters"), _COUNT),  # they are what grew
    },
}
"""Bounds of the numbers of each class; of a mapping, those of its values. NaN is within none."""


def _rows_of(kind: type, bounds: Bounds) -> Rows:
    """Return what gets the single numbers of an object, their lower and upper bounds, and its mappings with theirs.

    Integers below these upper bounds have at most `MOST_DIGITS`.
    """
    origins: dict[str, set[Any]] = {
        name: {*map(get_origin, (hint, *get_args(hint)))} for name, hint in get_type_hints(kind).items()
    }
    mappings = [(name, of) for name, of in bounds.items() if Mapping in origins[name]]
    single = {name: of for name, of in bounds.items() if (name, of) not in mappings}
    numbers_of = attrgetter(*single, *list(single)[:1])  # of one name it would return no tuple
    lows, highs = zip(*single.values(), strict=True)
    return numbers_of, list(lows), [min(high, MOST_INTEGER) for high in highs], mappings


_ROWS: Final = {kind: _rows_of(kind, bounds) for kind, bounds in BOUNDS.items()}
_WORDS: Final = re.compile(r".{0,400}")
RIGHTS: Final[Mapping[str, re.Pattern[str]]] = {
    "capabilities": re.compile(r"[0-9a-f]{1,16}"),
    "seccomp": re.compile(r"[0-2]"),
    "no_new_privs": re.compile(r"[01]"),
    "has_all_devices": re.compile(r"yes|no"),
    "root": re.compile(r"r[ow]"),
    "seccomp_filters": re.compile(r"\d{1,6}", re.ASCII),
    "uid_map": re.compile(r"\d{1,10} \d{1,10} \d{1,10}", re.ASCII),
    "system_call_ns": re.compile(r"\d{1,15}", re.ASCII),
    **dict.fromkeys(
        ("device_count", "node_device_count", "own_mount_count", "node_mount_count"),
        re.compile(r"\d{1,18}", re.ASCII),
    ),
    **dict.fromkeys(
        ("open_files", "stack_bytes", "locked_bytes", "processes", "shm_bytes"),
        re.compile(r"\d{1,20}|unlimited", re.ASCII),
    ),
    "name_servers": re.compile(r"none|[0-9a-fA-F:. ]{2,140}", re.ASCII),
    **dict.fromkeys(("speculation_store_bypass", "limits", "setuid", "by"), _WORDS),
}
"""The forms of what ranks report of their rights, and of what is added (`tare.system.node.surroundings.reach`)."""
HOST: Final[Bounds] = {"cores": _INDEX, "memory_bytes": _COUNT}
"""The facts of a study that are calculated with."""
LONGEST_FACT: Final = 1 << 16
"""Characters of any other fact, as the names of devices."""
LONGEST_NAME: Final = 400
DAMAGED_FACTS: Final = "damaged facts"
"""The fact of a trial that names those that were left out."""


def out_of_bounds(value: Any) -> tuple[str, float] | None:
    """Return the first number of an object that is out of bounds, behind words as `round is`, or None."""
    numbers_of, lows, highs, mappings = _ROWS[value.__class__]
    for number, low, high in zip(numbers_of(value), lows, highs, strict=False):
        if number is not None and not low <= number <= high:
            return _first_out_of_bounds(value)  # or a large float that is within
    for name, bounds in mappings:
        if (numbers := getattr(value, name)) and (found := _in_mapping(name, numbers, bounds)):
            return found
    return None


def _first_out_of_bounds(value: Any) -> tuple[str, float] | None:
    for name, bounds in BOUNDS[value.__class__].items():
        number = getattr(value, name)
        if isinstance(number, Mapping):
            if found := _in_mapping(name, number, bounds):
                return found
        elif number is not None and not _is_within(number, bounds):
            return f"{name} is", number
    return None


def _in_mapping(name: str, numbers: Mapping[str, Any], bounds: tuple[float, float]) -> tuple[str, float] | None:
    low, high = bounds
    for key, number in numbers.items():
        if number.__class__ is float and low <= number <= high:
            continue
        if number.__class__ is dict:
            if found := _in_mapping(f"{name} of {key!r:.80}", number, bounds):
                return found
        elif not _is_within(number, bounds):
            return f"{name} has {key!r:.80} of", number
    return None


def _is_within(number: Any, bounds: tuple[float, float]) -> bool:
    """Return whether a number is within bounds and can be read again: integers may have `MOST_DIGITS`."""
    is_short = number.__class__ is not int or -MOST_INTEGER <= number <= MOST_INTEGER
    return is_short and bounds[0] <= number <= bounds[1]


def why_no_figures(metrics: Sequence[Metric], figures: Sequence[Figure]) -> str:
    """Return why the values that a launch reported are impossible, or ""."""
    parts: list[Metric | Figure] = [*metrics, *figures]
    for part in parts:
        if found := out_of_bounds(part):
            what, number = found
            if what == "value is":
                return f"{part.label} is {number:g}{' s' * isinstance(part, Metric)}, which is impossible"
            return f"{what} {number:g} in {part.label}, which is impossible"
    return ""


def is_time(seconds: float) -> bool:
    """Return whether a duration is plausible; zero is."""
    return 0 <= seconds <= MOST_S


def sound_facts(
    facts: Mapping[str, Any], forms: Mapping[str, re.Pattern[str]] = MappingProxyType({})
) -> tuple[Mapping[str, Any], list[str]]:
    """Return facts without those whose text is not of its form or too long, and the names of these."""
    damaged = [name for name, text in facts.items() if not _is_sound(name, text, forms.get(name))]
    if not damaged:
        return facts, []
    return {name: facts[name] for name in facts if name not in damaged}, [printable(name)[:80] for name in damaged]


def sound_host(facts: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the facts of a study without those that are to be numbers and are none, and the names of these."""
    damaged = [name for name in facts.keys() & HOST if not _is_number(facts[name], *HOST[name])]
    return {name: fact for name, fact in facts.items() if name not in damaged}, damaged


def _is_number(fact: object, low: float, high: float) -> bool:
    return fact is None or (isinstance(fact, float | int) and low <= fact <= high)


def _is_sound(name: str, text: object, form: re.Pattern[str] | None) -> bool:
    return isinstance(text, str) and _is_sound_text(name, text, form)


@lru_cache(maxsize=1024)
def _is_sound_text(name: str, text: str, form: re.Pattern[str] | None) -> bool:
    """Return whether a fact is sound; most launches have those of others."""
    if len(name) > LONGEST_NAME or name != printable(name):
        return False
    return len(text) <= LONGEST_FACT if form is None else form.fullmatch(text) is not None
