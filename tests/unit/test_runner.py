"""The whole pipeline runs on fakes of known cost: plan, rounds, launches, store, statistics, reports, exit code."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tare import commands, runner, session, study
from tare.errors import InfrastructureError, RefusedError, ResultsError
from tare.known import registered
from tare.launch import PADDING
from tare.model import (
    Completed,
    Environment,
    Failed,
    Interrupted,
    KernelSpec,
    LabSpec,
    Placement,
    Repetition,
    Study,
    Summary,
    Trial,
    Verdict,
    Workload,
)
from tare.networks.fake import FakeNetwork
from tare.plan import block_order
from tare.process import Result
from tare.store import Store, read_only
from tare.workloads.output import Parsed, Payload

TRUTH = 0.5
CELLS = 3
ROUNDS = 10
FAULTS = {
    "exit": "it ended with status 9: fake rank 1 was killed",
    "hang": "it did not end within its time limit of 0.4 s",
    "garbage": "is broken: @tare {not json",
    "cut": "the output is cut off: its end record is missing",
    "wrong": "wrong data in latency:bytes=8",
}


def known_study(*, rounds: int = ROUNDS, time_limit_s: float = 20.0, kernels: int = 5) -> Study:
    return Study(
        name="known",
        cluster="fake",
        lab=LabSpec(nodes=2, cores_per_node=1),
        baseline="fake",
        environments=(
            Environment(name="fake", runtime="fake", network="fake", mpi="fake"),
            Environment(name="fake-slow", runtime="fake", network="fake-slow", mpi="fake"),
        ),
        placements=(Placement(nodes=2, ranks_per_node=1),),
        workloads=(
            Workload(
                name="micro",
                kernels=(
                    KernelSpec(kernel="latency", message_bytes=8),
                    KernelSpec(kernel="latency", message_bytes=64 << 10),
                    KernelSpec(kernel="bw", message_bytes=1 << 20),
                    KernelSpec(kernel="barrier"),
                    KernelSpec(kernel="spacing"),
                )[:kernels],
                time_limit_s=time_limit_s,
            ),
        ),
        repetition=Repetition(rounds=rounds, max_rounds=rounds),
    )


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep leftovers of other runs on this machine out of the way: here nothing of ours is to be found or removed."""
    monkeypatch.setattr("tare.clean.hierarchies", lambda: ())
    monkeypatch.setattr("tare.clean.run_folder", lambda: tmp_path / "run")
    monkeypatch.setattr("tare.clean._holder_of", lambda entry: None)
    monkeypatch.delenv("TARE_FAKE_FAULT", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    folder: Path
    code: int
    elapsed_s: float
    said: str

    @property
    def summary(self) -> Summary:
        return session.summary_of(read_only(self.folder))

    @property
    def trials(self) -> list[Trial]:
        return list(read_only(self.folder).trials)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Run the study once for all tests that only look at its results."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tare.clean.hierarchies", lambda: ())
        patch.setattr("tare.clean.run_folder", lambda: folder.parent / "run")
        patch.setattr("tare.clean._holder_of", lambda entry: None)
        patch.setenv("COLUMNS", "100")
        started = time.monotonic()
        with _printed() as said:
            code = commands.run_plan(known_study(), folder)
        yield Ran(folder=folder, code=code, elapsed_s=time.monotonic() - started, said=said())


@contextmanager
def _printed() -> Iterator[Callable[[], str]]:
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        yield text.getvalue


# --- what it costs is what was built in ---------------------------------------------------------------------------


def test_the_overhead_that_was_built_in_is_inside_every_interval(whole: Ran) -> None:
    found = [item for item in whole.summary.comparisons if item.environment == "fake-slow"]
    assert {item.metric for item in found} == {
        "latency:8", "latency:65536", "bw:1048576", "barrier", "spacing:8.send", "spacing:8.receive",
    }  # fmt: skip
    for item in found:
        assert item.overhead is not None
        assert item.simultaneous is not None
        assert item.simultaneous.low <= TRUTH <= item.simultaneous.high, item.metric
        assert (item.verdict, item.overhead.n) == (Verdict.COSTS, ROUNDS)
        if not item.metric.startswith("spacing"):  # a quantile of 50 gaps is known to some ten per cent only
            assert item.overhead.high - item.overhead.low < 0.05


def test_the_added_time_of_the_latency_is_the_known_one(whole: Ran) -> None:
    (latency,) = [c for c in whole.summary.comparisons if (c.environment, c.metric) == ("fake-slow", "latency:8")]
    assert latency.added_s is not None
    assert latency.added_s.low <= 1.004e-6 <= latency.added_s.high  # half of 2 us + 8 B at 1 GB/s
    assert latency.added_s.value == pytest.approx(1.004e-6, rel=0.05)


def test_the_baseline_compared_with_itself_costs_nothing(whole: Ran) -> None:
    found = [item for item in whole.summary.comparisons if item.environment == "fake (A/A)"]
    assert len(found) == 6
    for item in found:
        assert item.simultaneous is not None
        assert item.simultaneous.low <= 0 <= item.simultaneous.high, item.metric
        assert item.verdict is Verdict.NOISE_FLOOR


def test_a_study_without_a_limit_that_is_decided_ends_with_0(whole: Ran) -> None:
    assert whole.code == 0
    assert whole.summary.exit_code == 0
    assert "fake-slow adds" in whole.summary.headline


@pytest.mark.parametrize(("limit", "code"), [(0.2, 1), (0.9, 0)])
def test_a_cost_beyond_the_stated_limit_ends_with_1(limit: float, code: int, tmp_path: Path) -> None:
    stated = replace(known_study(rounds=7, kernels=1), limit=limit)
    assert commands.run_plan(stated, tmp_path / "r") == code


def test_too_few_rounds_for_a_verdict_end_with_3(tmp_path: Path) -> None:
    assert commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r") == 3


def test_thirty_launches_take_a_few_seconds(whole: Ran) -> None:
    assert whole.elapsed_s < 15  # 2.5 s on two cores that do nothing else


# --- what is stored and shown -------------------------------------------------------------------------------------


def test_every_cell_has_one_trial_a_round_and_all_are_completed(whole: Ran) -> None:
    keys = Counter((t.key.cell, t.key.round, t.key.block, t.key.attempt) for t in whole.trials)
    assert len(keys) == CELLS * ROUNDS
    assert set(keys.values()) == {1}
    assert all(isinstance(trial.outcome, Completed) for trial in whole.trials)


def test_a_block_is_run_in_the_order_that_was_drawn_for_it(whole: Ran) -> None:
    plan = read_only(whole.folder).plan
    for round_ in range(ROUNDS):
        ran = [t for t in whole.trials if t.key.round == round_]
        assert tuple(t.key.cell for t in ran) == block_order(plan, round_, 0, 0)
        assert [t.position for t in ran] == [0, 1, 2]
    assert len({block_order(plan, round_, 0, 0) for round_ in range(ROUNDS)}) > 1


def test_a_trial_keeps_its_argv_its_ranks_its_samples_and_what_start_up_took(whole: Ran) -> None:
    results = read_only(whole.folder)
    for trial in results.trials:
        assert any(token.endswith("fake_program.py") for token in trial.argv)
        assert [place.hostname for place in trial.ranks] == ["n0", "n1"]
        assert trial.startup_s["mpi_init_s"] == 0.001
        assert 0 <= trial.startup_s["launch_s"] <= trial.elapsed_s
        assert trial.mpi_library == "fake MPI 1"
        columns = results.columns(trial)
        assert {"latency:8/max_s", "spacing:8/send_gap_s"} <= set(columns)
        assert all(len(values) == 50 for values in columns.values())


def test_start_up_is_what_a_launch_took_beside_the_measured_section() -> None:
    result = Result(argv=(), status=0, stdout="", stderr="", elapsed_s=1.0)
    parsed = Parsed(metrics=(), ranks=(), payload=Payload(), mpi_library="", init_s=0.2, measured_s=0.4)
    assert runner.startup(result, parsed) == pytest.approx({"mpi_init_s": 0.2, "launch_s": 0.6})
    assert runner.startup(result, None) == {}


def test_the_size_of_the_environment_varies_from_trial_to_trial_and_is_recorded(whole: Ran) -> None:
    paddings = [trial.counters["environment_padding_bytes"] for trial in whole.trials]
    assert len(set(paddings)) > len(paddings) // 2
    assert 0 <= min(paddings) <= max(paddings) < runner.PADDING_LIMIT


def test_tables_are_printed_and_the_html_report_stands_in_the_folder(whole: Ran) -> None:
    assert "against fake" in whole.said
    assert "fake (A/A)" in whole.said
    assert "30 completed" in whole.said
    assert f"report: {whole.folder}/report.html" in whole.said.replace("\n", "")
    html = (whole.folder / "report.html").read_text(encoding="utf-8")
    assert html.lower().startswith("<!doctype html>")
    assert "fake-slow" in html


def test_the_report_of_a_folder_is_shown_again_with_the_same_exit_code(
    whole: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "again.html"
    assert commands.show_report(whole.folder, html) == 0
    assert "fake-slow" in capsys.readouterr().out
    assert html.stat().st_size > 10_000


def test_the_same_study_run_again_gives_the_same_figures(whole: Ran, tmp_path: Path) -> None:
    commands.run_plan(known_study(rounds=2), tmp_path / "again")
    again = [t.outcome for t in read_only(tmp_path / "again").trials]
    assert again == [t.outcome for t in whole.trials if t.key.round < 2]


def test_a_study_file_can_state_the_fakes(tmp_path: Path) -> None:
    text = """
    name: known
    cluster: {fake: {nodes: 2, cores_per_node: 1}}
    environments:
      fake: {runtime: fake, network: fake, mpi: fake}
      fake-slow: {runtime: fake, network: fake-slow, mpi: fake}
    placements: [{nodes: 2, ranks_per_node: 1}]
    workloads: {micro: {kernels: [latency: 8B]}}
    repetition: {rounds: 3, max_rounds: 3}
    """
    stated = study.parse(text, known=registered())
    assert commands.run_plan(stated, tmp_path / "r") in {0, 3}
    assert len(read_only(tmp_path / "r").trials) == 9


# --- going on -----------------------------------------------------------------------------------------------------


class Broken(Exception):
    """What ends the tool in the middle."""


class BreakAfter:
    """A watcher that raises when so many trials have ended."""

    def __init__(self, trials: int, error: type[BaseException] = Broken) -> None:
        self._left, self._error = trials, error

    def round_started(self, number: int, attempt: int) -> None:
        pass

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        self._left -= 1
        if self._left == 0:
            raise self._error


def run_with(watcher: runner.Watcher, stated: Study, folder: Path) -> None:
    plan = session.make_plan(stated)
    files = session.make_files(plan, lambda text: None)
    with Store.create_or_open(folder, plan, session.facts(plan, files)) as store:
        session.execute(plan, store, files, watcher)


@pytest.mark.parametrize("trials", [1, 4, 5, 6, 8])
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_a_study_that_was_ended_in_the_middle_goes_on_and_every_block_counts_once(
    trials: int, error: type[BaseException], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stated, folder = known_study(rounds=3, kernels=1), tmp_path / "r"
    with pytest.raises(error):
        run_with(BreakAfter(trials, error), stated, folder)
    assert len(read_only(folder).trials) == trials
    commands.run_plan(stated, folder)
    results = read_only(folder)
    lines = Counter((t.key.cell, t.key.round, t.key.attempt) for t in results.trials)
    assert set(lines.values()) == {1}
    whole = Counter((t.key.round, t.key.attempt) for t in results.trials if not isinstance(t.outcome, Interrupted))
    assert sum(count == CELLS for count in whole.values()) == 3
    assert session.summary_of(results).rounds_done == 3
    marked = {(t.key.round, t.key.attempt) for t in results.trials if isinstance(t.outcome, Interrupted)}
    assert marked == ({(trials // CELLS, 0)} if trials % CELLS else set())
    said = capsys.readouterr().err
    assert ("1 interrupted block(s) are run again" in said) == bool(trials % CELLS)


def test_a_study_that_is_finished_runs_nothing_again(tmp_path: Path) -> None:
    stated, folder = known_study(rounds=2, kernels=1), tmp_path / "r"
    commands.run_plan(stated, folder)
    before = (folder / "trials.jsonl").read_bytes()
    run_with(BreakAfter(1), stated, folder)  # would raise at the first trial
    assert (folder / "trials.jsonl").read_bytes() == before


def test_more_rounds_may_be_asked_for_later_and_only_they_are_run(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    commands.run_plan(known_study(rounds=2, kernels=1), folder)
    early = (folder / "trials.jsonl").read_bytes()
    commands.run_plan(known_study(rounds=3, kernels=1), folder)
    assert (folder / "trials.jsonl").read_bytes().startswith(early)
    assert Counter(t.key.round for t in read_only(folder).trials) == {0: 3, 1: 3, 2: 3}


def test_another_study_in_the_folder_is_refused_and_nothing_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    commands.run_plan(known_study(rounds=1, kernels=1), folder)
    before = (folder / "trials.jsonl").read_bytes()
    with pytest.raises(ResultsError) as caught:
        commands.run_plan(known_study(rounds=1, kernels=2), folder)
    assert str(folder) in str(caught.value)
    assert (folder / "trials.jsonl").read_bytes() == before


def test_a_fresh_run_sets_earlier_results_aside(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    commands.run_plan(known_study(rounds=1, kernels=1), folder)
    commands.run_plan(known_study(rounds=1, kernels=2), folder, fresh=True)
    assert len(read_only(folder).plan.cells[0].workload.kernels) == 2
    assert len([p for p in tmp_path.iterdir() if p.name.startswith("r.previous")]) == 1


# --- what goes wrong is data --------------------------------------------------------------------------------------


class FaultAt:
    """A watcher that lets one trial of a study fail: it sets the fault before that trial and takes it away after."""

    def __init__(self, fault: str, trial: int, patch: pytest.MonkeyPatch) -> None:
        self._fault, self._at, self._patch = fault, trial, patch
        self._ended = 0

    def round_started(self, number: int, attempt: int) -> None:
        pass

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
    stated = known_study(rounds=3, kernels=1, time_limit_s=0.4 if fault == "hang" else 20.0)
    run_with(FaultAt(fault, 4, monkeypatch), stated, tmp_path / "r")
    trials = read_only(tmp_path / "r").trials
    assert len(trials) == 9
    failed = [(i, t) for i, t in enumerate(trials) if not isinstance(t.outcome, Completed)]
    assert [i for i, _ in failed] == [4]
    trial = failed[0][1]
    assert isinstance(trial.outcome, Failed)
    assert FAULTS[fault] in trial.outcome.reason
    assert trial.argv
    assert trial.elapsed_s > 0


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "hang"])
def test_cells_that_fail_in_every_round_end_the_study_with_4_and_all_were_tried(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", fault)
    assert commands.run_plan(known_study(rounds=2, kernels=1), tmp_path / "r") == 4
    results = read_only(tmp_path / "r")
    assert len(results.trials) == 2 * CELLS
    assert all(isinstance(t.outcome, Failed) and FAULTS[fault] in t.outcome.reason for t in results.trials)
    compared = session.summary_of(results).comparisons
    assert {item.verdict for item in compared} == {Verdict.INVALID}
    assert all(item.overhead is None and FAULTS[fault] in item.reason for item in compared)
    said = capsys.readouterr()
    assert FAULTS[fault] in said.err
    assert "Traceback" not in said.err + said.out
    assert (tmp_path / "r" / "report.html").is_file()


def test_a_launch_that_hangs_is_ended_at_its_limit_in_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "hang")
    started = time.monotonic()
    code = commands.run_plan(known_study(rounds=1, kernels=1, time_limit_s=0.4), tmp_path / "r")
    assert code == 4
    assert time.monotonic() - started < 20
    assert not _fake_programs()


def _fake_programs() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if any(word.endswith(b"fake_program.py") for word in words) and int(parent) in (1, os.getpid()):
                found.append(int(entry.name))
    return found


def test_a_failed_launch_keeps_its_status_and_the_end_of_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "exit")
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    outcome = read_only(tmp_path / "r").trials[0].outcome
    assert isinstance(outcome, Failed)
    assert (outcome.status, outcome.stderr_tail) == (9, "fake rank 1 was killed")


def test_pods_that_cannot_be_made_fail_their_cells_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FakeNetwork.attach
    closed: list[str] = []

    @contextmanager
    def attach(self: FakeNetwork, pod: object, nic: object) -> Iterator[object]:
        if self.name == "fake-slow":
            raise InfrastructureError("the bridge of n1 is gone", remedy="tare clean")
        with plain(self, pod, nic) as endpoint:  # type: ignore[arg-type]
            try:
                yield endpoint
            finally:
                closed.append(self.name)

    monkeypatch.setattr(FakeNetwork, "attach", attach)
    assert commands.run_plan(known_study(rounds=2, kernels=1), tmp_path / "r") == 4
    by_cell: dict[str, set[str]] = {}
    for trial in read_only(tmp_path / "r").trials:
        reason = trial.outcome.reason if isinstance(trial.outcome, Failed) else "completed"
        by_cell.setdefault(trial.key.cell.rsplit(" / ", 1)[1], set()).add(reason)
    assert by_cell == {
        "fake": {"completed"},
        "fake (A/A)": {"completed"},
        "fake-slow": {"its pods could not be made: the bridge of n1 is gone"},
    }
    assert Counter(closed) == {"fake": 2 * 2 * 2}  # two environments x two nodes x two rounds


def test_pods_that_failed_in_one_round_are_tried_again_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, failures = FakeNetwork.attach, [True]

    @contextmanager
    def attach(self: FakeNetwork, pod: object, nic: object) -> Iterator[object]:
        if self.name == "fake-slow" and failures:
            failures.clear()
            raise InfrastructureError("for once")
        with plain(self, pod, nic) as endpoint:  # type: ignore[arg-type]
            yield endpoint

    monkeypatch.setattr(FakeNetwork, "attach", attach)
    run_with(BreakAfter(99), known_study(rounds=2, kernels=1), tmp_path / "r")
    failed = [t.key.round for t in read_only(tmp_path / "r").trials if not isinstance(t.outcome, Completed)]
    assert failed == [0]


def test_pods_are_made_anew_for_every_round_and_taken_down_also_when_the_tool_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, up = FakeNetwork.attach, Counter[str]()
    most = 0

    @contextmanager
    def attach(self: FakeNetwork, pod: object, nic: object) -> Iterator[object]:
        nonlocal most
        with plain(self, pod, nic) as endpoint:  # type: ignore[arg-type]
            up["made"] += 1
            most = max(most, up["made"] - up["taken down"])
            try:
                yield endpoint
            finally:
                up["taken down"] += 1

    monkeypatch.setattr(FakeNetwork, "attach", attach)
    with pytest.raises(KeyboardInterrupt):
        run_with(BreakAfter(5, KeyboardInterrupt), known_study(rounds=3, kernels=1), tmp_path / "r")
    assert up == {"made": 12, "taken down": 12}  # two rounds were begun: three environments on two nodes each
    assert most == 6


# --- before anything runs -----------------------------------------------------------------------------------------


def test_a_study_of_which_nothing_can_run_is_refused_with_all_its_reasons(tmp_path: Path) -> None:
    stated = known_study()
    mixed = (replace(stated.environments[0], mpi="openmpi"), replace(stated.environments[1], runtime="bare"))
    with pytest.raises(RefusedError) as caught:
        commands.run_plan(replace(stated, environments=mixed), tmp_path / "r")
    assert "no cell of this study can run here" in str(caught.value)
    assert "go with each other only" in str(caught.value)
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
    plain = runner.run

    def spying(argv: tuple[str, ...], **options: object) -> object:
        seen.append({k: v for k, v in options["env"].items() if k.startswith("TARE_")})  # type: ignore[attr-defined]
        return plain(argv, **options)  # type: ignore[arg-type]

    for name in [n for n in os.environ if n.startswith("TARE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(runner, "run", spying)
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    assert [set(variables) for variables in seen] == [{PADDING, "TARE_LAUNCH_MAP"}] * CELLS
    assert len({variables["TARE_LAUNCH_MAP"] for variables in seen}) == CELLS


def test_trials_are_lines_of_json_that_stand_alone(whole: Ran) -> None:
    lines = (whole.folder / "trials.jsonl").read_text().splitlines()
    assert len(lines) == CELLS * ROUNDS
    assert all(isinstance(json.loads(line), dict) for line in lines)
