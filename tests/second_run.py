"""`pytest --second-run`: a test that failed runs once more at the end, alone; only a second failure fails the session.

What needed its second run is printed as a list, counted as `unstable` in the last line, and kept in
`results/unstable.jsonl` with the reason of its first failure. For live tests: `make test` has no second run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

KEPT = Path("results", "unstable.jsonl")
MOST = 20
"""With more failures than this the tree is broken: nothing runs twice."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--second-run", action="store_true", help="run what failed once more at the end, alone")


@pytest.hookimpl(trylast=True)  # after xdist has ended its workers
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not session.config.getoption("second_run") or reporter is None or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    stats: dict[str, list[pytest.TestReport]] = reporter.stats
    failed = {_test(report): _reason(report) for kind in ("error", "failed") for report in stats.get(kind, [])}
    if not all("::" in test for test in failed) or len(failed) > MOST:
        return
    reporter.section(f"second run of {len(failed)}, alone")
    unstable = {test: reason for test, reason in failed.items() if _passes(test, session.config.rootpath)}
    for test, reason in unstable.items():
        reporter.write_line(f"unstable: {test}: {reason}")
    for kind in ("error", "failed"):
        reports = stats.pop(kind, [])
        if again := [report for report in reports if _test(report) not in unstable]:
            stats[kind] = again
        stats.setdefault("unstable", []).extend(report for report in reports if _test(report) in unstable)
    _keep(unstable, session.config.rootpath / KEPT)
    if unstable.keys() == failed.keys():
        session.exitstatus = pytest.ExitCode.OK


def _test(report: pytest.TestReport) -> str:
    """Return the name of a test without the group that xdist puts behind it."""
    name = report.nodeid
    return name[: name.rindex("@")] if name.rfind("@") > name.rfind("]") else name


def _reason(report: pytest.TestReport) -> str:
    lines = [line for line in str(report.longreprtext).splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E ").strip() if lines else "no reason was given"


def _passes(test: str, folder: Path) -> bool:
    argv = (sys.executable, "-m", "pytest", "-n", "0", "-m", "", "--no-header", test)
    return subprocess.run(argv, cwd=folder, check=False).returncode == pytest.ExitCode.OK


def _keep(unstable: dict[str, str], kept: Path) -> None:
    if not unstable:
        return
    commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False)
    kept.parent.mkdir(exist_ok=True)
    with kept.open("a") as file:
        for test, reason in unstable.items():
            now = datetime.now(UTC).isoformat(timespec="seconds")
            file.write(json.dumps({"test": test, "reason": reason, "commit": commit.stdout.strip(), "at": now}) + "\n")
