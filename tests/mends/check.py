"""Take past mends back one at a time, in scratch copies, and see that the tests catch each.

    python tests/mends/check.py [NAME ...]       `make mends` checks all of tests/mends/table.md

NAME.patch takes the mend NAME back. The table names the folder of which a test must fail then: in the test itself, not
while it is collected or set up, and not because a name is missing. The same test must pass with nothing taken back.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CC = HERE / "cc"
COLUMNS = ("name", "commit", "language", "what", "target", "folder", "first")
MARKS = "not long and not measures and not kubernetes and not faults and (not live or smoke)"
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "results", "build", "build-*", "dist", "*.egg-info"
)
NO_FINDING = re.compile(
    r"(\w*ImportError|ModuleNotFoundError|NameError|AttributeError|SyntaxError|TypeError|\S*Timeout)\b"
)
"""What a test ends with if a name is missing or is called in another way, or nothing can be built: no answer."""
RUNNING: set[subprocess.Popen[str]] = set()
"""Runs of pytest under way, which are interrupted with this program."""
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


def in_copies(jobs: Iterable[Job], do: Callable[[Path, Job], Result], copies: int = 2) -> list[Result]:
    """Do jobs in order in scratch copies of the repository, one at a time in each."""
    free: SimpleQueue[Path] = SimpleQueue()

    def one(job: Job) -> Result:
        copy = free.get()
        try:
            return do(copy, job)
        finally:
            free.put(copy)

    with tempfile.TemporaryDirectory(prefix="tare-mends-") as scratch, ThreadPoolExecutor(copies) as pool:
        for number in range(copies):
            free.put(Path(scratch) / str(number) / "tare")
            shutil.copytree(ROOT, Path(scratch) / str(number) / "tare", ignore=LEFT_OUT, symlinks=True)
        try:
            return list(pool.map(one, jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for tests in list(RUNNING):
                tests.send_signal(signal.SIGINT)
            raise


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


def ran(copy: Path, tests: Iterable[str], *options: str) -> tuple[int, str]:
    """Run tests in a copy, and return the exit code and the output of pytest."""
    cache, objects = copy.parent / "cache", os.environ.get("TARE_MENDS_OBJECTS") or copy.parents[1] / "objects"
    places = {"PYTHONPATH": copy / "src", "XDG_CACHE_HOME": cache, "TARE_CACHE": cache / "tare"}
    built = {"TARE_MENDS_COPY": copy, "TARE_MENDS_OBJECTS": objects, "CC": CC, "OMPI_CC": CC, "MPICH_CC": CC}
    other = {"TARE_FUZZ_SECONDS": "2", "COLUMNS": "400", "CI": ""}
    argv = (sys.executable, "-m", "pytest", "-q", "-n0", "-pno:cacheprovider", "--tb=short", "-rfE", "-m", MARKS)
    env = {**os.environ, **places, **built, **other}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen((*argv, *options, *tests), cwd=copy, env=env, text=True, stdout=pipe, stderr=both) as process:
        RUNNING.add(process)
        output, _ = process.communicate()
        RUNNING.remove(process)
    return process.returncode, output


def finding(code: int, output: str) -> tuple[str, str]:
    """Return the test that failed in itself, or an empty text, and how or why not."""
    failed = re.search(r"(?m)^FAILED (\S.*?)(?: - (.*))?$", output)
    if code == 1 and failed and not NO_FINDING.match(failed[2] or ""):
        return failed[1], failed[2] or ""
    broken = re.search(r"(?m)^(?:ERROR|FAILED) .*", output)
    return "", "all tests pass" if code == 0 else broken[0] if broken else f"pytest ended with {code}: {output[-500:]}"


def is_caught(copy: Path, mend: Mend) -> bool:
    """Take a mend back, and return whether a test of its folder fails then that passes otherwise; print it."""
    with taken_back(copy, mend.patch.read_text()) as misfit:
        first = [mend.first] if (copy / mend.first).is_file() else []  # where it is likely found soon
        test, how = ("", misfit) if misfit else finding(*ran(copy, [*first, mend.folder], "-x"))
    if test and ran(copy, [test])[0]:
        test, how = "", f"{test} fails with nothing taken back, too"
    print(f"{mend.name}: {f'caught by {test}' if test else f'NOT CAUGHT in {mend.folder}: {how}'}", flush=True)
    return bool(test)


def main(names: list[str]) -> int:
    """Check the mends that are named, or all; return 1 unless each is caught."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    mends = [mend for mend in table() if not names or mend.name in names]
    if unknown := set(names) - {mend.name for mend in mends}:
        print(f"tests/mends/table.md has no {', '.join(sorted(unknown))}")
        return 2
    mends.insert(0, mends.pop())  # one of C compiles what the others do, while those of Python run
    caught = sum(in_copies(mends, is_caught))
    print(f"{caught} of {len(mends)} mends are caught")
    return int(caught < len(mends))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
