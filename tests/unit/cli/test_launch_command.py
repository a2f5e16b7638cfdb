"""`tare launch` ends with the signal that ended the application, and shows what containers cannot be told of."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tare import study
from tare.cli import launch_command, session
from tare.cli.options import LaunchOptions
from tare.model import Plan
from tare.study.plan.cells import expand

TEXT = """
environments: [bare, docker, enroot, sarus]
workloads: {w: {command: [/app]}}
"""


@pytest.fixture
def plan() -> Plan:
    return expand(study.parse(TEXT), lambda *_: None)


@pytest.mark.parametrize(
    ("sent", "status", "expected", "words"),
    [
        ([signal.SIGINT], 1, 130, "the application was ended by SIGINT"),
        ([signal.SIGUSR1, signal.SIGTERM], 1, 143, "the application was ended by SIGTERM"),
        ([signal.SIGTERM], 0, 0, ""),
        ([signal.SIGUSR1], 3, 3, ""),
        ([], 3, 3, ""),
    ],
)
def test_an_application_that_a_signal_ends_gives_its_number_and_one_line(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    sent: list[signal.Signals], status: int, expected: int, words: str,
) -> None:  # fmt: skip
    def attend(*_: object, passed_on: Any, **__: object) -> int:
        for number in sent:
            passed_on(number)
        return status

    up: Any = SimpleNamespace(ended=lambda: None)
    site: Any = SimpleNamespace(adopt=None, pids=set)
    monkeypatch.setattr(launch_command.process, "attend", attend)
    monkeypatch.setattr(launch_command.job, "command_of", lambda *_, **__: SimpleNamespace(argv=(), environment={}))
    monkeypatch.setattr(launch_command.job, "signal_launcher", lambda *_: True)
    cell: Any = plan.cells[0]
    launch: Any = None
    assert launch_command._attended(LaunchOptions(command=["/app"]), cell, launch, Path(), site, up) == expected
    said = capsys.readouterr().err
    assert said == (f"tare: {words}\n" if words else "")


@pytest.mark.parametrize(("name", "expected"), [((), 130), (("SIGTERM",), 143), (("SIGHUP",), 129)])
def test_an_interrupt_before_the_application_is_one_line(
    name: tuple[str, ...], expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch_command, "_run", mock.Mock(side_effect=KeyboardInterrupt(*name)))
    assert launch_command.run_launch(LaunchOptions(command=["sh"])) == expected
    assert capsys.readouterr().err.endswith("before the application started: cleaned up\n")


@pytest.mark.parametrize(
    ("folder", "refused"),
    [("/a b/c", ()), ("/run/12:30", ("enroot",)), ("/a,b", ("sarus",)), ("/a:b,c", ("enroot", "sarus"))],
)
def test_a_runtime_that_cannot_be_told_of_a_folder_is_refused_before_anything_starts(
    plan: Plan, folder: str, refused: tuple[str, ...]
) -> None:
    found = session._undivided(plan, (folder,))
    assert tuple(key.rpartition("/ ")[2] for key in found) == refused
    assert all(f"cannot show {folder}, because its options divide at" in reason for reason in found.values())
    unseen = replace(plan, unavailable=dict.fromkeys(found, "no"))
    assert session._undivided(unseen, (folder,)) == {}
