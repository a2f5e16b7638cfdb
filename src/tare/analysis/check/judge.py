"""Apply the rules to a job, and say the worst first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tare.analysis.check.facts import JobFacts
from tare.analysis.check.finding import CANNOT_TELL, WORKS, WRONG, CheckFinding, Severity
from tare.analysis.check.rules import CANNOT_LOOK, RULES


def judge(job: JobFacts) -> tuple[CheckFinding, ...]:
    """Return what is wrong with a job, the worst first; of a severity, in the order of the rules.

    What keeps ranks from starting is told alone: how they would run is not known then.
    """
    found = [finding for rule in RULES if (finding := rule.finding(job)) is not None]
    return tuple(sorted(found, key=lambda each: -each.severity))


def unknown(job: JobFacts) -> CheckFinding | None:
    """Return why a job's MPI could not be asked, None if it could."""
    return CANNOT_LOOK.finding(job)


def exit_code(findings: Sequence[CheckFinding], hidden: CheckFinding | None) -> int:
    """Return 1 if something is wrong, 3 if the MPI could not be asked, else 0; a risk alone is no fault."""
    if any(finding.severity > Severity.RISK for finding in findings):
        return WRONG
    return CANNOT_TELL if hidden is not None else WORKS
