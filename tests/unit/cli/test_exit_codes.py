"""The exit code, the options and the text of a command come through; what others say cannot steer a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import typer.main
from typer.testing import CliRunner

from tare import errors
from tare.cli import app, commands, lab_commands, quick, session
from tare.cli.doctor import command
from tare.cli.options import RunOptions
from tare.errors import CellsFailed, CommandFailed, InfrastructureError, MissingTool, TareError, UsageError
from tare.model import Failed
from tare.model.text import without_dashes
from tare.report.terminal import render_text
from tare.run.progress import Progress
from tare.run.symptoms import recognised
from tare.store.writer import Store
from tare.workloads.failure_reasons import reason_said
from unit.runs import known_study
from unit.summaries import change, make_plan, make_trials


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """Run the command line in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["tare", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        app.main()
    return caught.value.code


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_the_code_that_a_command_returns_is_the_code_of_the_process(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run_study", lambda *_, **__: code)
    monkeypatch.setattr(quick, "run_quick", lambda *_, **__: code)
    monkeypatch.setattr(commands, "show_report", lambda *_, **__: code)
    monkeypatch.setattr(command, "show_doctor", lambda _: code)
    for arguments in (("run", "x.yaml"), ("quick", "--", "./a"), ("report", "x"), ("doctor",)):
        assert main(monkeypatch, *arguments) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StudyError("s.yaml:3:1: no", remedy="do so"), 2),
        (errors.RefusedError("it cannot work"), 2),
        (CellsFailed("cells failed"), 4),
        (MissingTool("docker is not installed", remedy="apt-get install docker.io"), 5),
        (CommandFailed("it failed"), 5),
        (InfrastructureError("a bridge is gone"), 5),
    ],
)
def test_an_error_of_ours_is_said_with_its_remedy_and_ends_with_its_code(
    error: TareError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "run_study", mock.Mock(side_effect=error))
    assert main(monkeypatch, "run", "x.yaml") == code
    assert capsys.readouterr().err == f"tare: {error}\n"


def test_what_fails_where_proc_is_not_mounted_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "run_study", mock.Mock(side_effect=FileNotFoundError("/proc/self/cgroup")))
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).startswith("/proc"))
    assert main(monkeypatch, "run", "x.yaml") == 5
    assert capsys.readouterr().err.startswith("tare: /proc is not mounted here")


def test_what_was_not_foreseen_is_a_sentence_with_5_and_seen_whole_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "run_study", mock.Mock(side_effect=ZeroDivisionError("a bug in tare")))
    monkeypatch.delenv("TARE_DEBUG", raising=False)
    assert main(monkeypatch, "run", "x.yaml") == 5
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: a bug in tare" in said
    assert "TARE_DEBUG=1" in said
    monkeypatch.setenv("TARE_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["tare", "run", "x.yaml"])
    with pytest.raises(ZeroDivisionError):
        app.main()


def test_ctrl_c_ends_with_130_even_if_undo_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "run_study", mock.Mock(side_effect=KeyboardInterrupt))
    assert main(monkeypatch, "run", "x.yaml") == 130
    assert "interrupted" in capsys.readouterr().err

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


def test_options_of_a_run_a_program_and_a_command_on_a_node_reach_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RunOptions] = []
    monkeypatch.setattr(commands, "run_study", lambda asked: seen.append(asked) or 0)
    main(monkeypatch, "run", "x.yaml")
    main(monkeypatch, "run", "x.yaml", "-o", "there", "--fresh", "--hosts", "alpha, beta", "--ssh-config", "file")
    main(monkeypatch, "run", "x.yaml", "--cluster", "local", "--rounds", "3", "--at-most", "2")
    one = Path("x.yaml")
    assert seen == [
        RunOptions(study=one),
        RunOptions(study=one, results=Path("there"), fresh=True, hosts="alpha, beta", ssh_config="file"),
        RunOptions(study=one, cluster="local", rounds=3, at_most=2),
    ]
    assert commands.Where.of(None, "alpha, beta", "file") == commands.Where(
        cluster="ssh", hosts=("alpha", "beta"), ssh_config="file"
    )


def test_the_options_of_a_program_and_of_a_command_on_a_node_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(quick, "run_quick", lambda asked: seen.append(asked.command) or 0)
    main(monkeypatch, "quick", "-n", "2", "--", "./app", "-n", "5", "--help")
    main(monkeypatch, "quick", "./app", "--rounds", "7")
    assert seen == [["./app", "-n", "5", "--help"], ["./app", "--rounds", "7"]]
    executed: list[tuple[object, ...]] = []
    monkeypatch.setattr(lab_commands, "lab_exec", lambda *a: executed.append(a))
    main(monkeypatch, "lab", "exec", "n0", "--", "ip", "--json", "link")
    assert [(name, node, without_dashes(command)) for name, node, command in executed] == [
        ("lab", "n0", ["ip", "--json", "link"])
    ]


STEERING = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"


def test_names_with_markup_or_surrogates_and_the_last_words_of_a_program_are_text(tmp_path: Path) -> None:
    assert reason_said(f"first\n{STEERING}boom\n") == f"{SHOWN}boom"
    rule = "-" * 74
    assert reason_said(f"{rule}\nno {STEERING} there.\n{rule}\n") == f"no {SHOWN} there"
    plan = make_plan("[bold]o[/bold]")
    assert "[bold]o[/bold]" in "".join(render_text(session.summarise(plan, make_trials(plan), {})).split())
    assert recognised("Segmentation fault " * 200_000) == ""
    assert recognised("x" * 100_000 + "Segmentation fault\nin mca_btl_vader.so")
    stated = known_study(rounds=1, kernels=1)
    results = tmp_path / "r"
    plan = session.make_plan(stated)
    with Store.create_or_open(results, plan, {"cpu": "\ud800"}) as store:
        commands._report(store, results / "report.html")
    assert "\\ud800" in (results / "report.html").read_text(encoding="utf-8")


def test_an_error_of_ours_and_the_reason_of_a_trial_that_quote_others_are_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = UsageError(f"docker says {STEERING}", remedy="do\x1b this")
    monkeypatch.setattr(app, "app", mock.Mock(side_effect=error))
    with pytest.raises(SystemExit):
        app.main()
    assert capsys.readouterr().err == f"tare: docker says {SHOWN}\n  do\\x1b this\n"
    plan = session.make_plan(known_study(rounds=1))
    (trial, *_) = make_trials(make_plan("overlay"), 1)
    Progress(plan).trial_ended(replace(trial, outcome=Failed(reason=STEERING)), 1, 2)
    assert SHOWN in capsys.readouterr().err


def test_packages_on_a_file_system_that_runs_nothing_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ImportError("_core.so: failed to map segment from shared object")
    monkeypatch.setattr(app, "app", mock.Mock(side_effect=error))
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert (ended.value.code, "mounted noexec" in capsys.readouterr().err) == (5, True)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_report_of_a_run_shows_reasons_and_names_as_they_are(ascii_only: bool) -> None:
    plan = make_plan("overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason=f"{STEERING}[bold]x[/bold][link=y]z"))
    text = render_text(session.summarise(plan, trials, {"cpu": STEERING}), width=200, ascii_only=ascii_only)
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    assert f"{SHOWN}[bold]x[/bold][link=y]z" in text
    assert f"emulated lab: {SHOWN}" in text


def commands_of(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    yield path, group
    for name, each in getattr(group, "commands", {}).items():
        yield from commands_of(each, (*path, name))


HIDDEN = {("lab", "kubernetes")}
EVERY = list(commands_of(typer.main.get_command(app.app)))


def words(text: str) -> str:
    return re.sub(r"-\s+", "-", " ".join(text.split()))  # lines may end after a hyphen


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(("tare", *path)) for path, _ in EVERY])
def test_every_help_text_is_shown_whole(path: tuple[str, ...], command: object) -> None:
    shown = words(CliRunner().invoke(app.app, [*path, "--help"]).output)
    assert words(str(getattr(command, "help", "")).partition("\f")[0]) in shown
    for name in getattr(command, "commands", {}):
        assert f" {name} " in shown or (*path, name) in HIDDEN
    for parameter in getattr(command, "params", []):
        told = words(str(getattr(parameter, "help", "") or ""))
        default = getattr(parameter, "show_default", None)
        for text in (told, default if isinstance(default, str) else "", str(parameter.metavar or "")):
            assert text in shown, (parameter.name, shown)


@pytest.mark.parametrize("path", [(), ("lab",), ("network",), ("image",)], ids=" ".join)
def test_no_line_of_a_list_of_commands_is_cut(path: tuple[str, ...]) -> None:
    lines = CliRunner().invoke(app.app, [*path, "--help"]).output.partition("Commands:")[2]
    assert lines.count("\n") > 3
    assert "..." not in lines
