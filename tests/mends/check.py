"""Take past mends back one at a time, in scratch copies, and see that the tests catch each.

    python tests/mends/check.py [NAME ...]       `make mends` checks all of tests/mends/table.md

NAME.patch takes the mend NAME back. The table names the folder of which a test must fail then: in the test itself, not
while it is collected or set up, and not because a name is missing. Each folder must pass with nothing taken back.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COLUMNS = ("name", "commit", "language", "what", "target", "folder", "first")
MARKS = "not long and not measures and not kubernetes and not faults and (not live or smoke)"
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "results", "build", "build-*", "dist", "*.egg-info")
NO_FINDING = re.compile(
    r"(\w*ImportError|ModuleNotFoundError|NameError|AttributeError|SyntaxError|TypeError|\S*Timeout)\b"
)
"""What a test ends with if a name is missing or is called in another way: nothing was seen to go wrong."""
COMPILED = ("tests/kernels", "tests/miniapps")
"""Folders whose tests compile: all of them use one copy, so that only what changes is compiled again."""
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["numpy", "pydantic", "pytest", "scipy.stats", "typer", "yaml"])
"""What every run of tests loads is loaded once."""
Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Mend:
    """A row of the table."""

    name: str
    commit: str
    language: str
    what: str
    target: str
    folder: str
    first: str

    @property
    def patch(self) -> Path:
        """Return the patch that takes the mend back."""
        return HERE / f"{self.name}.patch"


def table() -> list[Mend]:
    """Return the rows of tests/mends/table.md."""
    rows = re.findall(r"(?m)^\| (?!name |-)(.*) \|$", (HERE / "table.md").read_text())
    return [Mend(**dict(zip(COLUMNS, row.replace("`", "").split(" | "), strict=True))) for row in rows]


def in_copies(
    jobs: Iterable[Job], compiles: Callable[[Job], bool], do: Callable[[Path, Job], Result], copies: int = 2
) -> list[Result]:
    """Do jobs in order in scratch copies of the repository, one at a time in each; all that compile in the first."""
    waiting, done = sorted(jobs, key=lambda job: not compiles(job)), []

    def work(copy: Path, first: bool) -> None:
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        while mine := [job for job in waiting if first or not compiles(job)][:1]:
            with suppress(ValueError):  # the other took it
                waiting.remove(mine[0])
                done.append(do(copy, mine[0]))

    with tempfile.TemporaryDirectory(prefix="tare-mends-") as scratch, ThreadPoolExecutor(copies) as pool:
        for ended in [pool.submit(work, Path(scratch) / str(number) / "tare", number == 0) for number in range(copies)]:
            ended.result()
    return done


@contextmanager
def taken_back(copy: Path, patch: str) -> Iterator[str]:
    """Apply a patch to a copy and undo it at the end; give why it does not fit, or an empty text."""
    argv = ("patch", "--forward", "--batch", "--no-backup-if-mismatch", "-r-", "-p1", "-F2")
    done = subprocess.run(argv, cwd=copy, input=patch, text=True, capture_output=True, check=False)
    try:
        yield f"the patch does not fit any more: {' '.join(done.stdout.split())}" if done.returncode else ""
    finally:
        for name in re.findall(r"(?m)^\+\+\+ b/(\S+)", patch):
            (copy / name).write_text((ROOT / name).read_text())  # with the time of now: make compiles it again


def ran(copy: Path, tests: Iterable[str], *options: str, limit_s: float = 1800) -> tuple[int, str]:
    """Run tests in a copy, and return the exit code and the output of pytest; after the limit they are killed."""
    cache, output = copy.parent / "cache", copy.parent / "output"
    objects = os.environ.get("TARE_MENDS_OBJECTS") or str(cache / "objects")
    places = {"XDG_CACHE_HOME": str(cache), "TARE_CACHE": str(cache / "tare"), "TARE_MENDS_OBJECTS": objects}
    shown = {
        "PYTHONPATH": f"{copy}/src",
        "TARE_MENDS_COPY": str(copy),
        "TARE_FUZZ_SECONDS": "2",
        "COLUMNS": "400",
        "CI": "",
    }
    environment = places | shown | dict.fromkeys(("CC", "OMPI_CC", "MPICH_CC"), str(HERE / "cc"))
    argv = ["-q", "-n0", "-pno:cacheprovider", "--tb=short", "-rfE", "-m", MARKS, *options, *tests]
    run = FORKS.Process(target=_pytest, args=(copy, environment, output, argv))
    run.start()
    run.join(limit_s)
    if run.exitcode is None:
        os.killpg(run.pid or 0, signal.SIGKILL)
        run.join()
    return run.exitcode or 0, output.read_text(errors="replace")


def _pytest(copy: Path, environment: dict[str, str], output: Path, argv: list[str]) -> None:
    """Be the pytest of `ran`, in a process of its own."""
    os.setsid()
    os.chdir(copy)
    os.environ.update(environment)
    sys.path.insert(0, f"{copy}/src")
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.exit(pytest.main(argv))


def finding(code: int, output: str) -> tuple[str, str]:
    """Return the test that failed in itself, or an empty text, and how or why not."""
    failed = re.search(r"(?m)^FAILED (\S.*?)(?: - (.*))?$", output)
    if code == 1 and failed and not NO_FINDING.match(failed[2] or ""):
        return failed[1], failed[2] or ""
    broken = re.search(r"(?m)^(?:ERROR|FAILED) .*", output)
    return "", "all tests pass" if code == 0 else broken[0] if broken else f"pytest ended with {code}: {output[-500:]}"


def passes(copy: Path, folder: str) -> bool:
    """Return whether the tests of a folder pass with nothing taken back; print it."""
    code, output = ran(copy, [folder])
    print(f"{folder}: {'passes' if code == 0 else f'FAILS with nothing taken back: {output[-3000:]}'}", flush=True)
    return code == 0


def is_caught(copy: Path, mend: Mend) -> bool:
    """Take a mend back, and return whether a test of its folder catches it; print it."""
    with taken_back(copy, mend.patch.read_text()) as misfit:
        first = [mend.first] if (copy / mend.first).is_file() else []  # where it is likely found soon
        test, how = ("", misfit) if misfit else finding(*ran(copy, [*first, mend.folder], "-x"))
    print(f"{mend.name}: {f'caught by {test}' if test else f'NOT CAUGHT in {mend.folder}: {how}'}", flush=True)
    return bool(test)


def main(names: list[str]) -> int:
    """Check the mends that are named, or all; return 1 unless all folders pass and each mend is caught."""
    mends = [mend for mend in table() if not names or mend.name in names]
    if unknown := set(names) - {mend.name for mend in mends}:
        print(f"tests/mends/table.md has no {', '.join(sorted(unknown))}")
        return 2
    jobs: list[Mend | str] = [*dict.fromkeys(mend.folder for mend in mends), *mends]
    done = in_copies(
        jobs,
        lambda job: (job if isinstance(job, str) else job.folder).startswith(COMPILED),
        lambda copy, job: (job, passes(copy, job) if isinstance(job, str) else is_caught(copy, job)),
    )
    caught = sum(right for job, right in done if isinstance(job, Mend))
    print(f"{caught} of {len(mends)} mends are caught")
    return int(not all(right for _, right in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
