"""`make test-all` resumes where it was, and its table has every target."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the tool with results of its own, and `make` that fails for the targets in `broken`."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.delitem(sys.modules, "test_all", raising=False)
    module: Any = importlib.import_module("test_all")
    module.RESULTS, module.KEPT = tmp_path, tmp_path / "test-all" / "targets.jsonl"
    module.TABLE, module.UNSTABLE = tmp_path / "test-all.md", tmp_path / "unstable.jsonl"
    module.broken, module.made, module.stop_at = set(), [], ""

    def make(argv: tuple[str, ...], **options: Any) -> Any:
        if argv[0] != "make":
            return SimpleNamespace(stdout="abc123\n" if "rev-parse" in argv else "", returncode=0)
        target = argv[1]
        if target == module.stop_at:
            raise KeyboardInterrupt
        module.made.append(target)
        failures = 1 if target in module.broken else 0
        report = Path(argv[-1].partition("--junitxml=")[2].split()[0])
        report.write_text(f'<testsuites><testsuite tests="7" failures="{failures}" errors="0"/></testsuites>')
        return SimpleNamespace(returncode=failures)

    monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=make))
    return module


def test_every_target_that_the_tool_names_is_in_the_makefile(tool: Any) -> None:
    targets = (*tool.TARGETS, tool.FAULTS)
    done = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_hostile_plays_are_played_three_times(tool: Any) -> None:
    argv = ["make", "--dry-run", "test-live", *tool.OPTIONS["test-live"]]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "TARE_HOSTILE_PLAYS=3 " in done.stdout
    assert "test-live" in tool.TARGETS


def test_what_passed_is_not_run_again_and_what_failed_or_was_stopped_is(tool: Any) -> None:
    tool.broken, tool.stop_at = {"test-live"}, "test-measures"
    with pytest.raises(KeyboardInterrupt):
        tool.main([])
    assert tool.made == ["test", "test-live", "test-long"]
    with tool.KEPT.open("a") as file:
        file.write('{"target": "test-meas')  # cut off
    tool.broken, tool.stop_at, tool.made = set(), "", []
    assert tool.main([]) == 0
    assert tool.made == ["test-live", *tool.TARGETS[3:]]
    tool.made = []
    assert tool.main([]) == 0
    assert tool.made == []
    assert tool.main(["--again", "--faults"]) == 0
    assert tool.made == [*tool.TARGETS, tool.FAULTS]


def test_the_table_has_a_row_a_target_and_a_failure_is_the_exit_code(
    tool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.broken = {"test"}
    assert tool.main([]) == 1
    rows = tool.TABLE.read_text().splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(tool.TARGETS)
    assert rows[0].startswith("| test | 7 | ")
    assert rows[0].endswith(" | 1 | 0 | abc123 |")
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{len(rows) - 1} passed, 1 failed")
