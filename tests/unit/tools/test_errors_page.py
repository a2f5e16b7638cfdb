"""docs/errors.md is what the code says: classes, exit codes, commands and messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from source_tree import ROOT, program
from tare import study
from tare.cli.app import app
from tare.errors import TareError
from tare.images import find_recipe
from tare.system import devices

PAGE = (ROOT / "docs" / "errors.md").read_text()
TOOL = program("errors_page")


def test_the_page_is_up_to_date() -> None:
    assert TOOL.main(["--check"]) == 0, "run tools/errors_page.py"


@pytest.mark.parametrize("part", ["| 130 |", "exit code 4", "is not a device", "- Commands: all."])
def test_a_page_that_differs_fails_the_check(part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "errors.md"
    page.write_text(PAGE.replace(part, "something else"))
    assert page.read_text() != PAGE
    monkeypatch.setattr(TOOL, "PAGE", page)
    assert TOOL.main(["--check"]) == 1


def test_every_exit_code_has_a_row() -> None:
    table = PAGE.partition("## Exit codes")[2].partition("## Classes and messages")[0]
    codes = {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == {0, 1, 2, 3, 4, 5, 6, 125, 126, 127, 130}


def test_the_commands_that_the_page_names_exist() -> None:
    group: Any = typer.main.get_command(app)
    lists = re.findall(r"^- Commands: (.*(?:\n  .*)*)", PAGE, re.MULTILINE)
    named = {tuple(words.split()[:2]) for text in lists for words in re.findall(r"`tare ([^`]+)`", text)}
    assert len(named) > 8
    for command, *inner in named:
        assert command in group.commands
        if inner and not inner[0].startswith("-"):
            assert inner[0] in group.commands[command].commands


def listed(error: str) -> list[str]:
    """Return the messages that the page lists for a class, as patterns."""
    section = PAGE.partition(f"### {error}: exit code ")[2].partition("\n### ")[0]
    messages = [
        line.removeprefix("  - ").strip(" `") for line in section.partition("- Messages:\n")[2].splitlines() if line
    ]
    return [re.sub(r"\\\{\w+\\\}|\\\.\\\.\\\.", ".+", re.escape(message)) for message in messages]


@pytest.mark.parametrize(
    "fail",
    [
        lambda folder: study.load(folder / "none.yaml"),
        study.load,
        lambda folder: find_recipe("none"),
        lambda folder: devices.given([str(folder)]),
    ],
)
def test_a_message_as_it_is_raised_is_in_the_list_of_its_class(fail: Any, tmp_path: Path) -> None:
    with pytest.raises(TareError) as caught:
        fail(tmp_path)
    known = listed(type(caught.value).__name__)
    assert any(re.fullmatch(pattern, caught.value.message) for pattern in known), caught.value.message
