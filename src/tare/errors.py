"""Errors that a user can act on, and the exit code of each.

    TareError                 5  (base; never raised itself)
    +-- UsageError            2  a bad file, option or combination: change the input
    |   +-- StudyError        2  the study file, with the place in it
    |   +-- RefusedError      2  a combination that cannot work, with the reason
    |   +-- ImageError        2  an image that is damaged, too large or unsafe
    |   +-- ResultsError      2  a results folder that is damaged or belongs to another study
    +-- CellsFailed           4  the program does not run in the baseline
    +-- InfrastructureError   5  the cluster, a network, a daemon or the disk failed
        +-- MissingTool       5  a program, a kernel feature or a permission is missing
        +-- CommandFailed     5  a command that tare started failed; carries argv and the end of stderr
        +-- CommandTimeout    5  a command that tare started exceeded its time limit
        +-- RequestFailed     5  a daemon refused a request over HTTP, or did not answer it; carries the status
        +-- LabEnded          5  what holds a lab's namespaces was ended by something else

A docstring gives the meaning, the commands that can end with the error, and the remedy: tools/errors_page.py writes
docs/errors.md from them. The results of a study have exit codes as well (1, 3, 4); they are no errors. Where several
apply, `EXIT_PRECEDENCE` decides the exit code of the command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

EXIT_DONE: Final = 0
EXIT_OVER_LIMIT: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCONCLUSIVE: Final = 3
EXIT_CELLS_FAILED: Final = 4
EXIT_INFRASTRUCTURE: Final = 5
EXIT_UNFINISHED: Final = 6
"""A study whose allocation ends before the study does; the same command in another allocation resumes it."""
EXIT_INTERRUPTED: Final = 130

EXIT_PRECEDENCE: Final = (
    EXIT_INFRASTRUCTURE,
    EXIT_CELLS_FAILED,
    EXIT_OVER_LIMIT,
    EXIT_INCONCLUSIVE,
    EXIT_DONE,
)
"""Codes of a finished study, the one that wins first (5 > 4 > 1 > 3 > 0)."""


class TareError(Exception):
    """The base of all errors: one sentence on what failed and where, and what to do next.

    Commands: all. It is never raised itself; an internal error has its exit code.
    Remedy: run the command again with TARE_DEBUG=1 and report the traceback.
    """

    exit_code: ClassVar[int] = EXIT_INFRASTRUCTURE

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    def on_one_line(self) -> str:
        """Return the message as one line; several nodes that failed have a line each in it."""
        head, *lines = self.message.splitlines() or [""]
        return " ".join((head, "; ".join(map(str.strip, lines)))).rstrip()


class UsageError(TareError):
    """An option, an argument or a file name is wrong; nothing was started.

    Commands: all.
    Remedy: correct the command; `--help` after it lists its options.
    """

    exit_code = EXIT_USAGE


class StudyError(UsageError):
    """The study file is wrong; all its problems are listed as FILE:LINE:COLUMN: key: problem. Nothing was started.

    Commands: `tare plan`, `tare run`; `tare quick`, `tare launch` and `tare network up` for the name of an environment.
    Remedy: correct the file; docs/study.md describes every key.
    """


class RefusedError(UsageError):
    """The parts are valid, but this combination of them cannot work; the message gives the reason.

    Commands: `tare run`, `tare quick`, `tare launch`, `tare lab up`, `tare network up`, `tare compare`.
    Remedy: change one part of the combination; docs/environments.md lists those that work, docs/comparing.md says what
    to do about results that cannot be compared.
    """


class ImageError(UsageError):
    """An image cannot be used: it is damaged, too large, for another CPU, or has links that lead outside of it.

    Commands: `tare plan`, `tare run`, `tare quick`, `tare launch`, `tare network up`, `tare image convert`, `tare
    image push`.
    Remedy: copy or build the image again, or name another one; docs/images.md lists the formats.
    """


class ResultsError(UsageError):
    """The results folder is damaged, cannot be written, or belongs to another study.

    Commands: `tare run`, `tare quick`, `tare report`, `tare compare`, `tare history`.
    Remedy: name another folder with `--results`, or archive the earlier results with `--fresh`.
    """


class CellsFailed(TareError):
    """The program does not run in the baseline, or may not write in any container, so nothing was compared.

    Commands: `tare run`, `tare quick`.
    Remedy: make the program run with `tare launch` first, raise its time limit, or let it write (`--writable`).
    """

    exit_code = EXIT_CELLS_FAILED


class InfrastructureError(TareError):
    """The cluster, a network, a daemon or the disk failed; the input is not the cause.

    Commands: `tare plan`, `tare run`, `tare quick`, `tare launch`, `tare lab`, `tare network`, `tare image` and
    `tare clean`.
    Remedy: follow the message, then run the same command again: a study resumes. `tare clean` removes what is left.
    """

    exit_code = EXIT_INFRASTRUCTURE
    node = ""
    """The node on which it happened, "" if it is not of one node, or of the only one."""

    def at(self, node: str) -> InfrastructureError:
        """Return the error with the node on which it happened; the message names it."""
        if not self.node:
            self.node = node
            if not re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", self.message):
                self.message = f"node {node}: {self.message}"
        return self


class LabEnded(InfrastructureError, FileNotFoundError):  # as which those handle it who look at what may have ended
    """What holds a lab's namespaces was ended by something else, such as `tare clean`, while a command used it.

    Commands: `tare run`, `tare quick`, `tare launch`, `tare lab` and `tare network`.
    Remedy: run the same command again: a study resumes with the trial that was interrupted.
    """


class MissingTool(InfrastructureError):
    """A program, a kernel feature or a permission is missing.

    Commands: those of InfrastructureError, and `tare doctor --locality`.
    Remedy: install what the message names, or run as root; `tare doctor` lists what is missing.
    """


class CommandFailed(InfrastructureError):
    """A command that tare started ended with a non-zero status.

    Commands: those of InfrastructureError, and `tare doctor --locality`.
    Remedy: read the end of its stderr, which the message quotes; docs/troubleshooting.md explains the common ones.
    """

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


class RequestFailed(InfrastructureError):
    """A daemon refused a request over HTTP (`status` is its answer), or did not answer it (`status` is 0).

    Commands: those of InfrastructureError.
    Remedy: run the same command again: the next one starts daemons of its own; `tare clean` removes what is left.
    """

    def __init__(self, message: str, *, status: int = 0, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class CommandTimeout(InfrastructureError):
    """A command that tare started did not end within its time limit.

    Commands: those of InfrastructureError, and `tare doctor --locality`.
    Remedy: check with `tare doctor` whether the machine is busy, then run the same command again.
    """
