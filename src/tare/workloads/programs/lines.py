"""Read the output of programs: complete lines, finite numbers, known versions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from tare.workloads.output import OutputError

NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?nan|[-+]?inf(?:inity)?"


def whole(text: str) -> list[str]:
    """Return the lines that are complete; text after the last line end may be half a number and is ignored."""
    return [line.rstrip("\r") for line in text.split("\n")[:-1]]


def number(token: str, where: str) -> float:
    """Return the number that a program printed; `where` names it in the message of `OutputError`."""
    try:
        value = float(token)
    except ValueError as error:
        raise OutputError(f"{where}: {token!r} is not a number") from error
    if not math.isfinite(value):
        raise OutputError(f"{where} is {token.strip()}, which is not a finite number")
    return value


def count(token: str, where: str) -> int:
    """Return the whole number, not below zero, that a program printed."""
    if not re.fullmatch(r"\d{1,18}", token):
        raise OutputError(f"{where}: {token!r} is not a whole number from 0")
    return int(token)


def after(lines: Sequence[str], label: str, *, what: str) -> str:
    """Return the text after a label on the last line that begins with it; raise `OutputError` if there is none."""
    for line in reversed(lines):
        text = line.strip()
        if text.startswith(label):
            return text[len(label) :].strip()
    raise OutputError(f"{what}: the line {label!r} is missing")


def ended(lines: Sequence[str], mark: str, *, what: str) -> None:
    """Raise `OutputError` if the line that ends a program's output is missing."""
    if not any(line.strip().startswith(mark) for line in lines):
        raise OutputError(f"{what}: the output is cut off, its line {mark!r} is missing")


def known_version(version: str, known: Sequence[str], *, what: str) -> None:
    """Raise `OutputError` unless a version is one of `known`, or begins with one of them and a point."""
    if not any(version == one or version.startswith(f"{one}.") for one in known):
        raise OutputError(f"{what} {version} is not supported; supported: {', '.join(known)}")
