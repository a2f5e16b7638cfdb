"""A build of the mini-applications with sanitizers, kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "miniapps"
OPTIONS = (
    *("-DMPI_C_COMPILER=mpicc.openmpi", "-DTARE_SANITIZE=ON"),
    *("-DCMAKE_BUILD_TYPE=Checked", "-DCMAKE_C_FLAGS_CHECKED=-O1 -g1"),  # compiled in a third of the time of -O3
)


def sanitized_build() -> Path:
    """Return the program, built in the cache folder; another process of pytest may be doing the same."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "miniapp-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"sanitized-{hashlib.sha256(str(SOURCE).encode()).hexdigest()[:8]}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for argv in (
            ("cmake", "-S", str(SOURCE), "-B", str(folder), *OPTIONS),
            ("cmake", "--build", str(folder), "--parallel", "2"),
        ):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "tare-miniapps"
