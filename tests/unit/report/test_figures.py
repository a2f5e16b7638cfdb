"""Plots state what they show and the number of observations, and never connect environments by a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

import samples_factory as factory
from factory_options import ENVIRONMENTS, SELF, SWEEP, Options
from tare.model import Estimate
from tare.report import view
from tare.report.plots import bars, figures, overhead, styles
from tare.report.plots import launches as plots_launches
from tare.report.runs import launches


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=50))


def _drawn(result: factory.Result) -> list[figures.Drawing]:
    group = view.groups(result.summary)[0]
    runs = launches(result.summary, result.trials)
    style = styles.styles(group.rows, result.summary)
    drawn = []
    for column in group.columns:
        drawn.append(overhead.forest(column, group.rows, result.summary))
        points = plots_launches.points(column, group.rows, runs)
        drawn.append(plots_launches.launches(column, group.rows, points, style))
        drawn.append(plots_launches.order(column, points, style))
    return drawn


def test_every_plot_states_n_and_has_a_sentence_as_its_title(result: factory.Result) -> None:
    for figure in _drawn(result):
        assert "n = " in figure.caption
        assert figure.title.endswith(".")


def test_no_line_joins_environments(result: factory.Result) -> None:
    modes = {trace.get("mode", trace["type"]) for figure in _drawn(result) for trace in figure.spec["data"]}
    assert modes == {"markers", "box"}


def test_figures_are_valid_json_without_infinities(result: factory.Result) -> None:
    for figure in _drawn(result):
        json.dumps(figure.spec, allow_nan=False)


def test_the_forest_draws_zero_margin_limit_and_noise_floor(result: factory.Result) -> None:
    forest = _drawn(result)[0]
    shapes = forest.spec["layout"]["shapes"]
    assert [shape["type"] for shape in shapes] == ["rect", "line", "line", "line", "line"]
    assert sorted(shape["x0"] for shape in shapes[1:]) == [-2.0, 0.0, 2.0, 5.0]


def test_the_forest_also_lists_environments_without_a_value(result: factory.Result) -> None:
    texts = {note["y"]: note["text"] for note in _drawn(result)[0].spec["layout"]["annotations"]}
    assert texts["bare+bridge"] == "✗ invalid"
    assert texts["docker+macvlan"] == "– unavailable"
    assert "bare" not in texts


def test_every_counting_launch_is_a_point_and_no_other_is(result: factory.Result) -> None:
    runs = launches(result.summary, result.trials)
    order = _drawn(result)[2]
    assert sum(len(trace["x"]) for trace in order.spec["data"]) == sum(run.completed for run in runs)
    broken = [run for run in runs if run.trial.key.round == 4 and run.trial.key.attempt == 0]
    assert broken
    assert not any(run.counts for run in broken)


def test_the_baseline_and_its_repetition_are_grey_and_colours_stay_with_their_environment() -> None:
    summary = factory.make(Options(rounds=3)).summary
    names = view.groups(summary)[0].rows
    style = styles.styles(names, summary)
    assert style["bare"].colour == styles.BASE_COLOUR
    others = [style[name] for name in names if name not in {summary.baseline, summary.self_name}]
    assert len({look.colour for look in others}) == len(others)
    assert len({look.symbol for look in others}) == len(others)


def _sizes() -> Mapping[str, list[figures.Drawing]]:
    summary = factory.make(Options(shapes=SWEEP, trouble=False, samples=10)).summary
    group = view.groups(summary)[0]
    style = styles.styles(group.rows, summary)
    columns = [column for column in group.columns if column.info.key.startswith("latency")]
    return {
        "absolute": [overhead.by_size(columns, group.rows, style)],
        "overhead": [overhead.overhead_by_size(columns, group.rows, summary, style)],
    }


def test_lines_run_along_the_message_size_one_per_environment() -> None:
    figure = _sizes()["absolute"][0]
    traces: list[dict[str, Any]] = figure.spec["data"]
    assert all(trace["mode"] == "lines+markers" for trace in traces)
    assert all(trace["x"] == sorted(trace["x"]) and len(set(trace["x"])) == 11 for trace in traces)
    assert figure.spec["layout"]["xaxis"]["type"] == "log"
    assert len(traces) == len(ENVIRONMENTS) + 1


def test_overhead_against_size_shows_the_noise_floor_and_leaves_the_baseline_out() -> None:
    names = [trace.get("name") for trace in _sizes()["overhead"][0].spec["data"]]
    assert SELF in names
    assert "bare" not in names


def test_two_metrics_of_one_size_are_not_a_sweep() -> None:
    summary = factory.make(Options(rounds=3)).summary
    sweeps = {view.sweep(info) for info in summary.metrics if info.key.startswith("spacing")}
    assert len(sweeps) == 2


@pytest.mark.parametrize("overhead", [-0.5, -0.02, 0.0, 0.02, 0.6, 26.0])
def test_a_bar_keeps_every_overhead_inside_and_in_order(overhead: float) -> None:
    estimate = Estimate(value=overhead, low=overhead - 0.01, high=overhead + 0.01, n=10)
    scale = bars.Scale.of([estimate], 0.02)
    assert 0 < scale.x(estimate.low) <= scale.x(overhead) <= scale.x(estimate.high) < bars.WIDTH
    assert 0.0 in scale.ticks()
    assert len(scale.ticks()) >= 2 or overhead <= 0.02


@pytest.mark.parametrize("low", [-0.3, -0.12, -0.04])
@pytest.mark.parametrize("high", [0.04, 0.15, 0.35, 0.6, 0.77, 0.95, 2.2, 12.0])
def test_labels_of_neighbouring_ticks_are_apart(low: float, high: float) -> None:
    scale = bars.Scale.of([Estimate(value=0.0, low=low, high=high, n=10)], 0.02)
    labels = [scale.label(tick) for tick in scale.ticks()]
    assert len(labels) >= 2
    gaps = [after.left - before.right for before, after in pairwise(labels)]
    assert min(gaps) >= 8.0
    assert not any(label.text.endswith(".0") for label in labels)


def test_many_fold_costs_are_drawn_on_a_logarithmic_axis() -> None:
    result = factory.make(Options(rounds=4, trouble=False, collapse=26.0))
    group = view.groups(result.summary)[0]
    forest = overhead.forest(group.columns[0], group.rows, result.summary)
    assert forest.spec["layout"]["xaxis"]["type"] == "log"
    assert "×" in forest.title
