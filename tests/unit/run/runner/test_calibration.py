"""A program is launched once in the baseline first: one that does not run there ends the study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli import commands
from tare.errors import EXIT_CELLS_FAILED, CellsFailed
from tare.model import Completed, Study, Workload
from tare.store.writer import read_only
from unit.runs import CELLS, BreakAfter, known_study, run_with


def with_program(*, rounds: int = 2, time_limit_s: float = 600.0) -> Study:
    app = Workload(name="app", command=("/bin/true", "--size", "9"), time_limit_s=time_limit_s)
    return replace(known_study(rounds=rounds), workloads=(app,))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit", "it ended with status 9: fake rank 1 was killed"),
        ("hang", "it did not end within its time limit of 0.4 s"),
        ("mute", "without MPI_Init and MPI_Finalize: it is not an MPI program"),
        ("cut", "the output is cut off"),
    ],
)
def test_a_program_that_does_not_run_in_the_baseline_ends_the_study_after_one_launch(
    fault: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", fault)
    with pytest.raises(CellsFailed) as caught:
        commands.run_plan(with_program(rounds=40, time_limit_s=0.4 if fault == "hang" else 600.0), tmp_path / "r")
    assert caught.value.exit_code == EXIT_CELLS_FAILED
    assert caught.value.message.startswith("app does not run in the baseline (fake), so nothing was compared: ")
    assert reason in caught.value.message
    assert read_only(tmp_path / "r").trials == []


def test_a_program_that_fails_in_one_environment_only_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "exit@1.5")
    assert commands.run_plan(with_program(), tmp_path / "r") == EXIT_CELLS_FAILED
    assert len(read_only(tmp_path / "r").trials) == 2 * CELLS


def test_the_first_launch_of_a_program_is_no_trial_and_tells_how_long_one_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.run_plan(with_program(), tmp_path / "r")
    trials = read_only(tmp_path / "r").trials
    assert len(trials) == 2 * CELLS
    assert all(isinstance(trial.outcome, Completed) for trial in trials)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("app: one launch in fake takes ")]
    assert len(lines) == 1


def test_a_program_that_has_run_in_the_baseline_is_not_launched_first_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_with(BreakAfter(CELLS, KeyboardInterrupt), with_program(), tmp_path / "r")
    commands.run_plan(with_program(), tmp_path / "r")
    assert "one launch in" not in capsys.readouterr().err


def test_kernels_need_no_first_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    assert "one launch in" not in capsys.readouterr().err
