"""What goes wrong in a run is data, or is refused before anything runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli import commands, session
from tare.clusters.fake import FakeSite
from tare.errors import InfrastructureError, LabEnded, RefusedError
from tare.model import Completed, Failed, Placement, Repetition, Trial, Verdict
from tare.mpi.launch import PADDING
from tare.networks.fake import FakeNetwork
from tare.run import job, outcome
from tare.store.writer import read_only
from tare.system.process import Result
from unit.runs import CELLS, FAULTS, BreakAfter, known_study, run_with

# --- what goes wrong is data --------------------------------------------------------------------------------------


class FaultAt(BreakAfter):
    """A watcher that lets one trial of a study fail: it sets the fault before that trial and takes it away after."""

    def __init__(self, fault: str, trial: int, patch: pytest.MonkeyPatch) -> None:
        self._fault, self._at, self._patch = fault, trial, patch
        self._ended = 0

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        self._ended += 1
        if self._ended == self._at:
            self._patch.setenv("TARE_FAKE_FAULT", self._fault)
        else:
            self._patch.delenv("TARE_FAKE_FAULT", raising=False)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_its_trial_with_a_clear_reason_and_the_study_goes_on(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = outcome.started

    def limited(*given: object, timeout_s: float, **named: object) -> Result:
        limit_s = timeout_s if "TARE_FAKE_FAULT" in os.environ else None  # the others may take as long as they like
        return started(*given, timeout_s=limit_s, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(outcome, "started", limited)
    stated = known_study(rounds=2, kernels=1, time_limit_s=0.4 if fault == "hang" else 600.0)
    run_with(FaultAt(fault, 4, monkeypatch), stated, tmp_path / "r")
    trials = read_only(tmp_path / "r").trials
    assert len(trials) == 2 * CELLS
    failed = [(i, t) for i, t in enumerate(trials) if not isinstance(t.outcome, Completed)]
    assert [i for i, _ in failed] == [4]
    trial = failed[0][1]
    assert isinstance(trial.outcome, Failed)
    assert FAULTS[fault] in trial.outcome.reason
    assert trial.argv
    assert trial.elapsed_s > 0


def test_a_launch_during_which_the_lab_itself_ends_is_not_stored_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_held(_: FakeSite) -> None:
        if "TARE_FAKE_FAULT" in os.environ:  # the switch is killed while that launch runs, and the launch fails by it
            raise LabEnded("what holds the data switch of the lab was ended by something else")

    monkeypatch.setattr(FakeSite, "check_held", check_held)
    stated = known_study(rounds=2, kernels=1)
    with pytest.raises(LabEnded, match="what holds the data switch of the lab"):
        run_with(FaultAt("exit", 4, monkeypatch), stated, tmp_path / "r")
    monkeypatch.undo()
    assert len(read_only(tmp_path / "r").trials) == 4
    run_with(BreakAfter(10**6), stated, tmp_path / "r")
    trials = read_only(tmp_path / "r").trials
    assert not any(isinstance(trial.outcome, Failed) for trial in trials)
    assert len([trial for trial in trials if isinstance(trial.outcome, Completed)]) >= 2 * CELLS


def test_cells_that_fail_in_every_round_end_the_study_with_4_and_all_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "exit")
    assert commands.run_plan(known_study(rounds=2, kernels=1), tmp_path / "r") == 4
    results = read_only(tmp_path / "r")
    assert len(results.trials) == 2 * CELLS
    assert all(isinstance(t.outcome, Failed) and FAULTS["exit"] in t.outcome.reason for t in results.trials)
    assert {(t.outcome.status, t.outcome.stderr_tail) for t in results.trials} == {(9, "fake rank 1 was killed")}
    compared = session.summary_of(results).comparisons
    assert {item.verdict for item in compared} == {Verdict.INVALID}
    assert all(item.overhead is None and FAULTS["exit"] in item.reason for item in compared)
    said = capsys.readouterr()
    assert FAULTS["exit"] in said.err
    assert "Traceback" not in said.err + said.out
    assert (tmp_path / "r" / "report.html").is_file()


def test_a_launch_that_hangs_is_ended_at_its_limit_in_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "hang")
    monkeypatch.setenv("TARE_TEST", str(tmp_path))
    assert commands.run_plan(known_study(rounds=1, kernels=1, time_limit_s=0.4), tmp_path / "r") == 4
    assert not [entry for entry in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in _variables(entry)]


def _variables(entry: Path) -> bytes:
    with suppress(OSError):
        return (entry / "environ").read_bytes()
    return b""


def test_a_memory_limit_that_was_hit_is_the_reason_whatever_the_launch_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = iter((None, None, "the memory limit of container c on node n0 (64 MiB) was hit"))
    monkeypatch.setattr("tare.agent.upkeep.memory_hit", lambda sides, before: next(hits, None))
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    first, second, *_ = (trial.outcome for trial in read_only(tmp_path / "r").trials)
    assert isinstance(first, Completed)
    assert isinstance(second, Failed)
    assert second.reason == "the memory limit of container c on node n0 (64 MiB) was hit"
    assert second.status == 0


class Attached:
    """Lets the fake network count the pods that are attached, and fail in environments as often as a test says."""

    def __init__(self, patch: pytest.MonkeyPatch, *, fails: int = 0) -> None:
        self.made, self.closed, self.most, self._fails = 0, Counter[str](), 0, fails
        plain = FakeNetwork.attach

        @contextmanager
        def attach(network: FakeNetwork, pod: object, nic: object) -> Iterator[object]:
            if network.name == "fake-slow" and self._fails:
                self._fails -= 1
                raise InfrastructureError("the bridge of n1 is gone", remedy="tare clean")
            with plain(network, pod, nic) as endpoint:  # type: ignore[arg-type]
                self.made += 1
                self.most = max(self.most, self.made - self.closed.total())
                try:
                    yield endpoint
                finally:
                    self.closed[network.name] += 1

        patch.setattr(FakeNetwork, "attach", attach)


def test_pods_that_cannot_be_made_fail_their_cells_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attached = Attached(monkeypatch, fails=99)
    assert commands.run_plan(known_study(rounds=2, kernels=1), tmp_path / "r") == 4
    by_cell: dict[str, set[str]] = {}
    for trial in read_only(tmp_path / "r").trials:
        reason = trial.outcome.reason if isinstance(trial.outcome, Failed) else "completed"
        by_cell.setdefault(trial.key.cell.rsplit(" / ", 1)[1], set()).add(reason)
    failed = {"its pods could not be made: nodes n0, n1: the bridge of n1 is gone"}
    assert by_cell == {"fake": {"completed"}, "fake (A/A)": {"completed"}, "fake-slow": failed}
    assert attached.closed == {"fake": 2 * 2 * 2}  # two environments x two nodes x two rounds


def test_pods_that_failed_in_one_round_are_tried_again_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Attached(monkeypatch, fails=1)
    run_with(BreakAfter(99), known_study(rounds=2, kernels=1), tmp_path / "r")
    assert [t.key.round for t in read_only(tmp_path / "r").trials if not isinstance(t.outcome, Completed)] == [0]


def test_pods_are_made_anew_for_every_round_and_taken_down_also_when_the_tool_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attached = Attached(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_with(BreakAfter(5, KeyboardInterrupt), known_study(rounds=3, kernels=1), tmp_path / "r")
    assert attached.made == attached.closed.total() == 12  # two rounds begun: three environments on two nodes each
    assert attached.most == 6


# --- before anything runs -----------------------------------------------------------------------------------------


def test_a_study_of_which_nothing_can_run_is_refused_with_all_its_reasons(tmp_path: Path) -> None:
    stated = known_study()
    mixed = (replace(stated.environments[0], mpi="openmpi"), replace(stated.environments[1], runtime="bare"))
    with pytest.raises(RefusedError) as caught:
        commands.run_plan(replace(stated, environments=mixed), tmp_path / "r")
    assert "no environment of this study can run here" in str(caught.value)
    assert "can only be combined with each other" in str(caught.value)
    assert not (tmp_path / "r").exists()


def test_a_placement_with_more_ranks_than_cores_is_unavailable_and_the_others_run(tmp_path: Path) -> None:
    stated = known_study(rounds=1, kernels=1)
    stated = replace(stated, placements=(Placement(nodes=2), Placement(nodes=2, ranks_per_node=3)))
    commands.run_plan(stated, tmp_path / "r")
    results = read_only(tmp_path / "r")
    assert len(results.trials) == CELLS
    assert len(results.plan.unavailable) == CELLS
    assert all("cores" in reason for reason in results.plan.unavailable.values())


def test_a_budget_that_is_used_up_ends_the_study_after_the_round(tmp_path: Path) -> None:
    stated = known_study(rounds=5, kernels=1)
    stated = replace(stated, repetition=Repetition(rounds=5, max_rounds=5, budget_s=0.001))
    commands.run_plan(stated, tmp_path / "r")
    assert {trial.key.round for trial in read_only(tmp_path / "r").trials} == {0}


def test_a_study_stops_at_the_first_look_that_is_precise_enough(tmp_path: Path) -> None:
    stated = known_study(kernels=1)
    repetition = Repetition(rounds=5, max_rounds=40, target_half_width=0.5)
    commands.run_plan(replace(stated, repetition=repetition), tmp_path / "r")
    rounds = {trial.key.round for trial in read_only(tmp_path / "r").trials}
    assert 5 <= len(rounds) < 40


def test_padding_is_the_only_variable_of_ours_that_a_launch_gets_beside_its_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []
    plain = job.run

    def spying(argv: tuple[str, ...], **options: object) -> object:
        assert next(iter(options["env"])) == PADDING, "MPICH's Hydra passes the last variable to no rank"  # type: ignore[call-overload]
        seen.append({k: v for k, v in options["env"].items() if k.startswith("TARE_")})  # type: ignore[attr-defined]
        return plain(argv, **options)  # type: ignore[arg-type]

    for name in [n for n in os.environ if n.startswith("TARE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(job, "run", spying)
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    assert [set(variables) for variables in seen] == [{PADDING, "TARE_LAUNCH_MAP"}] * CELLS
    assert len({variables["TARE_LAUNCH_MAP"] for variables in seen}) == CELLS
