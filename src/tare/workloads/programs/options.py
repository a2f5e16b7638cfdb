"""The `key=value` arguments of programs that take theirs from a file, and what tare hands to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

RUN: Final = "tare-run"
"""Our script that finds a program below a folder, and gives one that reads and writes files a folder of its own."""


class Wrong(ValueError):
    """An argument cannot be taken; the message says what can."""


def called(
    executable: str, places: Sequence[str], program: str, arguments: Sequence[str], *options: str
) -> tuple[str, ...]:
    """Return the call of a program: the one at or below `program`, else of PATH, else of `places`."""
    where = ("-p", program) if program else ("-d", ":".join(places))
    return (RUN, *where, *options, executable, *arguments)


def keyed(arguments: Sequence[str], usual: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all keys; raise `Wrong` naming the keys there are."""
    values = dict(usual)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in usual:
            raise Wrong(f"{argument!r} is not understood; arguments are key=value of {', '.join(usual)}")
        values[key] = value
    return values


def whole_number(text: str, key: str, low: int, high: int) -> int:
    """Return a whole number within bounds."""
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise Wrong(f"{key}={text}: a whole number from {low} to {high} is needed")
    return int(text)


def fraction(text: str, key: str, low: float, high: float) -> float:
    """Return a number within bounds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise Wrong(f"{key}={text}: a number from {low:g} to {high:g} is needed")
    return value


def numbers(text: str, key: str, low: int, high: int) -> tuple[int, ...]:
    """Return a list of whole numbers with commas between them."""
    return tuple(whole_number(part, key, low, high) for part in text.split(","))
