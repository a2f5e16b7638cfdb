"""The whole pipeline runs on fakes of known cost: plan, rounds, launches, store, statistics, reports, exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli import commands, session
from tare.model import Completed, Interrupted, Study, Verdict, Workload
from tare.run import outcome, runner
from tare.store.writer import read_only
from tare.study.plan.cells import block_order
from tare.workloads.output import Parsed, Payload
from unit.runs import CELLS, ROUNDS, TRUTH, BreakAfter, Broken, Ran, known_study, run_with

# --- what it costs is what was built in ---------------------------------------------------------------------------


def test_the_overhead_that_was_built_in_is_inside_every_interval_and_none_is_of_the_baseline_itself(whole: Ran) -> None:
    found = [item for item in whole.summary.comparisons if item.environment == "fake-slow"]
    assert {item.metric for item in found} == {
        "latency:8", "latency:65536", "bw:1048576", "barrier", "spacing:8.send", "spacing:8.receive",
    }  # fmt: skip
    for item in found:
        assert item.simultaneous.low <= TRUTH <= item.simultaneous.high, item.metric
        assert item.overhead.n == ROUNDS
        if item.metric.startswith("spacing"):  # a quantile of 50 gaps is known to some ten per cent only
            assert item.verdict is Verdict.NOT_JUDGED
            continue
        assert item.verdict is Verdict.COSTS
        assert item.overhead.high - item.overhead.low < 0.05
    (latency,) = [c for c in whole.summary.comparisons if (c.environment, c.metric) == ("fake-slow", "latency:8")]
    assert latency.added_s.low <= 1.004e-6 <= latency.added_s.high  # half of 2 us + 8 B at 1 GB/s
    assert latency.added_s.value == pytest.approx(1.004e-6, rel=0.05)
    found = [item for item in whole.summary.comparisons if item.environment == "fake (A/A)"]
    assert len(found) == 6
    for item in found:
        assert item.simultaneous.low <= 0 <= item.simultaneous.high, item.metric
        assert item.verdict is (Verdict.NOT_JUDGED if item.metric.startswith("spacing") else Verdict.NOISE_FLOOR)


def test_a_decided_study_ends_with_0_and_its_report_is_printed_stored_and_shown_again(
    whole: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert whole.code == 0
    assert whole.summary.exit_code == 0
    assert " % more time on " in whole.summary.headline
    assert "against fake" in whole.said
    assert "fake (A/A)" in whole.said
    assert "30 completed" in whole.said
    assert f"report: {whole.folder}/report.html" in whole.said.replace("\n", "")
    html = (whole.folder / "report.html").read_text(encoding="utf-8")
    assert html.lower().startswith("<!doctype html>")
    assert "fake-slow" in html
    html = tmp_path / "again.html"
    assert commands.show_report(whole.folder, html) == 0
    assert "fake-slow" in capsys.readouterr().out
    assert html.stat().st_size > 10_000


@pytest.mark.parametrize(("limit", "code"), [(0.2, 1), (0.9, 0)])
def test_a_cost_beyond_the_stated_limit_ends_with_1(limit: float, code: int, tmp_path: Path) -> None:
    stated = replace(known_study(rounds=7, kernels=1), limit=limit)
    assert commands.run_plan(stated, tmp_path / "r") == code


# --- what is stored and shown -------------------------------------------------------------------------------------


def test_every_cell_has_one_trial_a_round_in_the_order_that_was_drawn_for_its_block(whole: Ran) -> None:
    keys = Counter((t.key.cell, t.key.round, t.key.block, t.key.attempt) for t in whole.trials)
    assert len(keys) == CELLS * ROUNDS
    assert set(keys.values()) == {1}
    assert all(isinstance(trial.outcome, Completed) for trial in whole.trials)
    plan = read_only(whole.folder).plan
    for round_ in range(ROUNDS):
        ran = [t for t in whole.trials if t.key.round == round_]
        assert tuple(t.key.cell for t in ran) == block_order(plan, round_, 0, 0)
        assert [t.position for t in ran] == [0, 1, 2]
    assert len({block_order(plan, round_, 0, 0) for round_ in range(ROUNDS)}) > 1


def test_a_trial_keeps_its_argv_its_ranks_its_samples_its_padding_and_what_start_up_took(whole: Ran) -> None:
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
    paddings = [trial.counters["environment_padding_bytes"] for trial in whole.trials]
    assert len(set(paddings)) > len(paddings) // 2
    assert 0 <= min(paddings) <= max(paddings) < runner.PADDING_LIMIT


def test_start_up_is_what_a_launch_took_beside_the_measured_section() -> None:
    parsed = Parsed(metrics=(), ranks=(), payload=Payload(), mpi_library="", init_s=0.2, measured_s=0.4)
    assert outcome.startup(3.0, 1.0, parsed) == pytest.approx({"pods_s": 3.0, "mpi_init_s": 0.2, "launch_s": 0.6})
    assert outcome.startup(3.0, 1.0, None) == {"pods_s": 3.0}


# --- going on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "error"), [(1, Broken), (4, KeyboardInterrupt), (5, Broken), (6, KeyboardInterrupt), (8, Broken)]
)
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
    assert ("1 interrupted block to run again" in said) == bool(trials % CELLS)


def test_a_finished_study_runs_nothing_again_but_the_rounds_that_are_asked_for_later(tmp_path: Path) -> None:
    stated, folder = known_study(rounds=2, kernels=1), tmp_path / "r"
    commands.run_plan(stated, folder)
    before = (folder / "trials.jsonl").read_bytes()
    run_with(BreakAfter(1), stated, folder)  # would raise at the first trial
    assert (folder / "trials.jsonl").read_bytes() == before
    commands.run_plan(known_study(rounds=3, kernels=1), folder)
    assert (folder / "trials.jsonl").read_bytes().startswith(before)
    assert Counter(t.key.round for t in read_only(folder).trials) == {0: 3, 1: 3, 2: 3}


def test_a_fresh_run_sets_earlier_results_aside(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    commands.run_plan(known_study(rounds=1, kernels=1), folder)
    commands.run_plan(known_study(rounds=1, kernels=2), folder, fresh=True)
    assert len(read_only(folder).plan.cells[0].workload.kernels) == 2
    assert len([p for p in tmp_path.iterdir() if p.name.startswith("r.previous")]) == 1


def with_miniapp(rounds: int) -> Study:
    return replace(known_study(rounds=rounds), workloads=(Workload(name="cg", miniapp="npb-cg:class=S"),))


def test_a_mini_application_is_compared_by_its_time_and_read_as_a_rate(tmp_path: Path) -> None:
    assert commands.run_plan(with_miniapp(7), tmp_path / "r") == 0
    results = read_only(tmp_path / "r")
    summary = session.summary_of(results)
    (info,) = summary.metrics
    assert (info.label, info.rate_unit) == ("npb-cg S", "op/s")
    (found,) = [item for item in summary.comparisons if item.environment == "fake-slow"]
    assert found.simultaneous.low <= TRUTH <= found.simultaneous.high
    assert "more time on npb-cg S" in summary.headline
    assert all(
        [figure.key for figure in trial.outcome.figures] == ["pairs", "messages sent", "mean message"]
        for trial in results.trials
        if isinstance(trial.outcome, Completed)
    )


def test_a_mini_application_with_a_wrong_result_fails_with_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_FAKE_FAULT", "wrong")
    commands.run_plan(with_miniapp(1), tmp_path / "r")
    reasons = {getattr(trial.outcome, "reason", "") for trial in read_only(tmp_path / "r").trials}
    assert reasons == {"wrong data in sum of npb-cg S (2 where 1 is expected, within 1e-08)"}
