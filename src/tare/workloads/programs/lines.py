"""Read the output of programs: complete lines without what launchers and terminals add, finite numbers, versions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tare.workloads.output import OutputError

NUMBER: Final = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?nan|[-+]?inf(?:inity)?"

TERMINAL: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B])|\ufeff")
"""Colours, titles and other sequences that steer a terminal, and the mark of a text's byte order."""
LINE_END: Final = re.compile(r"\r+\n?|\n")
TAGGED: Final = re.compile(
    r"(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?(?:\[[^\]\s]*\d+,\d+\](?:\[[^\]]*\])*)?<std(?:out|err|diag)>: ?"
)
"""What mpirun puts before a line: `[1,0]<stdout>:`, `[prterun-host-7@1,0]<stdout>: `, with or without a time."""
PREFIX: Final = re.compile(
    r"""(?:[\w.-]+\ |\s*)\d+:(?:\ |$)|\[(?:\d+|pod/[^\]\s]+)\](?:\ |$)|\[PE_\d+\]:?\ ?
    |\[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d[^\s\]]*\]?(?:\ |$)(?:std(?:out|err)\ [FP]\ )?|[\w.-]+\ +\|(?:\ |$)""",
    re.VERBOSE,
)
"""What srun, Hydra, aprun and PALS put before each line if they are asked to (`0: `, `[0] `, `[PE_0]: `, `node1 0: `),
and what logs of containers do: a time, `name | `, or `[pod/POD/CONTAINER] `."""
MOST_PREFIXES: Final = 3
BEGUN: Final = re.compile(r"[=:]\s*!?\s*[-+]?[0-9][-+0-9.eE]*$")
REST: Final = re.compile(r"[0-9.eE][-+0-9.eE]*")
"""The begin of a number at the end of a line, and the rest of one."""
NO_WORD: Final = re.compile(r"[^\w=]+")
ROW: Final = re.compile(rf"\s*(?:(?:{NUMBER})\s+)*[0-9]+\.(?P<decimals>[0-9]+)", re.IGNORECASE)


def whole(text: str) -> list[str]:
    """Return the lines that are complete, without colours, the prefixes of launchers and the indentation of all lines.

    Text after the last line end may be half a word or number and is ignored, unless it has the cells and decimals of
    the row before it.
    """
    *lines, rest = LINE_END.split(TERMINAL.sub("", text))
    if NO_WORD.fullmatch(rest) or (lines and _is_like(rest, lines[-1])):
        lines.append(rest)
    lines = [_untagged(line) if "<std" in line else line.rstrip() for line in lines]
    printed = sum(map(bool, map(str.strip, lines)))
    for _ in range(MOST_PREFIXES):
        if 2 * sum(1 for line in lines if PREFIX.match(line)) > printed:  # else it is a line of a table
            lines = [line[found.end() :] if (found := PREFIX.match(line)) else line for line in lines]
    indentation = min((len(line) - len(line.lstrip()) for line in lines[1:] if line), default=0)
    return [line[min(indentation, len(line) - len(line.lstrip())) :] for line in lines]


def _untagged(line: str) -> str:
    """Return a line without mpirun's tag, which is also where mpirun had read a part of it."""
    found = TAGGED.match(line)
    return line[found.end() :].replace(found[0].rstrip(), "").rstrip() if found else line.rstrip()


def torn_value(lines: Sequence[str], names: Sequence[str]) -> str:
    """Return the first line `name = number`, with one of these names, whose rest is on the next line, "" if none is."""
    torn = (one for one, rest in pairwise(lines) if REST.fullmatch(rest) and BEGUN.search(one))
    return next((line for line in torn if any(name in line for name in names)), "")


def _is_like(row: str, known: str) -> bool:
    """Return whether a row of numbers has as many cells as a known one, and as many decimals in the last."""
    if len(row.split()) != len(known.split()):
        return False
    found, other = (ROW.fullmatch(text.rstrip()) for text in (row, known))
    return bool(found and other and len(found["decimals"]) == len(other["decimals"]))


def number(token: str, where: str) -> float:
    """Return the number that a program printed; `where` names it in the message of `OutputError`."""
    text = token.strip()
    if not re.fullmatch(NUMBER, text, re.IGNORECASE):
        comma = "; numbers with commas are not supported: run the program with LC_ALL=C" if "," in text else ""
        raise OutputError(f"{where}: {text!r} is not a number{comma}")
    value = float(text)
    if not math.isfinite(value):
        raise OutputError(f"{where} is {text}, which is not a finite number")
    return value


def count(token: str, where: str) -> int:
    """Return the whole number, not below zero, that a program printed."""
    if not re.fullmatch(r"[0-9]{1,18}", token):
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


def check_single(times: int, what: str) -> None:
    """Raise `OutputError` if a program's output is there more than once: ranks that do not find each other do that."""
    if times > 1:
        raise OutputError(
            f"{what} is in the output {times} times, so it is not known which is the launch's: it ran several times, "
            "or each rank ran alone because the program was built for another MPI"
        )


def known_version(version: str, known: Sequence[str], *, what: str) -> None:
    """Raise `OutputError` unless a version is one of `known`, or begins with one of them and a point."""
    if not any(version == one or version.startswith(f"{one}.") for one in known):
        raise OutputError(f"{what} {version} is not supported; supported: {', '.join(known)}")
