"""docs/errors.md is what the code says: classes, exit codes and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from source_tree import ROOT, program
from tare.cli.app import app
from tare.errors import TareError

PAGE = (ROOT / "docs" / "errors.md").read_text()
TOOL = program("errors_page")


def test_the_page_is_up_to_date() -> None:
    assert TOOL.main(["--check"]) == 0, "run tools/errors_page.py"


@pytest.mark.parametrize("part", ["| 130 |", "| CellsFailed | 4 |", "| StudyError |"])
def test_a_page_that_differs_fails_the_check(part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "errors.md"
    page.write_text(PAGE.replace(part, "something else"))
    assert page.read_text() != PAGE
    monkeypatch.setattr(TOOL, "PAGE", page)
    assert TOOL.main(["--check"]) == 1


def test_every_exit_code_has_a_row() -> None:
    table = PAGE.partition("## Exit codes")[2].partition("## Classes")[0]
    codes = {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == {0, 1, 2, 3, 4, 5, 6, 125, 126, 127, 130}


def test_every_class_has_a_row_and_names_commands_that_exist() -> None:
    children = [error for error in TOOL.classes() if error is not TareError]
    assert re.findall(r"^\| (\w+) \| \d \| ", PAGE, re.MULTILINE) == [error.__name__ for error in children]
    group: Any = typer.main.get_command(app)
    texts = [TOOL.described(error)[1] for error in children]
    named = {tuple(words.split()[:2]) for text in texts for words in re.findall(r"`tare ([^`]+)`", text)}
    assert len(named) > 8
    for command, *inner in named:
        assert command in group.commands
        if inner and not inner[0].startswith("-"):
            assert inner[0] in group.commands[command].commands
