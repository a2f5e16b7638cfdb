"""The one way from what a program printed into a trial: what passes can be stored and calculated with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from tare.model.text import printable
from tare.store.codec import decode, encode
from tare.store.plausible import MOST_S, is_time, why_no_figures
from tare.store.results import COLUMN
from tare.workloads.output import OutputError, Parsed

MOST_SAMPLES: Final = 32 << 20
"""Samples of one launch, all columns together: 256 MB. The kernels keep fewer than a million each."""

LONGEST: Final = 4096
"""Characters of a message."""
LONGEST_VALUE: Final = 1 << 16
"""Characters of one text; a rank on a node with many mounts tells all of them in one."""

MOST_INTEGER: Final = 1 << 64
"""Numbers of namespaces and devices have 64 bits."""


def gate(read: Callable[[], Parsed]) -> Parsed:
    """Return what `read` makes of an output, or raise `OutputError` with the reason why it cannot be.

    A bad launch must not end the study, nor spoil the report of its good ones. What a program says against its own
    results passes without a figure.
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
        told = printable(f"{type(error).__name__}: {error}")[:LONGEST]
        raise OutputError(f"a record is not as the protocol has it: {told}") from error
    if complaint:
        raise OutputError(printable(complaint)[:LONGEST])
    return parsed


def _complaints(parsed: Parsed) -> Iterator[str]:
    if not (parsed.metrics or parsed.wrong):
        yield "the program gave no figure"
    if why := why_no_figures(parsed.metrics, parsed.figures):
        yield why
    for what, seconds in (("MPI_Init", parsed.init_s), ("the measured section", parsed.measured_s)):
        if not is_time(seconds):
            yield f"{what} took {seconds:g} s: that is no time"
    yield from _of_samples(parsed)
    for part in (parsed.metrics, parsed.figures, parsed.ranks, parsed.payload, parsed.mpi_library, parsed.wrong):
        yield from _of_values(part)


def _of_samples(parsed: Parsed) -> Iterator[str]:
    import numpy as np

    total = sum(column.size for column in parsed.samples.values())
    if total > MOST_SAMPLES:
        yield f"it gave {total} samples, and {MOST_SAMPLES} are the most"
        return
    for name, column in parsed.samples.items():
        if not COLUMN.fullmatch(name):
            yield f"{name[:LONGEST]!r} cannot name a column of samples"
        if column.ndim != 1 or (np.abs(column) > MOST_S).any():  # NaN is a pass that was not timed
            yield f"the samples {name} are not all times"


def _of_values(value: Any) -> Iterator[str]:
    """Yield what no results folder should hold: texts without end, integers of more than 64 bits."""
    for one in _leaves(value):
        if isinstance(one, str):
            if len(one) > LONGEST_VALUE:
                yield f"a text has {len(one)} characters, and {LONGEST_VALUE} are the most: {one[:40]!r}..."
            elif one != printable(one, lines=True):  # mounts are told line by line
                yield f"a text has control characters: {one!r:.200}"
        elif isinstance(one, int) and abs(one) >= MOST_INTEGER:
            yield "an integer has more than 64 bits"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, dict):
        yield from _leaves([*value.keys(), *value.values()])
    elif is_dataclass(value):
        yield from _leaves([getattr(value, each.name) for each in fields(value)])
    else:
        yield value
