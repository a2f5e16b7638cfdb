"""docs/errors.md is what the code says: classes, exit codes, commands and messages."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tare import study
from tare.cli.app import app
from tare.errors import RefusedError, StudyError, TareError
from tare.host import devices
from tare.images import find_recipe

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "errors.md").read_text()
TOOL = runpy.run_path(str(ROOT / "tools" / "errors_page.py"))


def every_error(base: type[TareError] = TareError) -> set[type[TareError]]:
    return {base}.union(*(every_error(child) for child in base.__subclasses__()))


def check(monkeypatch: pytest.MonkeyPatch, page: Path) -> int:
    monkeypatch.setitem(TOOL["main"].__globals__, "PAGE", page)
    return int(TOOL["main"](["--check"]))


def test_the_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, ROOT / "docs" / "errors.md") == 0, "run tools/errors_page.py"


@pytest.mark.parametrize("part", ["| 130 |", "exit code 4", "is not a device", "- Commands: all."])
def test_a_page_that_differs_fails_the_check(part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "errors.md"
    page.write_text(PAGE.replace(part, "something else"))
    assert page.read_text() != PAGE
    assert check(monkeypatch, page) == 1


def test_every_class_has_a_section_with_its_exit_code_and_every_code_a_row() -> None:
    sections = dict(re.findall(r"^### (\w+): exit code (\d+)$", PAGE, re.MULTILINE))
    ours = {error for error in every_error() if error.__module__ == "tare.errors"}
    assert sections == {error.__name__: str(error.exit_code) for error in ours}
    table = PAGE.partition("## Exit codes")[2].partition("## Classes")[0]
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
    table = PAGE.partition(f"### Messages of {error}\n")[2].partition("\n### ")[0]
    messages = [re.split(r"(?<!\\)\|", line)[1].strip(" `") for line in table.splitlines() if line.startswith("| `")]
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


def test_many_messages_are_listed_and_most_of_some_classes_have_a_remedy() -> None:
    assert len(listed(RefusedError.__name__)) > 30
    assert len(listed(StudyError.__name__)) > 8
