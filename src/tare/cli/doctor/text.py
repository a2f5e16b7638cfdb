"""Write a diagnosis: in at most a screen of 24 lines of 80 columns, or with every part and every pair. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tare.cli.doctor.machine import Capability, Diagnosis
from tare.system.packages import COMMANDS

LINES: Final = 24
WIDTH: Final = 80
MOST_LINES: Final = 2
"""Most lines of the names in a family."""
WORKING: Final = (("MPI", "MPIs"), ("runtime", "runtimes"), ("network", "networks"), ("image", "images built"))
INSTALLS: Final = re.compile(rf"(.+): ({'|'.join(map(re.escape, COMMANDS.values()))}) (.+)")
"""A reason that ends with the command that installs what is missing."""

OTHERS: Final = re.compile(r"administrator|: use ")
"""What only somebody else can install, or nobody because something else is used: it comes last."""


def brief(found: Diagnosis) -> list[str]:
    """Return what a user must know first: what works, what is missing with its command, and whether it is quiet."""
    here = [(family, title) for family, title in WORKING if family in {"MPI", "image"} or not found.unusable]
    head = [
        *_wrapped(f"cluster {found.cluster} ({found.where[:1].lower()}{found.where[1:]}), as {found.user}"),
        *_wrapped(f"machine: {found.machine}"),
        *_wrapped(f"cannot be used: {found.unusable}" if found.unusable else "works", most=6),
        *(line for family, title in here for line in _working(title, found.of(family))),
    ]
    others = [part.name for part in found.of("cluster") if part.name != found.cluster]
    tail = [
        *_wrapped(f"noise: {found.noise}"),
        *_wrapped(f"more: --all has each pair of runtime and network; --cluster {', '.join(others)}"),
    ]
    missing = list(_missing([part for family, _ in here if family != "image" for part in found.of(family)]))
    groups = [*(_wrapped(f"note: {note}") for note in found.notes), *([["missing"]] if missing else []), *missing]
    return [*head, *_fitting(groups, LINES - len(head) - len(tail)), *tail]


def whole(found: Diagnosis) -> list[str]:
    """Return everything: each part, and each pair of a runtime and a network."""
    lines = [f"machine: {found.machine}, as {found.user}", "", "parts"]
    lines += [_line(f"{part.family} {part.name}", part) for part in found.parts]
    lines += ["", f"environments on cluster {found.cluster}"]
    lines += [_line(part.name, part) for part in found.pairs]
    lines += ["", *(f"note: {note}" for note in found.notes), f"noise: {found.noise}"]
    return lines


def _line(what: str, part: Capability) -> str:
    mark = "ok     " if part.reason is None else "no     " if part.never else "missing"
    detail = f"  ({part.detail})" if part.detail and part.reason is None else ""
    return f"  {mark} {what}{detail}{f': {part.reason}' if part.reason else ''}"


def _working(title: str, parts: Sequence[Capability]) -> list[str]:
    """Return the names of the parts of a family that work, in few lines."""
    names = ", ".join(part.name for part in parts if part.reason is None)
    return _wrapped(f"  {title}: {names or 'none'}", most=MOST_LINES)


def _missing(parts: Iterable[Capability]) -> Iterator[list[str]]:
    """Yield the lines of each thing that is missing, with the parts that it keeps from working.

    What the package manager installs comes first, ended by one command for all of it.
    """
    by_reason: dict[str, list[str]] = {}
    for part in parts:
        if part.reason is not None and not part.never:
            by_reason.setdefault(part.reason, []).append(part.name)
    installed = {reason: match for reason in by_reason if (match := INSTALLS.fullmatch(reason))}
    command = next((match[2] for match in installed.values()), "")
    packages = dict.fromkeys(name for match in installed.values() for name in match[3].split())
    if packages:
        yield _wrapped(f"  to install what is missing: {command} {' '.join(packages)}")

    def place(reason: str) -> tuple[bool, bool, int]:
        return reason not in installed, bool(OTHERS.search(reason)), -len(by_reason[reason])

    for reason in sorted(by_reason, key=place):
        names, text = by_reason[reason], installed[reason][1] if reason in installed else reason
        yield _wrapped(f"  {text}" if names == text.split()[:1] else f"  {', '.join(names)}: {text}")


def _fitting(groups: Sequence[list[str]], most: int) -> list[str]:
    """Return the groups of lines that fit into so many, and how many do not."""
    if sum(map(len, groups)) <= most:
        return [line for group in groups for line in group]
    lines: list[str] = []
    left = 0
    for group in groups:
        if len(lines) + len(group) < most:
            lines += group
        else:
            left += 1
    return [*lines, f"  and {left} more: tare doctor --all"]


def _wrapped(text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False, max_lines=most
    )
