"""Read the `key=value` arguments of programs that take theirs from a file, and make the command of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

RUN: Final = "tare-run"
"""tare's script that finds a program below a folder, and gives a program that uses files a folder of its own."""


class Wrong(ValueError):
    """An argument is not valid; the message says what is."""


def called(
    executable: str, places: Sequence[str], program: str, arguments: Sequence[str], *options: str
) -> tuple[str, ...]:
    """Return the command of a program: the one at or below `program`, else on PATH, else in `places`."""
    where = ("-p", program) if program else ("-d", ":".join(places))
    return (RUN, *where, *options, executable, *arguments)


def keyed(arguments: Sequence[str], usual: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all keys; raise `Wrong` with the known keys."""
    values = dict(usual)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in usual:
            raise Wrong(f"unknown argument {argument!r}; write KEY=VALUE with a key of {', '.join(usual)}")
        values[key] = value
    return values


def option_value(arguments: Sequence[str], *names: str) -> str:
    """Return the value of an option, which may have several names: "" if it is not given, "?" if it has no value."""
    text = ""
    for argument, following in pairwise((*arguments, "?")):
        name, equals, value = argument.partition("=")
        if name in names:
            text = value if equals else following
    return text


def with_value(arguments: Sequence[str], value: str, *names: str) -> tuple[str, ...]:
    """Return arguments in which an option, which may have several names, has this value; the first name adds it."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument not in names and argument.partition("=")[0] not in names:
            kept.append(argument)
        skip = not skip and argument in names
    return (*kept, names[0], value)


def whole_number(text: str, key: str, low: int, high: int) -> int:
    """Return a whole number within bounds."""
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise Wrong(f"{key}={text} is not valid: use a whole number from {low} to {high}")
    return int(text)


def fraction(text: str, key: str, low: float, high: float) -> float:
    """Return a number within bounds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise Wrong(f"{key}={text} is not valid: use a number from {low:g} to {high:g}")
    return value


def numbers(text: str, key: str, low: int, high: int) -> tuple[int, ...]:
    """Return whole numbers from a list separated by commas."""
    return tuple(whole_number(part, key, low, high) for part in text.split(","))
