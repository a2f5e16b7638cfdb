"""Builds of the kernels and the mini-applications, kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "kernels"

SANITIZED = ("-DTARE_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Checked", "-DCMAKE_C_FLAGS_CHECKED=-O1 -g1")
"""Warnings of -O2 are seen in the other builds; this one is compiled in a third of the time."""
BUILDS: dict[str, tuple[str, ...]] = {
    "openmpi": ("-DMPI_C_COMPILER=mpicc.openmpi",),
    "openmpi-sanitized": ("-DMPI_C_COMPILER=mpicc.openmpi", *SANITIZED),
    "openmpi-clang": ("-DMPI_C_COMPILER=mpicc.openmpi", "-DCMAKE_C_COMPILER=clang"),
    "mpich": ("-DMPI_C_COMPILER=mpicc.mpich",),
    "openmpi5": ("-DMPI_C_COMPILER=/opt/tare/mpis/openmpi5/bin/mpicc",),
    "mpich5": ("-DMPI_C_COMPILER=/opt/tare/mpis/mpich5/bin/mpicc",),
    "mpich-sanitized": ("-DMPI_C_COMPILER=mpicc.mpich", *SANITIZED),
}


def cached_build(name: str, source: Path = SOURCE) -> Path:
    """Configure and build in the cache folder, each checkout in its own; another process may be doing the same."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "kernel-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{source.name}-{name}-{hashlib.sha256(str(source).encode()).hexdigest()[:8]}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check("cmake", "-S", source, "-B", folder, *BUILDS[name])
        check("cmake", "--build", folder, "--parallel", "2")
    return folder


def check(*argv: str | Path) -> str:
    """Run a tool that must succeed and return what it printed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compile_to(made: Path, compiler: str, source: Path, *flags: str) -> Path:
    """Compile one file; a process that runs the former program keeps it."""
    own = made.with_suffix(f".{os.getpid()}")
    check(compiler, *flags, source, "-o", own)
    return own.replace(made)
