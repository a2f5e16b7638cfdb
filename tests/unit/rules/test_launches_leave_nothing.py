"""Whoever starts a launch also ends what it leaves behind: a new place that starts launches has to say so here."""

from __future__ import annotations

import ast

import pytest

from source_tree import CODE

STARTS = {"run_launch", "started", "attend", "in_turns.run", "run_commands"}
"""What starts a launch; `started` is that of `tare.run.job`."""
JUDGED = "run/runner.py"
"""Ends what launches left for those that only run them."""
BY_THE_RUNNER = {"run/outcome.py", "run/in_turns.py"}
HAVE_NO_LAUNCH = {"system/process.py", "cli/app.py"}
"""Starts processes of any kind; the command line, whose `run_launch` is the command."""


def calls(module: str) -> set[str]:
    """Return the names that a module calls: `job.started` as `started`, too."""
    found = set[str]()
    for node in ast.walk(ast.parse(CODE[module])):
        if isinstance(node, ast.Call):
            found |= {ast.unparse(node.func), ast.unparse(node.func).rpartition(".")[2]}
        elif isinstance(node, ast.Attribute | ast.Name):
            found |= {ast.unparse(node)} & {"up.end_left", "end_left"}
    return found


def modules_that_start_launches() -> list[str]:
    may = [name for name, code in CODE.items() if any(f"{start}(" in code for start in STARTS)]
    return [name for name in may if name not in HAVE_NO_LAUNCH and calls(name) & STARTS]


@pytest.mark.parametrize("name", modules_that_start_launches())
def test_a_module_that_starts_launches_ends_what_they_leave(name: str) -> None:
    ended_by = JUDGED if name in BY_THE_RUNNER else name
    assert "end_left" in calls(ended_by), f"{name} starts launches and does not end what they leave"


def test_the_runner_ends_it_whatever_the_launch_s_status() -> None:
    nodes = ast.walk(ast.parse(CODE[JUDGED]))
    judged = next(each for each in nodes if isinstance(each, ast.FunctionDef) and each.name == "_judged")
    assert any("end_left()" in ast.unparse(each) for each in judged.body if isinstance(each, ast.Assign))
