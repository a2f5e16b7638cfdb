"""Builds of the kernels, and ways to launch them."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernels.builds import SOURCE, cached_build, check
from tare.workloads.parts import with_whole_records

APPS = Path(__file__).parent / "apps"
WALL = "libtare_wall.so"

# Not bound: other tests may run at the same time, and Open MPI would put every job on the first cores.
LAUNCHERS: dict[str, tuple[str, ...]] = {
    "openmpi": (
        *("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
        # The last: mpirun would wait two seconds for ranks to end after one has failed.
        *("--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "odls_base_sigkill_timeout", "0"),
    ),
    "openmpi5": (
        *("/opt/tare/mpis/openmpi5/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
        *("--mca", "pml", "ob1", "--mca", "btl", "self,sm"),
    ),
    "mpich": ("mpirun.mpich",),
    "mpich5": ("/opt/tare/mpis/mpich5/bin/mpiexec",),
}


@dataclass(frozen=True)
class Run:
    """What one launch left."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in with_whole_records(self.stdout) if line.startswith("@tare ")]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]

    @property
    def kernel(self) -> dict[str, Any]:
        (line,) = self.of_type("kernel")
        return line

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("tare-kernels: ")]


def decode(kernel: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return the samples of a kernel line, by column."""
    assert kernel["encoding"] == "base64-float64-le"
    columns = {}
    for name, text in zip(kernel["columns"], kernel["data"], strict=True):
        data = base64.b64decode(text, validate=True)
        columns[name] = struct.unpack(f"<{len(data) // 8}d", data)
    return columns


def execute(argv: tuple[str | Path, ...], env: Mapping[str, str] | None, timeout_s: float) -> Run:
    """Run a launcher; on time-out end it by SIGTERM, which makes it end its ranks, and raise."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TARE_")}
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory(
            prefix="mpi"
        ) as own,  # two mpirun that make Open MPI's folder at once may both fail
        subprocess.Popen(
            argv, stdout=pipe, stderr=pipe, text=True, env={**clean, "TMPDIR": own, **(env or {})}
        ) as process,
    ):
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate(timeout=20)
            raise
    return Run(process.returncode, stdout, stderr)


@pytest.fixture(scope="session")
def build() -> Callable[[str], Path]:
    """Return a function that gives the folder of a build, made when first asked for."""
    folders: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in folders:
            folders[name] = cached_build(name)
        return folders[name]

    return get


@pytest.fixture(scope="session")
def launch(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs tare-kernels on some ranks."""

    def run(
        *arguments: str,
        ranks: int = 2,
        variant: str = "openmpi",
        env: Mapping[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
        timeout_s: float = 60,
    ) -> Run:
        program = build(variant) / "tare-kernels"
        launcher = LAUNCHERS[variant.partition("-")[0]]
        return execute((*launcher, "-n", str(ranks), *wrapper, program, *arguments), env, timeout_s)

    return run


@pytest.fixture(scope="session")
def launch_startup(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs tare-startup on some ranks, on the files of its build or of another folder."""

    def run(
        folder: Path | None = None,
        *,
        ranks: int = 2,
        variant: str = "openmpi",
        env: Mapping[str, str] | None = None,
    ) -> Run:
        made = build(variant)
        launcher = LAUNCHERS[variant.partition("-")[0]]
        argv = (*launcher, "-n", str(ranks), made / "tare-startup", folder or made / "modules")
        return execute(argv, env, 60)

    return run


@pytest.fixture(scope="session")
def launch_program(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs any program on some ranks: one of a build by its name, another by its path.

    `env` is the ranks': the launcher itself does not get it.
    """

    def run(
        program: str | Path,
        *arguments: str,
        ranks: int = 2,
        variant: str = "openmpi",
        env: Mapping[str, str] | None = None,
    ) -> Run:
        made = build(variant) / program  # a path stays as it is
        variables = tuple(f"{name}={value}" for name, value in (env or {}).items())
        argv = (*LAUNCHERS[variant.partition("-")[0]], "-n", str(ranks), "env", *variables, made, *arguments)
        return execute(argv, None, 110)

    return run


@pytest.fixture(scope="session")
def alone(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs tare-kernels without a launcher, as one rank."""

    def run(*arguments: str) -> Run:
        return execute((build("openmpi") / "tare-kernels", *arguments), {"OMPI_MCA_btl": "self,vader"}, 30)

    return run


@pytest.fixture(scope="session")
def listed(build: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    """Return what `tare-kernels --list` says of each kernel, which it does without a launcher."""
    return {kernel["name"]: kernel for kernel in json.loads(check(build("openmpi") / "tare-kernels", "--list"))}


@pytest.fixture(scope="session")
def samples() -> Callable[[Mapping[str, Any]], dict[str, tuple[float, ...]]]:
    return decode


@pytest.fixture(scope="session")
def tool() -> Callable[..., str]:
    return check


@pytest.fixture(scope="session")
def sources() -> Path:
    return SOURCE


@pytest.fixture(scope="session")
def launch_app(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that compiles an application and runs it with libtare_wall.so preloaded.

    With `preload` other sources become libraries around it (`WALL` stands for it); a source that is an argument becomes
    a library, too, and the application gets its path.
    """
    compilers = {".c": "mpicc", ".f90": "mpif90"}

    def compiled(mpi: str, name: str, *flags: str) -> Path:
        source = APPS / name
        made = build(mpi) / f"{source.stem}.{'so' if flags else 'app'}"
        check(f"{compilers[source.suffix]}.{mpi}", *flags, source, "-o", made)
        return made

    def library(mpi: str, name: str) -> str:
        return str(build(mpi) / name) if name.endswith(".so") else str(compiled(mpi, name, "-shared", "-fPIC"))

    def run(mpi: str, app: str, *arguments: str, ranks: int = 2, preload: tuple[str, ...] = (WALL,)) -> Run:
        given = (library(mpi, word) if word.endswith((".c", ".f90")) else word for word in arguments)
        before = ("env", "LD_PRELOAD=" + ":".join(library(mpi, name) for name in preload))
        return execute((*LAUNCHERS[mpi], "-n", str(ranks), *before, compiled(mpi, app), *given), None, 60)

    return run
