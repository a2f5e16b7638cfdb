"""Check a program's output before it becomes a trial: figures that pass can be stored and calculated with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from tare.model import MetricKind
from tare.model.text import printable
from tare.store.codec import decode, encode
from tare.store.plausible import CLOCKS, MOST_DIGITS, MOST_S, is_time, why_no_figures
from tare.store.results import COLUMN
from tare.workloads.output import USED_S, OutputError, Parsed

MOST_SAMPLES: Final = 32 << 20
"""Samples of one launch, all columns together: 256 MB. The kernels keep fewer than a million each."""

LONGEST: Final = 4096
"""Characters of a message."""
LONGEST_VALUE: Final = 1 << 16
"""Characters of one text; a rank on a node with many mounts reports all of them in one."""


def gate(read: Callable[[], Parsed]) -> Parsed:
    """Return what `read` makes of an output, or raise `OutputError` with the reason why it is not valid.

    A bad launch must neither end the study nor spoil the report of the good ones. An output whose program reports wrong
    results needs no figure.
    """
    import numpy as np

    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            parsed = read()
        parsed = replace(parsed, wrong=tuple(printable(wrong) for wrong in parsed.wrong))
        for part in (*parsed.metrics, *parsed.figures, *parsed.ranks):
            decode(type(part), encode(part))  # raises ValueError where a value is not of its type
        complaint = next(_complaints(parsed), "")
    except OutputError as error:
        raise OutputError(printable(str(error))[:LONGEST]) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = printable(f"{type(error).__name__}: {error}")[:LONGEST]
        raise OutputError(f"a record does not follow the protocol: {reason}") from error
    if complaint:
        raise OutputError(printable(complaint)[:LONGEST])
    return parsed


def why_not_within(parsed: Parsed, launch_s: float) -> str:
    """Return which time of an output is longer than its launch, as the head timed it, or ""."""
    import numpy as np

    times = {"MPI_Init": parsed.init_s, "the measured section": parsed.measured_s}
    times |= {metric.label: metric.value for metric in parsed.metrics if metric.kind is MetricKind.COST}
    times |= {
        f"a sample of {name}": float(np.fmax.reduce(column, initial=0.0)) for name, column in parsed.samples.items()
    }
    times |= {
        f"{name} of rank {rank}": used.get(name, 0.0) for rank, used in enumerate(parsed.usage) for name in USED_S
    }
    too_long = ((what, seconds) for what, seconds in times.items() if seconds > launch_s * CLOCKS)
    return next((f"{what} took {s:g} s, but its launch {launch_s:g} s: not its own" for what, s in too_long), "")


def _complaints(parsed: Parsed) -> Iterator[str]:
    if not (parsed.metrics or parsed.wrong):
        yield "the program printed no figure"
    if why := why_no_figures(parsed.metrics, parsed.figures):
        yield why
    if not 0 <= parsed.payload.low_bytes <= parsed.payload.high_bytes:
        yield "the bytes that its ranks sent are impossible"
    for what, seconds in (("MPI_Init", parsed.init_s), ("the measured section", parsed.measured_s)):
        if not is_time(seconds):
            yield f"{what} took {seconds:g} s, which is not a possible time"
    yield from _of_samples(parsed)
    for part in (parsed.metrics, parsed.figures, parsed.ranks, parsed.payload, parsed.mpi_library, parsed.wrong):
        yield from _of_values(part)


def _of_samples(parsed: Parsed) -> Iterator[str]:
    import numpy as np

    total = sum(column.size for column in parsed.samples.values())
    if total > MOST_SAMPLES:
        yield f"it printed {total} samples; at most {MOST_SAMPLES} are stored"
        return
    for name, column in parsed.samples.items():
        if not COLUMN.fullmatch(name):
            yield f"{name[:LONGEST]!r} is not a valid name of a column of samples"
        if column.ndim != 1 or (np.abs(column) > MOST_S).any():  # NaN is a pass that was not timed
            yield f"the samples {name} are not all times"


def _of_values(value: Any) -> Iterator[str]:
    """Yield the problems with values that no results folder should hold: endless texts, integers beyond 64 bits."""
    for leaf in _leaves(value):
        if isinstance(leaf, str):
            if len(leaf) > LONGEST_VALUE:
                yield f"a text has {len(leaf)} characters; at most {LONGEST_VALUE} are stored: {leaf[:40]!r}..."
            elif leaf != printable(leaf, lines=True):  # mounts are reported line by line
                yield f"a text has control characters: {leaf!r:.200}"
        elif isinstance(leaf, int) and abs(leaf) >= 10**MOST_DIGITS:
            yield f"an integer has more than {MOST_DIGITS} digits"


def _leaves(value: Any) -> Iterator[Any]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, tuple | list):
            rest += value
        elif isinstance(value, dict):
            rest += (*value.keys(), *value.values())
        elif is_dataclass(value):
            rest += (getattr(value, each.name) for each in fields(value))
        else:
            yield value
