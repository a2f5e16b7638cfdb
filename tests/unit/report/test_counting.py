"""Samples become curves whose error is known; other processes that count and draw them give the same report."""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samples_factory as factory
from factory_options import Options
from tare.analysis.summary import summarise
from tare.analysis.summary.select import select
from tare.cli import commands
from tare.errors import ResultsError
from tare.model import Completed, Failed, Interrupted, Trial
from tare.report import render_html
from tare.report.plots.figures import Drawing
from tare.report.samples import counting, drawing
from tare.report.samples.histograms import (
    BIN_RATIO,
    Histograms,
    LogHistogram,
    collect,
    columns_of,
    gap_columns,
    main_column,
)
from tare.store.results import TRIALS, Results, read_only
from tare.store.writer import Store
from unit.summaries import make_plan, make_trials

PLAN = make_plan("overlay", "fast")


@pytest.fixture
def results(tmp_path: Path) -> Results:
    dice = np.random.default_rng(1)
    with Store.create_or_open(tmp_path / "results", PLAN, {}) as store:
        for trial in make_trials(PLAN, 3):
            store.append(trial, {"latency:8/max_s": dice.lognormal(-10, 1, 40)})
    return read_only(tmp_path / "results")


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MANY_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def paired(results: Results) -> list[tuple[str, Trial]]:
    return [(f"row of {trial.key.cell}", trial) for trial in results.trials]


def quantiles(histograms: Histograms) -> dict[tuple[str, str, str], list[float]]:
    return {key: histogram.curve().values_s.tolist() for key, histogram in histograms.items()}


def counted(results: Results) -> Histograms:
    with counting.counting(results.path) as counts_of:
        counts = counts_of(results)
        return counts(one for one in paired(results) if one[1].key.cell == PLAN.cells[0].key) | counts(
            one for one in paired(results) if one[1].key.cell != PLAN.cells[0].key
        )


@pytest.mark.usefixtures("many")
def test_another_process_counts_and_draws_the_same(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = quantiles(collect(results, paired(results)))
    page = drawn_here(results)
    assert len(expected) == len(PLAN.cells)
    assert '"ecdf-' in page
    assert '"order-' in page
    monkeypatch.setattr(counting, "collect", lambda *_: pytest.fail("counted here"))
    assert quantiles(counted(results)) == expected
    monkeypatch.setattr(drawing.GroupPlots, "draw", lambda *_: pytest.fail("drawn here"))
    assert drawn_elsewhere(results) == page


def test_few_samples_are_counted_here(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.process, "beside", lambda *_, **__: pytest.fail("another process"))
    assert quantiles(counted(results)) == quantiles(collect(results, paired(results)))
    with counting.counting(None) as counts_of:
        assert quantiles(counts_of(results)(paired(results))) == quantiles(collect(results, paired(results)))


@pytest.mark.usefixtures("many")
def test_a_damaged_file_is_named_as_without_another_process(results: Results) -> None:
    file = results.path / results.trials[0].samples_file
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ResultsError, match=f"{file.name} is damaged"):
        counted(results)


@pytest.mark.usefixtures("many")
def test_launches_that_a_run_adds_meanwhile_are_counted_here(results: Results) -> None:
    with counting.counting(results.path) as counts_of:
        assert counts_of(results)(paired(results)), "all are counted"
        again = [replace(trial, key=replace(trial.key, attempt=1)) for trial in make_trials(PLAN, 1)]
        with Store.create_or_open(results.path, PLAN) as store:
            for trial in again:
                store.append(trial, {"latency:8/max_s": np.full(40, 1.0)})
        later = read_only(results.path)
        chosen = [(row, trial) for row, trial in paired(later) if select(PLAN, later.trials).counts(trial)]
        assert quantiles(counts_of(later)(chosen)) == quantiles(collect(later, chosen))
        summary = summarise(PLAN, later.trials, {})
        page = render_html(summary, later.trials, later, counts_of(later))
        assert page == render_html(summary, later.trials, later)


def test_the_other_process_counts_the_launches_that_count_here(tmp_path: Path) -> None:
    trials = make_trials(PLAN, 3)
    cells = [cell.key for cell in PLAN.cells]
    trials += [replace(trial, key=replace(trial.key, attempt=1)) for trial in trials if trial.key.round == 1]
    trials += [replace(trial, key=replace(trial.key, attempt=1)) for trial in trials if trial.key.round == 2]
    others = {(2, 1, cells[0]): Interrupted(), (0, 0, cells[1]): Failed(reason="it crashed")}
    with Store.create_or_open(tmp_path / "results", PLAN, {}) as store:
        for trial in trials:
            other = others.get((trial.key.round, trial.key.attempt, trial.key.cell))
            samples = {"latency:8/max_s": np.full(3, 1.0)} if other is None else None
            store.append(replace(trial, outcome=other or trial.outcome), samples)
    results = read_only(tmp_path / "results")
    _, launches = counting.completed_in(results.path)
    assert {cell: [trial.samples_file for trial in own] for cell, own in launches.items()} == {
        cell: [trial.samples_file for trial in chosen.values() if isinstance(trial.outcome, Completed)]
        for cell, chosen in select(PLAN, results.trials).trials.items()
    }
    assert len(launches[cells[1]]) == 2
    assert [trial.key.attempt for trial in launches[cells[2]]] == [0, 1, 0]


def drawn_here(results: Results) -> str:
    return render_html(summarise(PLAN, results.trials, {}), results.trials, results)


def drawn_elsewhere(results: Results) -> str:
    with counting.counting(results.path) as counts_of:
        counts = counts_of(results)
        assert counts(()) == {}, "now all are counted"
        return render_html(summarise(PLAN, results.trials, {}), results.trials, results, counts)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("module", [counting, drawing])
def test_without_the_other_process_samples_are_drawn_here(
    results: Results, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    expected = drawn_here(results)
    monkeypatch.setattr(module, "sys", SimpleNamespace(executable="/bin/false"))
    assert drawn_elsewhere(results) == expected


def test_two_processes_draw_each_group_once(tmp_path: Path) -> None:
    wanted = [SimpleNamespace(row_of=number, draw_samples=lambda histograms: histograms) for number in range(5)]
    counts = SimpleNamespace(read=lambda number: f"plots of {number}")
    first, second = (
        drawing.DrawingTask(folder=tmp_path, counted=tmp_path / "none", digests={}, wanted=wanted) for _ in range(2)
    )
    up, down = first.samples(counts, range(5)), second.samples(counts, reversed(range(5)))
    drawn = [next(up), next(down), next(down), *up, *down]
    assert drawn == [(number, f"plots of {number}") for number in (0, 4, 3, 1, 2)]


@pytest.mark.parametrize("ended", [(0, 0), (0, 1), (1, 0)])
def test_groups_that_the_other_process_has_not_begun_are_drawn_here(tmp_path: Path, ended: tuple[int, int]) -> None:
    class Counted(drawing.DrawingTask):
        def histograms(self) -> nullcontext[SimpleNamespace]:
            return nullcontext(SimpleNamespace(read=lambda number: {"c": [drawn_as(f"samples {number} here")]}))

    wanted = [SimpleNamespace(row_of=number, draw_samples=lambda histograms: histograms) for number in range(3)]
    work = Counted(folder=tmp_path, counted=tmp_path / "none", digests={}, wanted=wanted)
    (tmp_path / "begun-0").touch()

    def drawn_as(text: str) -> Drawing:
        return Drawing(ident="c", title=text, caption="", chart=None)

    file = io.BytesIO()
    for text in (*(f"launches {number}" for number in range(3)), "samples 0 there"):
        drawing._write_plots({"c": [drawn_as(text)]}, file)
    counted, drawn = ended
    found = list(drawing._drawn(work, lambda: counted, lambda: drawn, file, iter(["all here"])))
    if any(ended):
        assert found == ["all here"]
    else:
        assert [one["c"].launches for one in found] == [[drawn_as(f"launches {number}")] for number in range(3)]
        places = ["samples 0 there", "samples 1 here", "samples 2 here"]
        assert [one["c"].samples for one in found] == [[drawn_as(place)] for place in places]


@pytest.mark.parametrize("damaged", [False, True])
def test_the_page_of_a_folder_is_the_same_with_several_processes(
    results: Results, damaged: bool, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if damaged:
        lines = (results.path / TRIALS).read_bytes().splitlines(keepends=True)
        (results.path / TRIALS).write_bytes(b"".join((lines[0], b"{damaged}\n", *lines[2:])))
    page = results.path / "page.html"
    commands.show_report(results.path, page)
    alone, printed = page.read_text(), capsys.readouterr().out
    request.getfixturevalue("many")
    commands.show_report(results.path, page)
    assert page.read_text() == alone
    assert capsys.readouterr().out == printed


@given(st.integers(1, 5000), st.floats(1e-6, 10.0), st.integers(0, 2**31))
def test_every_quantile_is_within_half_a_bin_of_the_exact_one(n: int, scale: float, seed: int) -> None:
    samples = scale * np.random.default_rng(seed).lognormal(0.0, 1.0, n)
    histogram = LogHistogram()
    for part in np.array_split(samples, 3):
        histogram.add(part)
    curve = histogram.curve(240)
    exact = np.quantile(samples, curve.fractions, method="inverted_cdf")
    half_a_bin = np.expm1(BIN_RATIO / 2)  # bins are equal in the logarithm
    assert np.all(np.abs(curve.values_s / exact - 1) <= half_a_bin + 1e-12)
    assert curve.values_s[0] == samples.min()
    assert curve.values_s[-1] == samples.max()
    assert curve.n == n


def test_curves_and_densities_have_the_points_asked_for_and_count_everything() -> None:
    histogram = LogHistogram()
    histogram.add(np.random.default_rng(1).exponential(1e-5, 200_000))
    curve = histogram.curve(240)
    assert curve.values_s.size <= 242
    assert np.all(np.diff(curve.values_s) >= 0)
    histogram = LogHistogram()
    histogram.add(np.array([0.0, -1e-6, 1e9, np.nan, 1e-5]))
    assert histogram.n == 4
    assert histogram.curve().values_s[0] == -1e-6
    histogram.add(np.array([]))
    assert histogram.launches == 1
    rng = np.random.default_rng(2)
    first, second = LogHistogram(), LogHistogram()
    first.add(rng.normal(1e-4, 1e-6, 10_000))
    second.add(rng.normal(1e-4, 5e-6, 10_000))
    bars = [histogram.density(5e-5, 2e-4, 60) for histogram in (first, second)]
    assert np.array_equal(bars[0][0], bars[1][0])
    assert bars[0][0].size <= 61
    assert bars[0][1].sum() == pytest.approx(1.0)


def test_samples_are_read_once_per_trial_and_only_for_trials_that_are_asked_for() -> None:
    result = factory.make(Options(rounds=2, samples=50))
    collect(result.samples, (("row", trial) for trial in result.trials[:5]))
    assert result.samples.asked == [trial.key for trial in result.trials[:5]]


def test_a_metric_finds_its_columns_even_if_two_metrics_share_a_kernel() -> None:
    latency = [("latency:8", "max_s"), ("latency:8", "mean_s")]
    keys = [*latency, ("spacing:8@10", "send_gap_s"), ("spacing:8@10", "receive_gap_s")]
    assert columns_of("latency:8", keys) == ("latency:8", ("max_s", "mean_s"))
    assert columns_of("spacing:8@10.receive", keys) == ("spacing:8@10", ("receive_gap_s",))
    assert columns_of("wall", keys)[1] == ()
    assert main_column(["mean_s", "max_s"]) == "max_s"
    assert gap_columns(["send_gap_s", "max_s", "receive_gap_s"]) == ("receive_gap_s", "send_gap_s")
