"""What fails twice fails, and what fails once is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
from pathlib import Path
import pytest

def test_right(): pass

def test_unstable():
    seen = Path(__file__).with_name("seen")
    ran, _ = seen.exists(), seen.touch()
    assert ran, "only the first time"

@pytest.mark.skipif("WRONG" not in __import__("os").environ, reason="not asked for")
def test_wrong(): assert False

@pytest.fixture
def broken():
    seen = Path(__file__).with_name("built")
    ran, _ = seen.exists(), seen.touch()
    assert ran, "its set-up"

def test_of_a_broken_fixture(broken): pass
"""


@pytest.mark.parametrize(
    ("more", "code", "last"),
    [("", 0, "1 passed, 1 skipped, 2 unstable"), ("WRONG", 1, "1 failed, 1 passed, 2 unstable")],
)
def test_only_a_second_failure_fails_the_session(tmp_path: Path, more: str, code: int, last: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    argv = (sys.executable, "-m", "pytest", "-p", "second_run", "--second-run", "-n", "0", "test_some.py")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])} | (
        {more: "1"} if more else {}
    )
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert last in done.stdout.splitlines()[-1]
    assert "unstable: test_some.py::test_unstable: AssertionError: only the first time" in done.stdout
    kept = [json.loads(line)["test"] for line in (tmp_path / "results" / "unstable.jsonl").read_text().splitlines()]
    assert kept == ["test_some.py::test_of_a_broken_fixture", "test_some.py::test_unstable"]
