"""docs/reference/commands.md has every command, option and default of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from source_tree import program

TOOL = program("commands_page")


def test_the_page_is_up_to_date_and_one_that_differs_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert TOOL.main(["--check"]) == 0, "run tools/commands_page.py"
    text = TOOL.PAGE.read_text()
    page = tmp_path / "commands.md"
    page.write_text(text.replace("`--rounds VALUE`", "`--turns VALUE`"))
    assert page.read_text() != text
    monkeypatch.setattr(TOOL, "PAGE", page)
    assert TOOL.main(["--check"]) == 1


def test_commands_of_groups_are_there_with_their_defaults() -> None:
    page = TOOL.written()
    for part in (
        "## tare lab up\n",
        "## tare network list\n",
        "## tare quick\n",
        "Default: 10.",
        "`--ranks-per-node VALUE`, `-n`",
    ):
        assert part in page


def test_an_option_of_several_commands_is_described_once_and_named_by_each() -> None:
    commands, _, shared = TOOL.written().partition(f"## {TOOL.SHARED}\n")
    assert "- `--ssh-config VALUE`: " in shared
    assert "- `--ssh-config VALUE`: " not in commands
    assert commands.count("`--ssh-config`") > 2
