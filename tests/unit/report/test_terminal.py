"""The terminal shows the first screen in eighty columns, in Unicode or ASCII, with as many digits as intervals have."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import samples_factory as factory
from factory_options import SWEEP, Options
from golden_texts import check_golden
from tare.analysis.summary import summarise
from tare.model import Estimate, MetricInfo, MetricKind, ProofGap, Summary
from tare.report import BriefReport, render, render_text, units
from tare.report.tables import MOST_COLUMNS, merge
from tare.report.verdicts import VERDICT_STYLES
from tare.report.view import MetricColumn, TableGroup, heading
from unit.summaries import make_plan, make_trials

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
UPDATE = os.environ.get("TARE_UPDATE_GOLDEN") == "1"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/report/test_terminal.py` rewrites the golden files."""


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=10))


@pytest.mark.parametrize(("name", "ascii_only"), [("terminal-unicode.txt", False), ("terminal-ascii.txt", True)])
def test_the_report_equals_its_golden_file(result: factory.Result, name: str, ascii_only: bool) -> None:
    text = render_text(result.summary, ascii_only=ascii_only)
    if UPDATE:
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def brief(summary: Summary, *, ascii_only: bool = False, width: int = 80) -> str:
    details = "tare report results/quickstart --details"
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(BriefReport(summary=summary, details=details, ascii_only=ascii_only))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def test_the_first_screen_equals_its_golden_file_and_fits_24_lines(result: factory.Result) -> None:
    plan, trials = result.plan, result.trials
    whole = factory.make(Options(samples=10, trouble=False))
    summary = replace(result.summary, headline=summarise(plan, trials, {}).headline)
    untroubled = replace(whole.summary, headline=summarise(whole.plan, whole.trials, {}).headline)
    texts = {
        "troubled": brief(summary),
        "untroubled": brief(untroubled),
        "ascii": brief(summary, ascii_only=True),
        "narrow": brief(summary, width=40),
    }
    check_golden(GOLDEN / "brief.txt", texts)
    assert len(texts["untroubled"].splitlines()) <= 24
    assert texts["ascii"].isascii()
    for text, width in ((texts["troubled"], 80), (texts["ascii"], 80), (texts["narrow"], 40)):
        assert max(map(len, text.splitlines())) <= width


def test_the_first_screen_says_what_is_not_proven(result: factory.Result) -> None:
    group = result.summary.metrics[0].group
    gap = ProofGap(group=group, environment="docker+host", text="no counter", partly=False, launches=3, of=3)
    assert "! docker+host: no counter" in brief(replace(result.summary, proof_gaps=(gap,)))


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_terminal(result: factory.Result, width: int, ascii_only: bool) -> None:
    text = render_text(result.summary, width=width, ascii_only=ascii_only)
    assert max(len(line) for line in text.splitlines()) <= width


def printed(report: object, color_system: Literal["standard", "truecolor"] | None) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=color_system)
    with console.capture() as captured:
        console.print(report)
    return captured.get()


def test_a_console_that_is_not_utf8_gets_ascii_by_itself_and_brackets_are_no_markup(result: factory.Result) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    console.print(render(result.summary))
    console.file.flush()
    assert raw.getvalue().decode("ascii").startswith("In this emulated lab")
    assert "[" in render_text(result.summary).splitlines()[0]
    assert render_text(result.summary, ascii_only=True).isascii()


def test_no_color_is_respected_and_colour_is_the_default(
    result: factory.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in printed(render(result.summary), "standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed(render(result.summary), "standard")


def test_symbols_differ_between_verdicts() -> None:
    assert len({look.symbol for look in VERDICT_STYLES.values()}) == len(VERDICT_STYLES)
    assert len({look.ascii for look in VERDICT_STYLES.values()}) == len(VERDICT_STYLES)


def test_names_are_whole_and_one_table_suffices_where_there_is_room(result: factory.Result) -> None:
    assert render_text(result.summary, width=80).count("against bare") == 2
    assert render_text(result.summary, width=200).count("against bare") == 1
    plan = make_plan("an environment with a long name", "fast")
    summary = summarise(plan, make_trials(plan), {})
    wide = [line for line in render_text(summary, width=100).splitlines() if "long name" in line]
    assert any(line.startswith("an environment with a long name ") for line in wide)
    narrow = render_text(summary, width=30).splitlines()
    assert not any(line.startswith("an environment with") for line in narrow)


def test_all_metrics_can_be_asked_for_and_disturbed_launches_are_a_warning(result: factory.Result) -> None:
    summary = factory.make(Options(shapes=SWEEP, rounds=3, samples=10)).summary
    assert "latency 4 KiB" not in render_text(summary)
    assert "latency 4 KiB" in render_text(summary, all_metrics=True)
    assert "HTML report only: 15 more metrics." in render_text(summary)
    assert "Background load" not in render_text(result.summary)
    disturbed = replace(result.summary, counts={**result.summary.counts, "disturbed": 3, "trials that count": 1200})
    lines = render_text(disturbed, width=200).splitlines()
    assert lines[0].startswith("! Background load: other programs")
    assert "during 3 of the 1,200 launches that count" in lines[0]


def _estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=10)


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        (units.seconds, {4.81e-6: "4.81 µs", 1.0: "1.00 s", 8.3e-8: "83.0 ns", 0.0123: "12.3 ms", 0.0: "0.00 s"}),
        (units.size, {0: "0 B", 8: "8 B", 65536: "64 KiB", 1 << 20: "1 MiB", 1500: "1.5 KiB"}),
        (units.rate, {3.1e9: "3.10 GB/s", 820e6: "820 MB/s"}),
    ],
)
def test_a_value_has_the_largest_unit_in_which_it_is_at_least_one(
    written: Callable[[float], str], texts: Mapping[float, str]
) -> None:
    assert {value: written(value) for value in texts} == texts


def test_intervals_of_rates_are_turned_around_and_open_where_a_cost_may_be_zero() -> None:
    shown = units.rate_interval(_estimate(1e-3, 0.9e-3, 1.1e-3), 1_000_000)
    assert str(shown) == "1.00 GB/s [0.91, 1.11]"
    shown = units.rate_interval(_estimate(1e-3, -0.5e-3, 2.5e-3), 1_000_000)
    assert str(shown).startswith("1.0")
    assert shown.bounds.endswith("∞]")
    assert units.to_ascii(shown.bounds).endswith("inf]")


SMALL = _estimate(5e-8, -3e-8, 1.4e-7)


@pytest.mark.parametrize(
    ("estimate", "how", "text"),
    [
        (_estimate(4.8e-6, 4.5e-6, 5.1e-6), {}, "+4.8 µs [4.5, 5.1]"),
        (_estimate(-58e-9, -497e-9, 380e-9), {}, "\u221258 ns [\u2212497, 380]"),
        (_estimate(0.0, -1e-8, 1e-8), {}, "0 ns [\u221210, 10]"),
        (_estimate(0.0123, 0.0101, 0.0142), {}, "+12 ms [10, 14]"),
        (SMALL, {"reference_s": 8e-6}, "+0.05 µs [\u22120.03, 0.14]"),
        (SMALL, {"reference_s": 1.0}, "+50 ns [\u221230, 140]"),
    ],
)
def test_an_added_time_and_its_interval_share_digits_and_the_unit_of_their_reference_if_it_is_readable(
    estimate: Estimate, how: dict[str, float], text: str
) -> None:
    assert str(units.time_interval(estimate, sign=True, **how)) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (_estimate(0.59, 0.55, 0.63), "+59 % [55, 63]"),
        (_estimate(-0.031, -0.040, -0.022), "\u22123.1 % [\u22124.0, \u22122.2]"),
        (_estimate(25.0, 24.0, 26.1), "×26.0 [25.0, 27.1]"),
        (_estimate(0.0, 0.0, 0.0), "0.00 % [0.00, 0.00]"),
    ],
)
def test_an_overhead_is_a_percentage_or_a_multiple_if_it_is_tenfold(estimate: Estimate, text: str) -> None:
    assert str(units.overhead_interval(estimate)) == text


@given(st.floats(-1e3, 1e3, allow_subnormal=False), st.floats(1e-3, 1e3), st.booleans())
def test_any_interval_has_different_bounds_and_is_ascii_on_request(middle: float, half: float, compact: bool) -> None:
    estimate = _estimate(middle, middle - half, middle + half)
    for shown in (units.time_interval(estimate, sign=True, compact=compact), units.overhead_interval(estimate)):
        low, high = shown.bounds.strip("[]").split(", ")
        if half > 0.02 * abs(middle):
            assert low != high
        assert units.to_ascii(str(shown)).isascii()


def test_numbers_have_no_sign_of_zero_no_infinities_an_ascii_form_and_stay_with_their_unit() -> None:
    assert units.number(-0.001, 1, sign=True) == "0.0"
    assert units.number(-0.06, 1) == "\u22120.1"
    assert units.number(math.inf, 2) == units.significant(math.inf) == "∞"
    assert units.number(math.nan, 2) == "n/a"
    assert units.to_ascii("±2 % · 4 µs → ×3 ≤ 日") == "+-2 % - 4 us -> x3 <= ?"
    assert units.keep_together("adds 4.9 µs (59 %) at 64 KiB, n = 10") == (
        "adds 4.9\u00a0µs (59\u00a0%) at 64\u00a0KiB, n\u00a0=\u00a010"
    )


def column(group: str, label: str) -> MetricColumn:
    info = MetricInfo(key=label, label=label, kind=MetricKind.COST, statistic="mean", group=group)
    return MetricColumn(info=info, cells={}, baseline=None, noise=None)


def group(
    workload: str, *labels: str, placement: str = "2n x 1r", rows: tuple[str, ...] = ("bare", "docker")
) -> TableGroup:
    name = f"{workload} / {placement}"
    return TableGroup(name=name, rows=rows, columns=tuple(column(name, label) for label in labels))


def names(groups: tuple[TableGroup, ...]) -> list[tuple[str, list[str]]]:
    return [(table.name, [column.info.label for column in table.columns]) for table in groups]


def test_workloads_of_one_placement_share_a_table_of_few_columns_and_others_do_not() -> None:
    tables = merge([group("micro", "latency", "bw"), group("ep", "npb-ep W"), group("cg", "npb-cg W")])
    assert names(tables) == [("micro / 2n x 1r", ["latency", "bw"]), ("2n x 1r", ["npb-ep W", "npb-cg W"])]
    assert [part.info.group for part in tables[1].columns] == ["ep / 2n x 1r", "cg / 2n x 1r"]
    apart = [
        group("a", "x"),
        group("b", "y", placement="1n x 2r"),
        group("c", "z", placement="1n x 2r", rows=("bare",)),
    ]
    assert merge(apart) == tuple(apart)
    many = [group(f"w{number}", f"label {number}") for number in range(MOST_COLUMNS + 2)]
    assert [len(table.columns) for table in merge(many)] == [MOST_COLUMNS, 2]
    assert merge([]) == ()


def test_equal_labels_get_the_names_of_their_workloads() -> None:
    (table,) = merge([group("one", "wall time"), group("two", "wall time"), group("ep", "npb-ep W")])
    assert names((table,)) == [("2n x 1r", ["one: wall time", "two: wall time", "npb-ep W"])]


def test_notes_below_several_tables_have_a_heading() -> None:
    one, other = group("micro", "latency 8 B", "bw"), group("start", "MPI_Init")
    assert heading(one, (one,)) == ""
    assert heading(one, (one, other)) == one.name
    first, second = replace(one, name="2n x 1r"), replace(other, name="2n x 1r")
    assert heading(first, (first, second)) == "2n x 1r, latency 8 B to bw"
    assert heading(second, (first, second)) == "2n x 1r, MPI_Init"
