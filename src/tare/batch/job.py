"""Describe a study as a job of a batch system, and define the base class of every batch system. Pure but for `ask`."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WARNING_S: Final = 120.0
"""How long before its time limit a job is told to end, at most; a quarter of the limit if that is less."""
UNFINISHED: Final = 6
"""`tare.errors.EXIT_UNFINISHED`, which the script compares with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A study as a job: `command` runs it (its words go into the script), in `allocations` jobs one after the other.

    `folder` is for the script and the logs, `results` the study's results, `workdir` where the command starts. "" and 0
    leave a choice to the site. `options` are further options of the batch system, one a word.
    """

    name: str
    nodes: int
    time_s: float
    allocations: int
    command: tuple[str, ...]
    folder: Path
    results: Path
    workdir: Path
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    options: tuple[str, ...] = ()

    @property
    def warning_s(self) -> int:
        """Return how long before the time limit the job is told to end, in seconds."""
        return int(min(WARNING_S, self.time_s / 4))


class BatchSystem(ABC):
    """A batch system: a member sets `name`, `program` and `comment`, and writes a job's script."""

    name: str
    program: str
    """The program that submits a script."""
    package: str = ""
    """The module or package that brings the program, for messages."""

    @property
    def tried(self) -> bool:
        """Return whether its scripts were ever run; the others are held by golden files only."""
        return False

    @abstractmethod
    def script(self, job: BatchJob) -> str:
        """Return the batch script."""

    @abstractmethod
    def submit(self, script: Path) -> tuple[str, ...]:
        """Return the argv that submits a script and prints the job's number."""

    def number(self, printed: str) -> str:
        """Return the number of the job from what the submitting program printed; "" if it is not there."""
        words = printed.split()
        return words[-1] if words else ""


def clock(seconds: float) -> str:
    """Return a duration as batch systems write it, in whole minutes: `HH:MM:SS`."""
    minutes = max(1, -(-int(seconds) // 60))
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def quoted(words: tuple[str, ...]) -> str:
    """Return words as a shell reads them."""
    return shlex.join(words)


def head(job: BatchJob, directive: str, options: list[str]) -> list[str]:
    """Return the first lines of a script: its options, and what it is."""
    lines = ["#!/bin/sh", *(f"{directive} {option}" for option in options)]
    return [*lines, f"# Written by `tare submit`: it runs a share of the study {job.name}, or resumes it.", ""]
