"""A job of a batch system for tests, with names that a shell must not split."""

from __future__ import annotations

from pathlib import Path

from tare.cli.batch import BatchJob
from tare.model import SlurmSpec

JOB = BatchJob(
    name="study",
    nodes=2,
    time_s=1800.0,
    allocations=6,
    command=("/usr/bin/python3", "-m", "tare.cli.app", "run", "/home/me/two words.yaml", "--results", "/scratch/me's"),
    folder=Path("/scratch/study.job"),
    results=Path("/scratch/me's"),
    workdir=Path("/home/me/two words"),
    asked=SlurmSpec(),
)
