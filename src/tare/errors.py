"""Errors that a user can act on, and the exit code of each.

    TareError                 5  (base; never raised itself)
    +-- UsageError            2  a bad file, option or combination: change the input
    |   +-- StudyError        2  the study file, with the place in it
    |   +-- RefusedError      2  a combination that cannot work, with the reason
    |   +-- ImageError        2  an image that is damaged, too large or hostile
    |   +-- ResultsError      2  a results folder that belongs to something else
    +-- CellsFailed           4  cells are invalid or failed: see the report
    +-- OverLimit             1  an overhead beyond the stated limit
    +-- Inconclusive          3  more rounds are needed for a verdict
    +-- InfrastructureError   5  what the study stands on did not come up or broke
        +-- MissingTool       5  a program, feature or right is missing, with what installs it
        +-- CommandFailed     5  a command that tare started failed; carries argv and the end of stderr
        +-- CommandTimeout    5  a command that tare started did not end in its time

Where several apply, `EXIT_PRECEDENCE` says which code the command ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

EXIT_DONE: Final = 0
EXIT_OVER_LIMIT: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCONCLUSIVE: Final = 3
EXIT_CELLS_FAILED: Final = 4
EXIT_INFRASTRUCTURE: Final = 5

EXIT_PRECEDENCE: Final = (
    EXIT_INFRASTRUCTURE,
    EXIT_CELLS_FAILED,
    EXIT_OVER_LIMIT,
    EXIT_INCONCLUSIVE,
    EXIT_DONE,
)
"""Codes of a finished study, the one that wins first (5 > 4 > 1 > 3 > 0)."""


class TareError(Exception):
    """Carry one sentence on what failed and where, and what to do next."""

    exit_code: ClassVar[int] = EXIT_INFRASTRUCTURE

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message


class UsageError(TareError):
    """The input is wrong; nothing was started."""

    exit_code = EXIT_USAGE


class StudyError(UsageError):
    """The study file is wrong, at a place that the message names."""


class RefusedError(UsageError):
    """The combination cannot work; the message says why."""


class ImageError(UsageError):
    """An image cannot be used: it is damaged, too large, or leads outside of itself."""


class ResultsError(UsageError):
    """The results folder belongs to another study or to something else."""


class CellsFailed(TareError):
    """Cells failed or are invalid; the study itself went on."""

    exit_code = EXIT_CELLS_FAILED


class OverLimit(TareError):
    """An environment costs more than the limit that the study states."""

    exit_code = EXIT_OVER_LIMIT


class Inconclusive(TareError):
    """The rounds that were run do not decide."""

    exit_code = EXIT_INCONCLUSIVE


class InfrastructureError(TareError):
    """What the study stands on did not come up or broke."""

    exit_code = EXIT_INFRASTRUCTURE


class MissingTool(InfrastructureError):
    """A program, kernel feature or right is missing."""


class CommandFailed(InfrastructureError):
    """A command that we started ended with a non-zero status."""

    def __init__(
        self,
        message: str,
        *,
        argv: Sequence[str] = (),
        status: int = 0,
        stderr_tail: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.argv = tuple(argv)
        self.status = status
        self.stderr_tail = stderr_tail


class CommandTimeout(InfrastructureError):
    """A command that we started did not end within its time limit."""
