"""Help texts come out whole: nothing that looks like markup is taken out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import typer.main
from typer.testing import CliRunner

from tare.cli import app


def commands_of(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands_of(command, (*path, name))


EVERY = list(commands_of(typer.main.get_command(app.app)))


def words(text: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(("tare", *path)) for path, _ in EVERY])
def test_every_help_text_is_shown_as_it_is_written(
    path: tuple[str, ...], command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 400)
    shown = words(CliRunner().invoke(app.app, [*path, "--help"]).output)
    assert words(str(getattr(command, "help", "")).partition("\f")[0]) in shown
    for parameter in getattr(command, "params", []):
        told = words(str(getattr(parameter, "help", "") or ""))
        default = getattr(parameter, "show_default", None)
        for text in (told, default if isinstance(default, str) else "", str(parameter.metavar or "")):
            assert text in shown, (parameter.name, shown)
