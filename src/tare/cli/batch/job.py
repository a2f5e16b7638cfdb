"""Describe a study as a job of a batch system, and define the base class of every batch system. Pure but for `ask`."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.model import SlurmSpec

WARNING_S: Final = 120.0
"""How long before its time limit a job is told to end, at most; a quarter of the limit if that is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A study as a job: `command` runs it (its words go into the script), in `allocations` jobs one after the other.

    `folder` is for the script and the logs, `results` the study's results, `workdir` where the command starts. `asked`
    has what the study asks of the site; its partition is a queue elsewhere, its account a project.
    """

    name: str
    nodes: int
    time_s: float
    allocations: int
    command: tuple[str, ...]
    folder: Path
    results: Path
    workdir: Path
    asked: SlurmSpec

    @property
    def warning_s(self) -> int:
        """Return how long before the time limit the job is told to end, in seconds."""
        return int(min(WARNING_S, self.time_s / 4))


class BatchSystem(ABC):
    """A batch system: a member sets `name`, `program` and `comment`, and writes a job's script."""

    name: str
    program: str
    """The program that submits a script."""
    cancel: str = ""
    """The program that ends a job, if tare can wait for one."""
    pending: tuple[str, ...] = ()
    """The states that the queue shows for pending jobs."""
    has_arrays: bool = True
    """Whether one script gives several jobs, each of which does one round."""
    tried: bool = False
    """Whether its scripts were ever run; the others are held by golden files only."""

    @abstractmethod
    def script(self, job: BatchJob) -> str:
        """Return the batch script."""

    @abstractmethod
    def submit(self, script: Path) -> tuple[str, ...]:
        """Return the argv that submits a script and prints the job's number."""

    def queue(self, number: str) -> tuple[str, ...]:
        """Return the argv that shows what becomes of a job."""
        raise RefusedError(f"tare cannot wait for jobs of {self.name}", remedy="leave --wait out")

    def states(self, printed: str) -> tuple[tuple[str, str], ...]:
        """Return state and reason of each pending or running part of a job, from the output of `queue`."""
        return tuple((line.split()[0], " ".join(line.split()[1:])) for line in printed.splitlines() if line.split())

    def is_gone(self, words: str) -> bool:
        """Return whether an error of `queue` means that the job has ended long ago."""
        return False

    def why(self, reason: str) -> str:
        """Return in a sentence why a job waits."""
        return reason or "no reason is given"

    def refused(self, lines: list[str]) -> str:
        """Return why a job was refused, from the last lines that the submitting program wrote."""
        return lines[-1]

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


def worded(options: list[str]) -> list[str]:
    """Return options, each quoted if it has a blank: batch systems that read directives as a shell does split them."""
    return [quoted((option,)) for option in options]


def head(job: BatchJob, directive: str, options: list[str]) -> list[str]:
    """Return the first lines of a script: its options, and what it is."""
    lines = ["#!/bin/sh", *(f"{directive} {option}" for option in options)]
    return [*lines, f"# Written by `tare submit`: it runs a share of the study {job.name}, or resumes it.", ""]
