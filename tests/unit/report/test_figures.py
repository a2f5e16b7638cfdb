"""Plots state what they show and n, join no environments by a line, and are written as SVG and PDF."""

from __future__ import annotations

import builtins
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import samples_factory as factory
from factory_options import ENVIRONMENTS, SELF, SWEEP, Options
from tare.errors import MissingTool
from tare.model import Estimate
from tare.report import view
from tare.report.html import figures_of
from tare.report.plots import bars, overhead, styles
from tare.report.plots import launches as plots_launches
from tare.report.plots.charts import Area, Band, Box, Chart, Dots, Line, Ranges, Rule, linear_axis, log_axis, row_axis
from tare.report.plots.figures import Drawing
from tare.report.plots.files import write_figures
from tare.report.plots.svg import svg, svg_file
from tare.report.runs import launches

_SUMMARY = factory.make(Options(rounds=3, samples=10)).summary


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=50))


def _drawn(result: factory.Result) -> list[Drawing]:
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


def _chart(figure: Drawing) -> Chart:
    assert figure.chart is not None
    return figure.chart


def test_every_plot_is_valid_svg_and_states_n_title_and_description(result: factory.Result) -> None:
    for figure in _drawn(result):
        assert "n = " in figure.caption
        assert figure.title.endswith(".")
    kinds = {type(mark) for figure in _drawn(result) for mark in _chart(figure).marks}
    assert kinds == {Band, Rule, Ranges, Dots, Box}
    comparisons = tuple(
        replace(item, overhead=replace(item.overhead, low=-math.inf, high=math.inf)) if item.overhead else item
        for item in result.summary.comparisons
    )
    infinite = replace(result, summary=replace(result.summary, comparisons=comparisons))
    for figure in (*_drawn(result), *_drawn(infinite)):
        for text in (figure.drawn().svg, svg_file(figure.drawn().svg)):
            assert not re.search(r"nan|inf[^o]", text.split("</desc>")[1], re.IGNORECASE)
            ElementTree.fromstring(text)
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


def test_the_forest_draws_its_bounds_and_lists_environments_without_a_value(result: factory.Result) -> None:
    marks = _chart(_drawn(result)[0]).marks
    assert len([mark for mark in marks if isinstance(mark, Band)]) == 1
    assert sorted(mark.at for mark in marks if isinstance(mark, Rule)) == [-2.0, 0.0, 2.0, 5.0]
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


def test_the_baseline_is_grey_colours_stay_with_their_environment_and_two_metrics_of_one_size_are_no_sweep() -> None:
    summary = factory.make(Options(rounds=3)).summary
    names = view.groups(summary)[0].rows
    style = styles.styles(names, summary)
    assert style["bare"].colour == styles.BASE_COLOUR
    others = [style[name] for name in names if name not in {summary.baseline, summary.self_name}]
    assert len({look.colour for look in others}) == len(others)
    assert len({look.symbol for look in others}) == len(others)
    sweeps = {view.sweep(info) for info in summary.metrics if info.key.startswith("spacing")}
    assert len(sweeps) == 2


def test_lines_run_along_the_message_size_and_overheads_show_the_noise_floor_and_no_baseline() -> None:
    summary = factory.make(Options(shapes=SWEEP, trouble=False, samples=10)).summary
    group = view.groups(summary)[0]
    style = styles.styles(group.rows, summary)
    columns = [column for column in group.columns if column.info.key.startswith("latency")]
    figure = overhead.by_size(columns, group.rows, style)
    lines = [mark for mark in _chart(figure).marks if isinstance(mark, Line)]
    assert all(list(line.x) == sorted(line.x) and len(set(line.x)) == 11 for line in lines)
    assert _chart(figure).x.log
    assert len(lines) == len(ENVIRONMENTS) + 1
    marks = _chart(overhead.overhead_by_size(columns, group.rows, summary, style)).marks
    assert [mark.name for mark in marks if isinstance(mark, Area)] == [SELF]
    assert "bare" not in [mark.name for mark in marks if isinstance(mark, Dots)]


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


@pytest.fixture(scope="module")
def figures() -> list[tuple[str, Drawing]]:
    result = factory.make(Options(rounds=6, samples=60))
    return list(figures_of(result.summary, result.trials, result.samples))


def test_every_figure_is_written_as_svg_and_as_pdf(tmp_path: Path, figures: list[tuple[str, Drawing]]) -> None:
    pytest.importorskip("cairosvg")
    count = write_figures(figures, tmp_path / "new" / "folder")
    files = sorted(path.name for path in (tmp_path / "new/folder").iterdir())
    assert len(files) == 2 * count > 2 * len(figures)
    assert all(re.fullmatch(r"[a-z0-9-]+[.](svg|pdf)", name) for name in files)
    assert "ecdf-micro-2n-x-1r-latency-8-tail.svg" in files
    for path in (tmp_path / "new/folder").iterdir():
        content = path.read_bytes()
        assert len(content) > 1000
        assert b"/Subtype /Image" not in content, "a picture of dots"
        if path.suffix == ".pdf":
            assert content.startswith(b"%PDF-")
        else:
            drawn = ElementTree.fromstring(content)
            assert float(drawn.attrib["width"]) > float(drawn.attrib["height"]) > 80
            assert b"var(" not in content, "a colour of the page's style sheet"


def test_figures_of_equal_names_do_not_overwrite_each_other(tmp_path: Path, figures: list[tuple[str, Drawing]]) -> None:
    pytest.importorskip("cairosvg")
    (workload, figure), *_ = figures
    assert write_figures([(workload, figure), (workload, figure), ("../../x", figure)], tmp_path) >= 3
    assert len(list(tmp_path.iterdir())) % 2 == 0
    assert all(path.parent == tmp_path for path in tmp_path.rglob("*.svg"))


def test_a_missing_library_is_named_before_anything_is_written(
    tmp_path: Path, figures: list[tuple[str, Drawing]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "cairosvg":
            raise ImportError("No module named 'cairosvg'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingTool, match="cairosvg") as caught:
        write_figures(figures, tmp_path / "folder")
    assert "pip install cairosvg" in caught.value.remedy
    assert not (tmp_path / "folder").exists()
