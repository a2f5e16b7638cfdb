"""Read what programs print: whole lines, numbers that are numbers, versions that are known."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from tare.workloads.output import OutputError

NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?nan|[-+]?inf(?:inity)?"


def whole(text: str) -> list[str]:
    """Return the lines that have their end; what follows the last may be half a number, so it is not looked at."""
    return [line.rstrip("\r") for line in text.split("\n")[:-1]]


def number(token: str, where: str) -> float:
    """Return the number that a program printed; `where` says which, for the message of `OutputError`."""
    try:
        value = float(token)
    except ValueError as error:
        raise OutputError(f"{where}: {token!r} is no number") from error
    if not math.isfinite(value):
        raise OutputError(f"{where} is {token.strip()}: the program did not calculate with numbers any more")
    return value


def count(token: str, where: str) -> int:
    """Return the whole number, not below zero, that a program printed."""
    if not re.fullmatch(r"\d{1,18}", token):
        raise OutputError(f"{where}: {token!r} is no count")
    return int(token)


def after(lines: Sequence[str], label: str, *, what: str) -> str:
    """Return what follows a label on the last line that begins with it; raise `OutputError` if there is none."""
    for line in reversed(lines):
        text = line.strip()
        if text.startswith(label):
            return text[len(label) :].strip()
    raise OutputError(f"{what}: the line {label!r} is missing")


def ended(lines: Sequence[str], mark: str, *, what: str) -> None:
    """Raise `OutputError` when the line that ends a program's output is missing."""
    if not any(line.strip().startswith(mark) for line in lines):
        raise OutputError(f"{what}: the output is cut off, its line {mark!r} is missing")


def known_version(version: str, known: Sequence[str], *, what: str) -> None:
    """Raise `OutputError` unless a version is one of `known`, or begins with one of them and a point."""
    if not any(version == one or version.startswith(f"{one}.") for one in known):
        raise OutputError(f"{what} {version} is not known here; known are {', '.join(known)}")
