"""Ways to run `tare-miniapps`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kernels.builds import check
from kernels.launching import Run, argv_of, execute

Record = Mapping[str, Any]


def ran(
    program: Path, spec: str, ranks: int, *, mpi: str = "openmpi", env: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any], str]:
    """Run an application; return its status, its record and what it wrote to stderr."""
    run = execute(*argv_of(mpi, ranks, env or {}, program, spec))
    return run.code, record_of(run), run.stderr


def record_of(run: Run) -> dict[str, Any]:
    return next(iter(run.of_type("miniapp")), {})


def right(program: Path, spec: str, ranks: int, **more: Any) -> dict[str, Any]:
    """Run an application, which must find its own result right, and return its record."""
    status, record, stderr = ran(program, spec, ranks, **more)
    assert status == 0, stderr
    assert record["verified"]
    assert record["checks"]
    assert all(each["passed"] for each in record["checks"])
    assert record["ranks"] == ranks
    assert record["rate"] > 0
    return record


known = cache(right)
"""The same for tests of a file that look at different things in one run."""


def failed(program: Path, spec: str, ranks: int, **variables: str) -> set[str]:
    """Run an application that must find its own result wrong, and return the checks that say so.

    Unless variables are given, the fault is `corrupt`.
    """
    env = variables or {"TARE_FAULT": f"corrupt:{spec.partition(':')[0]}"}
    status, record, stderr = ran(program, spec, ranks, env=env)
    assert (status, record["verified"]) == (3, False), stderr
    return {each["name"] for each in record["checks"] if not each["passed"]}


def asked(program: Path, *arguments: str) -> dict[str, Any]:
    """Return the one record that the program writes without MPI (`--list`, `--ask`)."""
    (record,) = Run(0, check(program, *arguments), "").lines
    return record


def figures(record: Record) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in record["figures"]}


def checks(record: Record) -> dict[str, float]:
    return {each["name"]: each["value"] for each in record["checks"]}


def counts(record: Record, kind: str) -> dict[int, int]:
    """Return how many messages of a kind there were of each size."""
    return {entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == kind}


def series(record: Record) -> dict[str, list[float]]:
    return {each["name"]: each["values"] for each in record["series"]}
