"""What a check found: a rule, what was seen, and what to change in the launch line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tare.analysis.check.facts import JobFacts


class Severity(IntEnum):
    """How bad a finding is: the job gives no or wrong results, is slower than it need be, or may become so."""

    BROKEN = 3
    SLOW = 2
    RISK = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """`seen` is a sentence on what is wrong, `remedy` what to change. `rule` is the name of the rule.

    `line` is the whole launch line with the change, "" where the change is not one of the line (changes.py).
    """

    rule: str
    severity: Severity
    seen: str
    remedy: str
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """A thing that can be wrong. `look` returns what was seen and the remedy, or None if it is right.

    `usual` says how it is where nothing is wrong; `threads` are public reports of it (docs/check.md).
    """

    name: str
    severity: Severity
    usual: str
    look: Callable[[JobFacts], tuple[str, str] | None]
    threads: tuple[str, ...] = ()

    def finding(self, job: JobFacts) -> CheckFinding | None:
        """Return the rule's finding on a job, None if there is none."""
        found = self.look(job)
        return CheckFinding(rule=self.name, severity=self.severity, seen=found[0], remedy=found[1]) if found else None


WORKS: Final = 0
"""Exit code of a check that found nothing wrong, or risks only."""
WRONG: Final = 1
CANNOT_TELL: Final = 3
