"""How tests launch a program on some ranks, and what they read of it."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from kernels.builds import cached_build, compile_to
from tare.workloads.parts import with_whole_records

APPS = Path(__file__).parent / "apps"

# Not bound, and ranks that wait yield: other tests run at the same time, and Open MPI would put every job on the first
# cores. The last of each: mpirun would wait two seconds for ranks to end after one has failed.
OPENMPI = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1")
LAUNCHERS: dict[str, tuple[str, ...]] = {
    "openmpi": ("mpirun.openmpi", *OPENMPI, "--mca", "odls_base_sigkill_timeout", "0"),
    "openmpi5": ("/opt/tare/mpis/openmpi5/bin/mpirun", *OPENMPI),
    "mpich": ("mpirun.mpich",),
    "mpich5": ("/opt/tare/mpis/mpich5/bin/mpiexec",),
}
COMPONENTS = {
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"},
    "openmpi5": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"},
}
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the MPI libraries keep memory until the end
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
TICK_S = 1e-6
"""What the clock of apps/ticks.c, which `ticking` preloads, goes on by with each reading."""


@cache
def ticking(**variables: str) -> Mapping[str, str]:
    """Return the environment of ranks whose times are counts of readings of the clock."""
    library = cached_build("openmpi") / "ticks.so"
    compile_to(library, "cc", APPS / "ticks.c", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    return {"LD_PRELOAD": str(library), **variables}


def _no_number(constant: str) -> None:
    raise AssertionError(f"{constant} in a record")


@dataclass(frozen=True)
class Run:
    """What one launch left."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        texts = (line[6:] for line in with_whole_records(self.stdout) if line.startswith("@tare "))
        return [json.loads(text, parse_constant=_no_number) for text in texts]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]

    @property
    def types(self) -> list[str]:
        return [line["type"] for line in self.lines]

    @property
    def kernel(self) -> dict[str, Any]:
        (line,) = self.of_type("kernel")
        return line

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("tare-kernels: ")]


def argv_of(
    mpi: str, ranks: int, env: Mapping[str, str], *program: str | Path, launcher: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the command of a launch; the variables are the ranks' alone."""
    variables = (f"{name}={value}" for name, value in {**COMPONENTS.get(mpi, {}), **env}.items())
    return (*LAUNCHERS[mpi], *launcher, "-n", str(ranks), "env", *variables, *map(str, program))


def execute(*argv: str | Path, env: Mapping[str, str] | None = None) -> Run:
    """Run a launcher or a program to its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TARE_")}
    with tempfile.TemporaryDirectory(prefix="mpi") as own:  # two mpirun that make Open MPI's at once may both fail
        environment = {**clean, "TMPDIR": own, **(env or {})}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


def samples(kernel: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return the samples of a kernel line, by column."""
    assert kernel["encoding"] == "base64-float64-le"
    columns = {}
    for name, text in zip(kernel["columns"], kernel["data"], strict=True):
        data = base64.b64decode(text, validate=True)
        columns[name] = struct.unpack(f"<{len(data) // 8}d", data)
    return columns


def end_by_its_ranks(job: subprocess.Popen[Any]) -> None:
    """Kill a job's ranks, and so the job: mpirun of Open MPI 4.1 may hang after a SIGTERM of its own."""
    for rank in psutil.Process(job.pid).children(recursive=True):
        rank.kill()
