"""Show that each fuzzer finds what it is there for: take one mend back in a scratch copy, and run its fuzzer.

    python tests/fuzz/reverts.py [NAME ...]      `make fuzz-proof` runs all

A mend is taken back by `tests/fuzz/reverts/NAME.patch`, whose first line names the test: `fuzzer: FILE::TEST`. The
budget of each is `TARE_FUZZ_SECONDS` (600 if unset), and it ends with the finding.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "reverts"
NEEDED = ("src", "tests", "studies", "kernels", "pyproject.toml", "docs")
BUDGET_S = os.environ.get("TARE_FUZZ_SECONDS") or "600"


def main(names: list[str]) -> int:
    """Try each patch and print what came of it; return 1 if a fuzzer did not find what was taken back."""
    missed = 0
    for patch in sorted(PATCHES.glob("*.patch")):
        if not names or patch.stem in names:
            told = tried(patch)
            missed += not told.startswith("found")
            print(f"{patch.stem}: {told}", flush=True)
    return min(missed, 1)


def tried(patch: Path) -> str:
    """Return in how many seconds the fuzzer found that a patch was applied, or what went wrong."""
    fuzzer = re.match(r"fuzzer: (\S+)", patch.read_text())
    if fuzzer is None:
        return "its first line names no fuzzer"
    with tempfile.TemporaryDirectory(prefix="tare-fuzz-proof-") as scratch:
        for name in NEEDED:
            _copy(ROOT / name, Path(scratch) / name)
        applied = _run(scratch, "patch", "--forward", "--batch", "-p1", "--input", str(patch))
        if applied.returncode:
            return f"the patch does not fit any more: {applied.stdout.strip()}"
        ran = _run(scratch, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=1200", fuzzer[1])
    found = re.search(r"found after ([\d.]+) s", ran.stdout)
    if ran.returncode and found:
        return f"found after {found[1]} s"
    return f"not found in {BUDGET_S} s" if ran.returncode == 0 else f"the fuzzer broke:\n{ran.stdout[-2000:]}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    else:
        shutil.copy(source, target)


def _run(folder: str, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{folder}/src", "TARE_FUZZ_SECONDS": BUDGET_S, "TARE_FUZZ_SHRINK": "0"}
    return subprocess.run(
        argv, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
