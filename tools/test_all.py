"""Run every target of tests, one after the other, and write one table of what came of them.

    python tools/test_all.py [--faults] [--again]

What passed at this commit is not run again, so a run that was stopped resumes where it was: `--again` forgets it.
The table is printed and written to results/test-all.md. Exits with 1 if a target failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "results"
KEPT: Final = RESULTS / "test-all" / "targets.jsonl"
TABLE: Final = RESULTS / "test-all.md"
UNSTABLE: Final = RESULTS / "unstable.jsonl"
TARGETS: Final = (
    "test",
    "test-live",
    "test-long",
    "test-measures",
    "test-kubernetes",
    "explain-check",
    "mends",
    "fuzz-proof",
)
FAULTS: Final = "test-faults"
"""Two hours by itself."""
OPTIONS: Final = {"explain-check": ("SEEDS=1",), "test-live": ("HOSTILE_PLAYS=3",)}
"""What shortens a target, or repeats a part of it."""
HEADER: Final = "| target | tests | minutes | failures | unstable | commit |\n|---|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a target: `tests`, `failures` and `unstable` are counts of pytest; 0 where no pytest runs."""

    target: str
    commit: str
    tests: int
    failures: int
    unstable: int
    minutes: float
    passed: bool


def main(arguments: Sequence[str]) -> int:
    """Run what has not passed at this commit, and print the table."""
    parser = argparse.ArgumentParser(description="Run every target of tests.")
    parser.add_argument("--faults", action="store_true", help=f"also make {FAULTS}, which takes two hours")
    parser.add_argument("--again", action="store_true", help="run also what passed at this commit")
    options = parser.parse_args(arguments)
    commit = commit_of(ROOT)
    targets = (*TARGETS, FAULTS) if options.faults else TARGETS
    passed = {} if options.again else {ran.target: ran for ran in kept(KEPT) if ran.commit == commit and ran.passed}
    done = []
    for target in targets:
        if target not in passed:
            keep(KEPT, run(target, commit))
        done.append(passed.get(target) or kept(KEPT)[-1])
    text = table(done)
    TABLE.write_text(text)
    print(text, end="")
    print(closing(done))
    return 0 if all(ran.passed for ran in done) else 1


def run(target: str, commit: str) -> Ran:
    """Run a target of the Makefile."""
    report = RESULTS / "test-all" / f"{target}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    unstable = _lines(UNSTABLE)
    began = time.monotonic()
    argv = ("make", target, *OPTIONS.get(target, ()), f"PYTEST_ARGS=--junitxml={report}")
    print(f"test-all: make {target}", flush=True)
    code = subprocess.run(argv, cwd=ROOT, env={**os.environ, "CI": "true"}, check=False).returncode
    tests, failures = counts(report)
    unstable = _lines(UNSTABLE) - unstable
    return Ran(
        target=target,
        commit=commit,
        tests=tests,
        failures=max(failures - unstable, 0 if code == 0 else 1),
        unstable=unstable,
        minutes=round((time.monotonic() - began) / 60, 1),
        passed=code == 0,
    )


def counts(report: Path) -> tuple[int, int]:
    """Return how many tests a report of pytest has, and how many of them failed at first; zeros without a report."""
    if not report.exists():
        return 0, 0
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    figures = [[int(suite.get(name, 0)) for name in ("tests", "failures", "errors")] for suite in suites]
    return sum(tests for tests, _, _ in figures), sum(failures + errors for _, failures, errors in figures)


def table(done: Iterable[Ran]) -> str:
    """Return the table in Markdown, a row a target."""
    rows = (
        f"| {ran.target} | {ran.tests or '–'} | {ran.minutes:.1f} | {ran.failures} | {ran.unstable} | {ran.commit} |\n"
        for ran in done
    )
    return HEADER + "".join(rows)


def closing(done: Sequence[Ran]) -> str:
    """Return the last line, in the form of pytest's."""
    failed = sum(not ran.passed for ran in done)
    return f"{len(done) - failed} passed, {failed} failed in {sum(ran.minutes for ran in done):.0f} minutes"


def kept(file: Path) -> list[Ran]:
    """Return what came of targets, oldest first; a line that was cut off by a kill is passed over."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(Ran(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def keep(file: Path, ran: Ran) -> None:
    """Add what came of a target, on a line of its own also behind one that was cut off."""
    with file.open("a") as out:
        out.write("\n" + json.dumps(asdict(ran)) + "\n")


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, with `+` if files in it were changed."""
    asked = (("git", "rev-parse", "--short", "HEAD"), ("git", "status", "--porcelain", "--untracked-files=no"))
    head, changed = (
        subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout.strip() for argv in asked
    )
    return head + ("+" if changed else "")


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
