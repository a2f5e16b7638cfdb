"""What docs/comparing.md shows is what the commands print, and its table is that of the kinds.

After a change of the output: `python tests/unit/across/test_comparing_page.py` writes the page again.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import factory_across as folders
from tare.across.kinds import KINDS, in_words
from tare.cli.app import app
from tare.errors import TareError
from tare.model.text import printable

PAGE = Path(__file__).parents[3] / "docs" / "comparing.md"
BLOCK = re.compile(r"^```console\n\$ tare ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = BLOCK.findall(PAGE.read_text())
STUDY = replace(folders.STUDY, name="nightly")
DAY_S = 86_400


def make_results(top: Path) -> None:
    """Make the folders that the page is about."""
    after = folders.changed("identity", "kernel", value="6.12.0-2")
    after["versions"] = {**after["versions"], "dockerd": "26.1.5"}
    folders.write(top / "results" / "before", factors={"docker": 1.16}, study=STUDY, seed=3)
    folders.write(
        top / "results" / "after", factors={"docker": 1.31}, facts=after, study=STUDY, seed=4, began=1.79e9 + DAY_S
    )
    for night in range(10):
        new = night >= 7
        folders.write(
            top / "nightly" / f"2026-09-{21 + night}",
            factors={"docker": 1.31 if new else 1.16},
            facts=after if new else folders.FACTS,
            study=STUDY,
            seed=10 + night,
            began=1.79e9 + night * DAY_S,
            rounds=8,
        )


def output_of(command: str) -> str:
    """Return what a command prints, with its error or exit code, in eighty columns."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = CliRunner().invoke(app, shlex.split(command), standalone_mode=False)
    said = result.output + out.getvalue()
    if isinstance(result.exception, TareError):
        said += f"tare: {printable(str(result.exception), lines=True)}\n"
    elif result.exception is not None:
        raise result.exception
    elif result.return_value:
        said += f"(exit code {result.return_value})\n"
    return "".join(f"{line.rstrip()}\n" for line in said.rstrip().splitlines())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("page")
    make_results(top)
    return top


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_page_shows_what_the_command_prints(
    command: str, shown: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert output_of(command) == shown


def test_the_page_has_commands_of_both_kinds() -> None:
    assert {command.split()[0] for command, _ in COMMANDS} == {"compare", "history"}


def test_the_table_of_kinds_is_that_of_the_code() -> None:
    rows = [f"| `{name}` | {kind.facts} | {in_words(kind.moves)} |" for name, kind in KINDS.items()]
    assert re.findall(r"^\| `[a-z]+` \| .* \|$", PAGE.read_text(), re.MULTILINE) == rows


def test_the_index_leads_to_the_page() -> None:
    assert "(comparing.md)" in (PAGE.parent / "index.md").read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as top:
        make_results(Path(top))
        os.chdir(top)
        os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
        text = BLOCK.sub(lambda match: f"```console\n$ tare {match[1]}\n{output_of(match[1])}```", PAGE.read_text())
    PAGE.write_text(text)
    sys.exit(0)
