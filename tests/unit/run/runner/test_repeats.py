"""A program is launched once in the baseline first, and a launch is repeated once for what cannot be adjusted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare.analysis.summary.select import select
from tare.cli import commands, session
from tare.errors import EXIT_CELLS_FAILED, CellsFailed
from tare.model import Completed, Failed, Repetition, Study, Trial, Verdict, Workload
from tare.store.writer import read_only
from unit.runs import CELLS, BreakAfter, known_study, run_with


class Cores:
    """vCPUs that migrate in the middle of the launches with these numbers (None: of all), counted from 0."""

    def __init__(self, migrating: Iterable[int] | None, *, elsewhere: float = 0.5, counting_s: float = 900e-9) -> None:
        self._migrating = None if migrating is None else set(migrating)
        self._elsewhere, self._counting_s = elsewhere, counting_s
        self._launch, self._ended_s = -1, 0.0

    def during(self, begin_s: float, end_s: float) -> dict[str, float]:
        assert begin_s < end_s
        if begin_s > self._ended_s:  # a launch, and no part of one
            self._launch += 1
            self._ended_s = end_s
        migrates = self._migrating is None or self._launch in self._migrating
        elsewhere = self._elsewhere if migrates else 0.0
        return {"core_hand_over_s": 33e-9, "cores_elsewhere": elsewhere, "core_counting_s": self._counting_s}


def ran(cores: Cores, folder: Path, patch: pytest.MonkeyPatch, *, rounds: int = 3, reruns: int = 1) -> list[Trial]:
    patch.setattr("tare.run.runner.watching", lambda site, program: nullcontext(cores))
    stated = replace(known_study(kernels=1), repetition=Repetition(rounds=rounds, max_rounds=rounds, reruns=reruns))
    commands.run_plan(stated, folder)
    return list(read_only(folder).trials)


def test_a_launch_whose_vcpus_migrated_is_repeated_at_the_end_of_its_block_and_both_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = ran(Cores({4}), tmp_path / "r", monkeypatch)
    assert len(trials) == 3 * CELLS + 1
    first, repeat = trials[4], trials[6]
    assert repeat.key == replace(first.key, repeat=1)
    assert (first.position, repeat.position) == (1, CELLS)
    assert first.noise["cores_elsewhere"] == 0.5
    results = read_only(tmp_path / "r")
    for trial in (first, repeat):
        assert trial.outcome.metrics
        assert len(results.columns(trial)["latency:8/max_s"]) == 50
    assert [trial.key.repeat for trial in trials if trial is not repeat] == [0] * (3 * CELLS)
    assert {trial.key.attempt for trial in trials} == {0}


@pytest.mark.parametrize(
    "cores",
    [Cores(None, elsewhere=1.0), Cores(None, elsewhere=0.1), Cores((), counting_s=2e-6)],
    ids=["elsewhere throughout", "a hiccup", "slowed throughout"],
)
def test_a_state_that_can_be_adjusted_for_is_recorded_and_repeats_nothing(
    cores: Cores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = ran(cores, tmp_path / "r", monkeypatch)
    assert len(trials) == 3 * CELLS
    assert all({"core_hand_over_s", "cores_elsewhere", "core_counting_s"} <= set(trial.noise) for trial in trials)


def test_a_metric_has_the_state_of_the_machine_while_it_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Parts(Cores):
        def during(self, begin_s: float, end_s: float) -> dict[str, float]:
            part = begin_s < self._ended_s
            return super().during(begin_s, end_s) | ({"core_counting_s": 5e-6} if part else {})

    trials = ran(Parts(()), tmp_path / "r", monkeypatch, rounds=1)
    for trial in trials:
        assert trial.noise["core_counting_s"] == 900e-9
        assert [metric.noise["core_counting_s"] for metric in trial.outcome.metrics] == [5e-6]


def test_a_launch_is_not_repeated_without_reruns_or_if_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(ran(Cores(None), tmp_path / "r", monkeypatch, reruns=0)) == 3 * CELLS
    monkeypatch.setattr("tare.analysis.summary.disturbance.LONGEST_REPEATED_S", 0.0)
    assert len(ran(Cores(None), tmp_path / "long", monkeypatch)) == 3 * CELLS


def test_vcpus_that_migrate_all_the_time_cost_a_quarter_more_launches_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = ran(Cores(None), tmp_path / "r", monkeypatch, rounds=8)
    assert Counter(trial.key.repeat for trial in trials) == {0: 8 * CELLS, 1: 8 * CELLS // 4}
    assert len({trial.key.round for trial in trials if trial.key.repeat}) > 4, "some are left for later rounds"
    results = read_only(tmp_path / "r")
    chosen = select(results.plan, results.trials)
    assert chosen.rounds_done == 8
    assert sum(trial.key.repeat for own in chosen.trials.values() for trial in own.values()) == 8 * CELLS // 4
    assert session.summary_of(results).headline


def test_repeats_of_earlier_runs_of_a_study_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.run.runner.watching", lambda site, program: nullcontext(Cores(None)))
    stated = known_study(rounds=8, kernels=1)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            run_with(BreakAfter(7, KeyboardInterrupt), stated, tmp_path / "r")
    commands.run_plan(stated, tmp_path / "r")
    trials = read_only(tmp_path / "r").trials
    repeats = sum(trial.key.repeat for trial in trials)
    assert 0 < repeats <= 8 * CELLS // 4
    assert session.summary_of(read_only(tmp_path / "r")).rounds_done == 8


def test_a_block_that_is_ended_before_its_repeats_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.run.runner.watching", lambda site, program: nullcontext(Cores({3})))
    stated = known_study(rounds=2, kernels=1)
    with pytest.raises(KeyboardInterrupt):
        run_with(BreakAfter(2 * CELLS, KeyboardInterrupt), stated, tmp_path / "r")
    commands.run_plan(stated, tmp_path / "r")
    assert [trial.key.repeat for trial in read_only(tmp_path / "r").trials] == [0] * (2 * CELLS)


def noisy(monkeypatch: pytest.MonkeyPatch, **noise: float) -> None:
    """Let every launch be as noisy."""
    monkeypatch.setattr("tare.system.counters.monitor.noise", lambda before, after: dict(noise))


def test_a_launch_beside_other_programs_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noisy(monkeypatch, cores=2.0, background_s=60.0, job_s=0.1, steal_s=0.0, softirq_s=0.0)
    assert len(ran(Cores(()), tmp_path / "r", monkeypatch, rounds=4)) == 4 * CELLS * 5 // 4


def test_the_rule_does_not_look_at_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "exit")
    trials = ran(Cores(None), tmp_path / "r", monkeypatch, rounds=4)
    assert Counter(trial.key.repeat for trial in trials) == {0: 4 * CELLS, 1: CELLS}


def test_a_study_in_which_every_launch_of_one_cell_fails_ends_and_keeps_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "exit@1.5")
    trials = ran(Cores(None), tmp_path / "r", monkeypatch, rounds=6)
    failed = {trial.key.cell for trial in trials if isinstance(trial.outcome, Failed)}
    assert [cell.rsplit(" / ", 1)[1] for cell in failed] == ["fake-slow"]
    assert all(isinstance(trial.outcome, Failed) == (trial.key.cell in failed) for trial in trials)
    assert sum(trial.key.repeat == 0 for trial in trials) == 6 * CELLS
    summary: Any = session.summary_of(read_only(tmp_path / "r"))
    slow = {item.verdict for item in summary.comparisons if item.environment == "fake-slow"}
    assert slow <= {Verdict.INVALID, Verdict.FAILS}
    assert summary.exit_code == 4


def test_a_run_that_ends_by_itself_notes_after_how_many_rounds_it_showed_verdicts(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run_with(BreakAfter(4, KeyboardInterrupt), known_study(rounds=2, kernels=1), folder)
    assert read_only(folder).looks == ()
    commands.run_plan(known_study(rounds=2, kernels=1), folder)
    assert read_only(folder).looks == (2,)
    commands.run_plan(known_study(rounds=2, kernels=1), folder)
    commands.run_plan(known_study(rounds=5, kernels=1), folder)
    assert read_only(folder).looks == (2, 5)


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
