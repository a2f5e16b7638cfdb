"""Ways to run `tare-miniapps`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

# Not bound: other tests may run at the same time, and Open MPI would put every job on the first cores.
LAUNCHERS = {
    "openmpi": (
        *("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
        # The second: mpirun would wait two seconds for ranks to end after one has failed.
        *("--mca", "mpi_yield_when_idle", "1", "--mca", "odls_base_sigkill_timeout", "0"),
    ),
    "mpich": ("mpirun.mpich",),
}

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the MPI libraries keep memory until the end
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def argv_of(program: Path, spec: str, ranks: int, *, mpi: str = "openmpi", limit_s: int = 100) -> tuple[str, ...]:
    return ("timeout", str(limit_s), *LAUNCHERS[mpi], "-n", str(ranks), str(program), spec)


def ran(
    program: Path,
    spec: str,
    ranks: int,
    *,
    mpi: str = "openmpi",
    env: Mapping[str, str] | None = None,
    limit_s: int = 100,
    cached: bool = True,
) -> tuple[int, dict[str, Any], str]:
    """Run an application; return its status, its record and what it wrote to stderr.

    Tests check the same runs for different things, so a run is made once and cached; `cached=False` makes a new one.
    """
    argv = argv_of(program, spec, ranks, mpi=mpi, limit_s=limit_s)
    run = _ended if cached else _ended.__wrapped__
    status, stdout, stderr = run(argv, tuple(sorted((env or {}).items())))
    return status, next((each for each in told(stdout) if each["type"] == "miniapp"), {}), stderr


@cache
def _ended(argv: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> tuple[int, str, str]:
    with tempfile.TemporaryDirectory(prefix="mpi") as own:  # two mpirun that make Open MPI's at once may both fail
        environment = {**os.environ, "TMPDIR": own, **dict(env)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def told(stdout: str) -> list[dict[str, Any]]:
    """Return the records of an output."""
    return [json.loads(line[6:]) for line in stdout.splitlines() if line.startswith("@tare ")]


def asked(program: Path, *arguments: str) -> dict[str, Any]:
    """Return the one record that the program writes without MPI (`--list`, `--ask`)."""
    done = subprocess.run((str(program), *arguments), capture_output=True, text=True, check=True)
    (record,) = told(done.stdout)
    return record


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in record["figures"]}


def failed(record: Mapping[str, Any]) -> set[str]:
    return {check["name"] for check in record["checks"] if not check["passed"]}


def counts(record: Mapping[str, Any], kind: str) -> dict[int, int]:
    """Return how many messages of a kind there were of each size."""
    return {entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == kind}


def series(record: Mapping[str, Any]) -> dict[str, list[float]]:
    return {each["name"]: each["values"] for each in record["series"]}
