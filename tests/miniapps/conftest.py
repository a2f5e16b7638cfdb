"""Builds of the mini-applications, made once for all processes that test them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "miniapps"
OPTIONS = {
    "openmpi": ("-DMPI_C_COMPILER=mpicc.openmpi",),
    "mpich": ("-DMPI_C_COMPILER=mpicc.mpich",),
    "openmpi-sanitized": ("-DMPI_C_COMPILER=mpicc.openmpi", "-DTARE_SANITIZE=ON"),
}


def built(name: str) -> Path:
    """Return the program, built in the cache folder; another process of pytest may be doing the same."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "miniapp-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{hashlib.sha256(str(SOURCE).encode()).hexdigest()[:8]}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for argv in (
            ("cmake", "-S", str(SOURCE), "-B", str(folder), *OPTIONS[name]),
            ("cmake", "--build", str(folder), "--parallel", "2"),
        ):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "tare-miniapps"


@pytest.fixture(scope="session")
def program() -> Path:
    """Return `tare-miniapps` for Open MPI."""
    return built("openmpi")


@pytest.fixture(scope="session")
def program_mpich() -> Path:
    """Return `tare-miniapps` for MPICH."""
    return built("mpich")


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """Return `tare-miniapps` with AddressSanitizer and UndefinedBehaviorSanitizer."""
    return built("openmpi-sanitized")
