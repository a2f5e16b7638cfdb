"""Builds of the kernels, kept in the cache folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "kernels"

SANITIZED = ("-DTARE_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Checked", "-DCMAKE_C_FLAGS_CHECKED=-O1 -g1")
"""Warnings of -O2 are seen in the other builds."""
BUILDS: dict[str, tuple[str, ...]] = {
    "openmpi": ("-DMPI_C_COMPILER=mpicc.openmpi",),
    "openmpi-sanitized": ("-DMPI_C_COMPILER=mpicc.openmpi", *SANITIZED),
    "openmpi-clang": ("-DMPI_C_COMPILER=mpicc.openmpi", "-DCMAKE_C_COMPILER=clang"),
    "mpich": ("-DMPI_C_COMPILER=mpicc.mpich",),
    "openmpi5": ("-DMPI_C_COMPILER=/opt/tare/mpis/openmpi5/bin/mpicc",),
    "mpich5": ("-DMPI_C_COMPILER=/opt/tare/mpis/mpich5/bin/mpicc",),
    "mpich-sanitized": ("-DMPI_C_COMPILER=mpicc.mpich", *SANITIZED),
}


def cached_build(name: str) -> Path:
    """Configure and build in the cache folder; another pytest process may be doing the same."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "kernel-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = folder / "CMakeCache.txt"
        if home.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={SOURCE}\n" not in home.read_text():
            shutil.rmtree(folder)  # another checkout's
        check("cmake", "-S", SOURCE, "-B", folder, *BUILDS[name])
        check("cmake", "--build", folder, "--parallel", "2")
    return folder


def check(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a tool that must succeed and return what it printed."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout
