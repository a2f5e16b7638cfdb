"""Find what a program, its MPI or its scheduler printed of a failure: it is the reason before any other. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LONGEST: Final = 200

FATAL: Final = re.compile(
    r"""MPI_ABORT\ was\ invoked|application\ called\ MPI_Abort|^Abort\(-?\d+\)|BAD\ TERMINATION\ OF
    |exited\ on\ signal|exited\ with\ non-zero\ status|^Primary\ job\s+terminated\ normally,\ but
    |An\ error\ occurred\ in\ MPI_|^Fatal\ error\ in\ |received\ signal|oom[-_ ]kill|^Out\ of\ memory
    |DUE\ TO\ (?:TIME\ LIMIT|NODE\ FAIL\w*|PREEMPTION)|job\ killed|TERM_(?:RUN|MEM)LIMIT|time\ limit\ for\ job
    |^srun:\ error:.*(?:[Tt]erminated|Killed|Exited\ with|Aborted|fault|exception|launch\ failed)
    |^Exited\ with\ exit\ code|Segmentation\ fault|^(?:\S+:\ .*)?Bus\ error|Floating\ point\ exception|core\ dumped
    |\bKilled$|forrtl:\ (?:severe|error)|^terminate\ called|^Traceback\ \(most|^free\(\):|stack\ smashing""",
    re.VERBOSE,
)
"""Lines that only a launch that failed has, whatever its program is."""

COMPLAINS: Final = re.compile(
    r"""\b(?:error|fatal|fail(?:ed|ure)|cannot|can't|could\ not|unable|denied|not\ found|no\ such|not\ enough|requires?
    |needs|must|invalid|unrecognized|unknown\ option|too\ few|too\ many|usage:|refused|timed\ out)\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words of a line that may say why there is no result; looked for only where there is none."""
NO_COMPLAINT: Final = re.compile(
    r"""^\s*(?:[\#|\d=*-]|$)|^\w+\s*=|warn|norms?\b|residual|tolerance|epsilon|tests\ completed|\b(?:0|no)\ errors?\b
    |\berrors?\b[^:=]*[:=]?\s*[-+]?[\d.]+\s*$""",
    re.VERBOSE | re.IGNORECASE,
)
"""Lines of results, and warnings."""


def first_failure(lines: Sequence[str], own: re.Pattern[str] | None = None) -> str:
    """Return the first line that says that the launch failed, "" if none does; `own` are the program's own lines."""
    patterns = (own, FATAL) if own else (FATAL,)
    for pattern in patterns:
        for at, line in enumerate(lines):
            if pattern.search(line):
                return _shown(lines, at)
    return ""


def first_complaint(lines: Sequence[str]) -> str:
    """Return the first line that may say why an output has no result, "" if there is none."""
    found = (at for at, line in enumerate(lines) if COMPLAINS.search(line) and not NO_COMPLAINT.search(line))
    return next((_shown(lines, at) for at in found), "")


def _shown(lines: Sequence[str], at: int) -> str:
    """Return a line; one that ends in a colon with the next."""
    line = lines[at].strip()
    following = next((each.strip() for each in lines[at + 1 :] if each.strip()), "") if line.endswith(":") else ""
    return f"{line} {following}".strip()[:LONGEST]
