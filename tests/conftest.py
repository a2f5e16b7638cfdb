"""Which tests run together, and the policy on skips.

`@pytest.mark.requires("docker", "root")` skips a test where one of them is missing and says what installs it. With
CI=true a skip fails the session, because the bootstrap installs all that `requires` knows. Only a reason that
begins with `this machine cannot: ` (a kernel without the module, no second core) is let through.

Tests run beside each other (`pytest -n 3 --dist loadgroup`): those of a file in one process, as they share what they
set up, and all that are `smoke` in one process, as ranks that poll hold up those of another lab.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from needs import LATER, NEEDS

TESTS = Path(__file__).parent
CANNOT = "this machine cannot: "
LIVE = frozenset({"integration", "emulated", "images", "faults", "hostile"})
"""The folders of tests that run labs, daemons or browsers."""
FIRST = ("integration", "hostile", "miniapps", "kernels", "fuzz")
"""The folders whose files take longest: they begin first, so that no process is left alone with one at the end."""

# Half of collecting is compiling. What pytest compiles is kept where no user is in the way of root's files, also
# with PYTHONDONTWRITEBYTECODE; programs that tests start are left as they are.
sys.pycache_prefix = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "test-bytecode")
sys.dont_write_bytecode = False

# What one example takes says nothing on a busy machine; a test's own time limit is pytest-timeout's.
settings.register_profile("tare", deadline=None)
settings.load_profile("tare")

# Started in the background of a script, tests would ignore Ctrl-C, and so would all that they start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored

pytest_plugins = ("second_run",)
_skipped: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def _signals_take_effect() -> Iterator[None]:
    """Let a signal that a test sends take effect, also if the test is just about to wait."""
    from tare.system.signals import waking

    with waking():
        yield


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups, and before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is live, group the tests, and put first what takes long."""
    for item in items:
        if _folder(item) in LIVE:
            item.add_marker("live")
        needed = {name for mark in item.iter_markers("requires") for name in mark.args}
        for mark, names in LATER.items():
            if needed & set(names):
                item.add_marker(mark)
        if item.get_closest_marker("xdist_group") is None:
            group = "smoke" if item.get_closest_marker("smoke") else str(item.path.relative_to(TESTS))
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: FIRST.index(_folder(item)) if _folder(item) in FIRST else len(FIRST))


def _folder(item: pytest.Item) -> str:
    """Return the folder of `tests` in which a test is."""
    return item.path.relative_to(TESTS).parts[0]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires"):
        for name in mark.args:
            if name not in NEEDS:
                pytest.fail(f"requires({name!r}): unknown; known are {', '.join(NEEDS)}", pytrace=False)
            present, remedy = NEEDS[name]
            if not present():
                pytest.skip(f"{name} is missing: {remedy}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _note(report.nodeid, report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _note(report.nodeid, report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    if _ci() and _skipped:
        terminalreporter.section("skipped in CI, where all that tests need is installed", red=True)
        for line in _skipped:
            terminalreporter.line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _ci() and _skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _note(nodeid: str, longrepr: object) -> None:
    reason = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(CANNOT):
        _skipped.append(f"{nodeid}: {reason}")


def _ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")
