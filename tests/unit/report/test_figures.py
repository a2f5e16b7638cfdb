"""Plots state what they show and the number of observations, and never connect environments by a line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import samples_factory as factory
from factory_options import ENVIRONMENTS, SELF, SWEEP, Options
from tare.model import Estimate
from tare.report import view
from tare.report.plots import bars, figures, overhead, styles
from tare.report.plots import launches as plots_launches
from tare.report.plots.charts import Area, Band, Box, Chart, Dots, Line, Ranges, Rule, linear_axis, log_axis, row_axis
from tare.report.plots.svg import svg, svg_file
from tare.report.runs import launches

_SUMMARY = factory.make(Options(rounds=3, samples=10)).summary


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
        drawn.append(plots_launches.launches(column, points, style))
        drawn.append(plots_launches.order(column, points, style))
    return drawn


def _chart(figure: figures.Drawing) -> Chart:
    assert figure.chart is not None
    return figure.chart


def test_every_plot_states_n_and_has_a_sentence_as_its_title(result: factory.Result) -> None:
    for figure in _drawn(result):
        assert "n = " in figure.caption
        assert figure.title.endswith(".")


def test_no_line_joins_environments(result: factory.Result) -> None:
    kinds = {type(mark) for figure in _drawn(result) for mark in _chart(figure).marks}
    assert kinds == {Band, Rule, Ranges, Dots, Box}


def test_figures_are_valid_svg_also_with_infinite_intervals(result: factory.Result) -> None:
    comparisons = tuple(
        replace(item, overhead=replace(item.overhead, low=-math.inf, high=math.inf)) if item.overhead else item
        for item in result.summary.comparisons
    )
    infinite = replace(result, summary=replace(result.summary, comparisons=comparisons))
    for figure in (*_drawn(result), *_drawn(infinite)):
        for text in (figure.drawn().svg, svg_file(figure.drawn().svg)):
            assert not re.search(r"nan|inf[^o]", text.split("</desc>")[1], re.IGNORECASE)
            ElementTree.fromstring(text)


def test_every_figure_has_a_title_and_a_description_for_those_who_do_not_see_it(result: factory.Result) -> None:
    for figure in _drawn(result):
        drawn = ElementTree.fromstring(figure.drawn().svg)
        texts = {part.get("id"): part.text for part in drawn if part.tag in {"title", "desc"}}
        assert drawn.get("role") == "img"
        assert [texts[ident] for ident in drawn.attrib["aria-labelledby"].split()] == [figure.title, figure.caption]


def test_text_in_a_figure_is_escaped_and_cut(result: factory.Result) -> None:
    evil = "<script>alert(1)</script>" * 9
    chart = Chart(
        height=100, x=linear_axis(0, 1, evil), y=row_axis([evil]), row_texts=((0, evil),), legend=True,
        marks=(Dots(x=[0.5], y=[0], colour="#000", texts=(evil,), name=evil),),
    )  # fmt: skip
    drawn = svg(chart, evil, evil, evil)
    assert "<script" not in drawn
    labels = [part.text or "" for part in ElementTree.fromstring(drawn).iter("text")]
    assert max(map(len, labels)) == len(evil)  # the axis' title alone is whole
    assert sorted(map(len, labels))[-2] == 30


def test_the_forest_draws_zero_margin_limit_and_noise_floor(result: factory.Result) -> None:
    marks = _chart(_drawn(result)[0]).marks
    assert len([mark for mark in marks if isinstance(mark, Band)]) == 1
    assert sorted(mark.at for mark in marks if isinstance(mark, Rule)) == [-2.0, 0.0, 2.0, 5.0]


def test_the_forest_also_lists_environments_without_a_value(result: factory.Result) -> None:
    chart = _chart(_drawn(result)[0])
    names = dict(chart.y.ticks)
    texts = {names[row]: text for row, text in chart.row_texts}
    assert texts["bare+bridge"] == "✗ invalid"
    assert texts["docker+macvlan"] == "– unavailable"
    assert "bare" not in texts


def test_every_counting_launch_is_a_point_and_no_other_is(result: factory.Result) -> None:
    runs = launches(result.summary, result.trials)
    order = _drawn(result)[2]
    points = [mark for mark in _chart(order).marks if isinstance(mark, Dots)]
    assert sum(len(mark.x) for mark in points) == sum(run.completed for run in runs)
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
    lines = [mark for mark in _chart(figure).marks if isinstance(mark, Line)]
    assert all(list(line.x) == sorted(line.x) and len(set(line.x)) == 11 for line in lines)
    assert _chart(figure).x.log
    assert len(lines) == len(ENVIRONMENTS) + 1


def test_overhead_against_size_shows_the_noise_floor_and_leaves_the_baseline_out() -> None:
    marks = _chart(_sizes()["overhead"][0]).marks
    assert [mark.name for mark in marks if isinstance(mark, Area)] == [SELF]
    assert "bare" not in [mark.name for mark in marks if isinstance(mark, Dots)]


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
    assert _chart(forest).x.log
    assert "×" in forest.title


def test_a_figure_of_a_million_launches_is_no_larger_than_its_places() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(1_000_000), rng.normal(0.5, 0.1, 1_000_000)
    chart = Chart(height=300, x=linear_axis(0, 1), y=linear_axis(0, 1), marks=(Dots(x=x, y=y, colour="#000"),))
    assert 100_000 < len(svg(chart, "many", "", "")) < 2_500_000


@pytest.mark.parametrize("low", [1e-9, 3e-6, 0.7, 12.0])
@pytest.mark.parametrize("factor", [1.0, 1.01, 3.0, 50.0, 1e7])
def test_axes_have_some_ticks_and_not_many_and_all_of_them_inside(low: float, factor: float) -> None:
    for axis in (linear_axis(low, low * factor), log_axis(low, low * factor)):
        places = [at for at, _ in axis.ticks]
        assert 2 <= len(places) <= 12
        assert min(places) >= axis.low * 0.99
        assert max(places) <= axis.high * 1.01
        assert len({text for _, text in axis.ticks}) == len(places)


@pytest.mark.parametrize("colour", [look.colour for look in styles.styles([*"abcdefghij"], _SUMMARY).values()])
def test_every_environment_can_be_told_from_a_light_and_from_a_dark_page(colour: str) -> None:
    """WCAG 2.2, 1.4.11: graphics have a contrast of 3 to 1."""
    for page in ("#ffffff", "#12171d"):
        assert _contrast(colour, page) >= 3.0


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
