"""Samples that other processes count and draw give the same report, and whatever becomes of them, it has them."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tare.errors import ResultsError
from tare.model import Plan, Trial
from tare.report import render_html
from tare.report.samples import Histograms, collect, counting, drawing
from tare.store.results import Results, read_only
from tare.store.writer import Store
from tare.summary import summarise
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
    monkeypatch.setattr(counting, "MANY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def paired(results: Results) -> list[tuple[str, Trial]]:
    return [(f"row of {trial.key.cell}", trial) for trial in results.trials]


def quantiles(histograms: Histograms) -> dict[tuple[str, str, str], list[float]]:
    return {key: histogram.curve().values_s.tolist() for key, histogram in histograms.items()}


def counted(plan: Plan, results: Results) -> Histograms:
    with counting.counting(plan, results.trials, results) as counts:
        halves = paired(results)[::2], paired(results)[1::2]
        return counts(halves[0]) | counts(halves[1])


@pytest.mark.usefixtures("many")
def test_another_process_counts_the_same(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = quantiles(collect(results, paired(results)))
    monkeypatch.setattr(counting, "collect", lambda *_: pytest.fail("counted here"))
    assert len(expected) == len(PLAN.cells)
    assert quantiles(counted(PLAN, results)) == expected


def test_few_samples_are_counted_here(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.process, "beside", lambda *_, **__: pytest.fail("another process"))
    assert quantiles(counted(PLAN, results)) == quantiles(collect(results, paired(results)))


@pytest.mark.usefixtures("many")
def test_without_the_other_process_samples_are_counted_here(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.sys, "executable", "/bin/false")
    assert quantiles(counted(PLAN, results)) == quantiles(collect(results, paired(results)))


@pytest.mark.usefixtures("many")
def test_a_damaged_file_is_named_as_without_another_process(results: Results) -> None:
    file = results.path / results.trials[0].samples_file
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ResultsError, match=f"{file.name} is damaged"):
        counted(PLAN, results)


def drawn_here(results: Results) -> str:
    return render_html(summarise(PLAN, results.trials, {}), results.trials, results)


def drawn_elsewhere(results: Results) -> str:
    with counting.counting(PLAN, results.trials, results) as counts:
        assert counts(()) == {}, "now all are counted"
        return render_html(summarise(PLAN, results.trials, {}), results.trials, results, counts)


@pytest.mark.usefixtures("many")
def test_another_process_draws_the_same(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drawn_here(results)
    assert '"ecdf-' in expected
    monkeypatch.setattr(drawing.Wanted, "draw", lambda *_: pytest.fail("drawn here"))
    assert drawn_elsewhere(results) == expected


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("module", [counting, drawing])
def test_without_the_other_process_samples_are_drawn_here(
    results: Results, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    expected = drawn_here(results)
    monkeypatch.setattr(module, "sys", SimpleNamespace(executable="/bin/false"))
    assert drawn_elsewhere(results) == expected
