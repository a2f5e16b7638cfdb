"""Find what a program, its MPI or its scheduler printed of a failure: it is the reason before any other. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LOOKED_AT: Final = 400
LONGEST: Final = 200
"""Characters of a line that are searched, and that are shown."""
MOST_LINES: Final = 1000
"""Lines that are searched at each end of an output."""

TRACEBACK: Final = "Traceback (most recent call last):"

FATAL: Final = re.compile(
    r"""MPI_ABORT\ was\ invoked|application\ called\ MPI_Abort|^Abort\(-?\d+\)|BAD\ TERMINATION\ OF|^MPT\ ERROR
    |exited\ on\ signal|exited\ with\ non-zero\ status|^Primary\ job\s+terminated\ normally,\ but|^job\ aborted
    |TERMINATED\ WITH\ THE\ EXIT\ STRING|caused\ collective\ abort|lost\ communication\ with|\(!closed\)\ failed
    |An\ error\ occurred\ in\ MPI_|^Fatal\ error\ in\ |Process\ received\ signal|^Program\ received\ signal
    |CANCELLED\ AT|DUE\ TO\ TIME\ LIMIT|job\ killed|TERM_(?:RUN|MEM)LIMIT|time\ limit\ .*(?:reached|exceeded)
    |oom[-_ ]kill|^Out\ of\ memory|[Ee]xceeded\ (?:job|step)\ memory|[Ee]xited\ with\ exit\ code\ [1-9]
    |\b(?:Killed|Terminated)$|OOMKilled|has\ unexpectedly
    |^srun:\ error:.*(?:[Tt]erminated|Killed|Exited\ with|Aborted|fault|exception|launch\ failed)
    |Segmentation\ fault|^(?:\S+:\ .*)?Bus\ error|Floating\ point\ exception|core\ dumped|forrtl:\ (?:severe|error)
    |^terminate\ called|^Traceback\ \(most|^free\(\):|stack\ smashing""",
    re.VERBOSE,
)
"""Lines that only a launch that failed has, whatever its program is."""

COMPLAINS: Final = re.compile(
    r"""\berror:|\bERROR\b|\berror\ (?:while|opening|reading|in)\b|:\ (?:command\ )?not\ found$|No\ such\ file
    |[Pp]ermission\ denied|not\ enough|\b(?:requires|must|needs)\ (?:at|to|be|exactly|return|\d)|failed\ to\b
    |failed(?:[:.!]|$)|^[Uu]sage:
    |(?i:cannot|can't|could\ not|unable\ to)\ (?:open|find|connect|launch|load|read|create|allocate)
    |(?i:invalid|unrecognized|unknown)\ (?:option|argument|benchmark)|[Cc]onnection\ refused|timed\ out""",
    re.VERBOSE,
)
"""What a line may have that says why there is no result; looked for only where there is none."""
NO_COMPLAINT: Final = re.compile(r"warn|tests completed|solution error|\"error\":", re.IGNORECASE)
NOTHING: Final = re.compile(
    r"""\b(?:0|no)\ (?:\w+\ )?(?:errors?|fail(?:ed|ures?)|oom[-_ ]kills?)\b
    |(?:errors?|fail(?:ed|ures?)|oom[-_ ]kills?)(?:\ events?)?\s*[:=]?\s*0\s*$
    |^ERROR:\ ld\.so:\ .*ignored\.?$""",
    re.VERBOSE | re.IGNORECASE,
)
"""Counts of failures that are zero, as those that a control group prints (`oom_kill 0`), and what was ignored."""


def first_failure(lines: Sequence[str], own: re.Pattern[str] | None = None) -> str:
    """Return the first line that says that the launch failed, "" if none does; `own` are the program's own lines."""
    return (_first(lines, own) if own else "") or _first(lines, FATAL)


def first_complaint(lines: Sequence[str]) -> str:
    """Return the first line that may say why an output has no result, "" if there is none."""
    return _first([line for line in _ends(lines) if not NO_COMPLAINT.search(line[:LOOKED_AT])], COMPLAINS)


def _first(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    ends = _ends(lines)
    cut = ((at, line[:LOOKED_AT]) for at, line in enumerate(ends))
    return next((_shown(ends, at) for at, line in cut if pattern.search(line) and not NOTHING.search(line)), "")


def _ends(lines: Sequence[str]) -> Sequence[str]:
    return lines if len(lines) <= 2 * MOST_LINES else (*lines[:MOST_LINES], *lines[-MOST_LINES:])


def _shown(lines: Sequence[str], at: int) -> str:
    """Return a line; one that ends in a colon with the next one, a traceback's first line with its last."""
    line = lines[at].strip()
    if not line.endswith(":"):
        return line[:LONGEST]
    skipped = (" ", "\t") if line == TRACEBACK else ()
    following = next((each.strip() for each in lines[at + 1 :] if each.strip() and not each.startswith(skipped)), "")
    return f"{line} {following}".strip()[:LONGEST]
