"""What a command returns or raises is the code of the process and what it says, and its options reach it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tare.cli import app, commands, lab_commands, quick
from tare.doctor import machine
from tare.errors import (
    CellsFailed,
    CommandFailed,
    InfrastructureError,
    MissingTool,
    RefusedError,
    StudyError,
    TareError,
)
from tare.model.text import without_dashes


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """Run the command line in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["tare", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        app.main()
    return caught.value.code


# --- codes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_the_code_that_a_command_returns_is_the_code_of_the_process(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run_study", lambda *_, **__: code)
    monkeypatch.setattr(quick, "run_quick", lambda *_, **__: code)
    monkeypatch.setattr(commands, "show_report", lambda *_, **__: code)
    monkeypatch.setattr(machine, "show_doctor", lambda: code)
    for arguments in (("run", "x.yaml"), ("quick", "--", "./a"), ("report", "x"), ("doctor",)):
        assert main(monkeypatch, *arguments) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StudyError("s.yaml:3:1: no", remedy="do so"), 2),
        (RefusedError("it cannot work"), 2),
        (CellsFailed("cells failed"), 4),
        (MissingTool("docker is not installed", remedy="apt-get install docker.io"), 5),
        (CommandFailed("it failed"), 5),
        (InfrastructureError("a bridge is gone"), 5),
    ],
)
def test_an_error_of_ours_is_said_with_its_remedy_and_ends_with_its_code(
    error: TareError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(commands, "run_study", fail)
    assert main(monkeypatch, "run", "x.yaml") == code
    assert capsys.readouterr().err == f"tare: {error}\n"


def test_what_was_not_foreseen_is_a_sentence_with_5_and_seen_whole_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(commands, "run_study", fail)
    monkeypatch.delenv("TARE_DEBUG", raising=False)
    assert main(monkeypatch, "run", "x.yaml") == 5
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: a bug of ours" in said
    assert "TARE_DEBUG=1" in said
    monkeypatch.setenv("TARE_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["tare", "run", "x.yaml"])
    with pytest.raises(ZeroDivisionError):
        app.main()


def test_an_error_while_ctrl_c_is_undone_ends_with_130_and_names_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("an open handle")

    monkeypatch.setattr(commands, "run_study", interrupted)
    monkeypatch.delenv("TARE_DEBUG", raising=False)
    assert main(monkeypatch, "run", "x.yaml") == 130
    said = capsys.readouterr().err
    assert said.startswith("tare: interrupted; undoing it failed with ValueError: an open handle\n")
    assert "`tare clean`" in said


def test_ctrl_c_is_told_in_a_sentence_and_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_study", interrupted)
    assert main(monkeypatch, "run", "x.yaml") == 130
    assert "interrupted" in capsys.readouterr().err


# --- options arrive -----------------------------------------------------------------------------------------------


def test_options_of_a_run_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(commands, "run_study", lambda *a, **k: seen.append((a, k)) or 0)
    main(monkeypatch, "run", "x.yaml")
    main(monkeypatch, "run", "x.yaml", "-o", "there", "--fresh", "--hosts", "alpha, beta", "--ssh-config", "file")
    main(monkeypatch, "run", "x.yaml", "--cluster", "local", "--rounds", "3", "--at-most", "2")
    hosts = commands.Where(cluster="ssh", hosts=("alpha", "beta"), ssh_config="file")
    local = commands.Where(cluster="local", rounds=3)
    assert seen == [
        ((Path("x.yaml"), None, commands.Where()), {"fresh": False, "most_rounds": None, "live": False}),
        ((Path("x.yaml"), Path("there"), hosts), {"fresh": True, "most_rounds": None, "live": False}),
        ((Path("x.yaml"), None, local), {"fresh": False, "most_rounds": 2, "live": False}),
    ]


def test_the_options_of_the_users_program_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(quick, "run_quick", lambda wanted, results, *, fresh: seen.append(list(wanted.command)) or 0)
    main(monkeypatch, "quick", "-n", "2", "--", "./app", "-n", "5", "--help")
    main(monkeypatch, "quick", "./app", "--rounds", "7")
    assert seen == [["./app", "-n", "5", "--help"], ["./app", "--rounds", "7"]]


def test_the_options_of_a_command_on_a_node_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr(lab_commands, "lab_exec", lambda *a: seen.append(a))
    main(monkeypatch, "lab", "exec", "n0", "--", "ip", "--json", "link")
    assert [(name, node, without_dashes(command)) for name, node, command in seen] == [
        ("lab", "n0", ["ip", "--json", "link"])
    ]
