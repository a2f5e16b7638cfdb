"""A report states how far its verdicts can be trusted: mean, upper bound, failures, repeats, states, modes, looks."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import samples_factory as factory
from factory_options import QUICKSTART, Options
from tare.analysis.summary.select import select
from tare.model import (
    Comparison,
    Estimate,
    Finding,
    Modes,
    Pattern,
    PatternKind,
    Placement,
    StateEffect,
    Summary,
    Trial,
    Verdict,
)
from tare.report import remarks, render_html, render_text, units, view
from tare.report.cells import brief_text, cell_text, differ_in_sign, percent_up
from tare.report.runs import launches
from tare.report.verdicts import mark
from unit.summaries import NoSamples


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=10, failing=True))


@pytest.fixture(scope="module")
def summary(result: factory.Result) -> Summary:
    return result.summary


def page(summary: Summary) -> str:
    """Return the page without its scripts, with what keeps words on one line taken out."""
    text = re.sub(r"<script.*?</script>", "", render_html(summary, (), NoSamples()), flags=re.DOTALL)
    return text.replace("\u00a0", " ").replace("&#39;", "'")


def both(summary: Summary) -> tuple[str, str]:
    """Return the terminal's report, its lines joined, and the page."""
    return " ".join(render_text(summary, width=300).replace("\u00a0", " ").split()), page(summary)


def changed(summary: Summary, environment: str, metric: str, **fields: object) -> Summary:
    """Return a summary in which one comparison is another."""

    def one(item: Comparison) -> Comparison:
        mine = (item.environment, item.metric) == (environment, metric)
        return replace(item, **fields) if mine else item  # type: ignore[arg-type]

    return replace(summary, comparisons=tuple(map(one, summary.comparisons)))


def estimate(value: float, half: float, n: int = 10) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half, n=n)


def test_warnings_come_first_then_the_headline_the_machine_and_the_table(summary: Summary) -> None:
    warned = replace(summary, warnings=("The baseline differs from itself on barrier", "vCPUs migrated."))
    lines = render_text(warned).splitlines()
    assert lines[:2] == ["! The baseline differs from itself on barrier.", "! vCPUs migrated."]
    assert lines[2].startswith("In this emulated lab")
    text = page(warned)
    order = ["itself on barrier.", "vCPUs migrated.", summary.headline[:30], "emulated lab</strong>", "<table"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


@pytest.mark.parametrize(
    ("within", "symbol", "plain"), [(0.02, "✓2", "=2"), (0.03, "✓3", "=3"), (0.05, "✓5", "=5"), (0.1, "✓10", "=10")]
)
def test_no_cost_has_its_margin_in_per_cent(summary: Summary, within: float, symbol: str, plain: str) -> None:
    assert (mark(Verdict.NO_COST, within), mark(Verdict.NO_COST, within, plain=True)) == (symbol, plain)
    other = changed(summary, "docker+overlay", "barrier", verdict=Verdict.NO_COST, within=within, at_most=0.0123)
    assert f"{symbol} +5.5" in render_text(other)
    assert "≤1.3 %, loop" in render_text(other)
    assert f"{plain} +5.5" in render_text(other, ascii_only=True)
    assert f'<i aria-hidden="true">{symbol}</i>' in page(other)


def test_an_inconclusive_cell_states_an_upper_bound(summary: Summary) -> None:
    other = changed(summary, "docker+overlay", "barrier", verdict=Verdict.INCONCLUSIVE, at_most=0.6131)
    assert "? at most +62 %" in render_text(other)
    assert "at most +62 %</b>" in page(other)
    column = next(c for c in view.groups(other)[0].columns if c.info.key == "barrier")
    for cell in (cell_text, brief_text):
        text = cell(column, column.cells["docker+overlay"], other)
        assert text.lead == "at most +62 %"
        assert "+59 % [57, 62]" in text.second


def test_failures_and_repeats_have_a_table_with_their_test_and_the_overhead_over_all_launches(summary: Summary) -> None:
    terminal, html = both(summary)
    assert "! 4/10 failed" in terminal
    assert "<b>4/10 failed</b>" in html
    assert "docker+bridge: fails more, 4 of 10 launches failed, more often than the baseline's (p = 0.04)" in terminal
    column = view.groups(summary)[0].columns[0]
    assert cell_text(column, column.cells["docker+bridge"], summary).second.startswith("+2.6")
    terminal, html = both(summary)
    sentence = (
        "docker+overlay: 4/14 launches repeated, which differs from the baseline's rate (p = 0.032); "
        "overhead over all launches +60"
    )
    assert sentence in terminal
    assert sentence in html
    section = html[html.index('<section id="failures"') :]
    assert "<td>4 of 14</td><td>0.032</td><td>+60" in section
    assert "<td>4 of 10</td><td>[12, 74] %</td><td>0.043</td>" in section
    quiet = (
        replace(item, repeats=None, failures=item.failures and replace(item.failures, failed=0))
        for item in summary.comparisons
    )
    assert 'id="failures"' not in page(replace(summary, comparisons=tuple(quiet)))


def test_every_cell_has_the_typical_launch_first_and_the_mean_and_a_barrier_s_loop_below(summary: Summary) -> None:
    group = view.groups(summary)[0]
    latency, rate = group.columns[0], group.columns[2]
    base = brief_text(latency, latency.cells["bare"], summary)
    assert (base.lead, base.second) == ("7.81 µs", "mean 8.05") or base.second.startswith("mean 8.0")
    for column in (latency, rate):
        cell = column.cells["docker+overlay"]
        assert cell.mean is not None
        assert "mean +" in brief_text(column, cell, summary).second
        assert cell_text(column, cell, summary).others.replace("\u00a0", " ") == (
            f"mean {units.overhead_interval(cell.mean.overhead)}"
        )
    without = replace(latency.cells["docker+overlay"], mean=None)
    assert brief_text(latency, without, summary).second == "+59 % [58, 60]"
    column = next(c for c in view.groups(summary)[0].columns if c.info.key == "barrier")
    assert brief_text(column, column.cells["bare"], summary).second == "mean 9.5, loop 8.7"
    assert brief_text(column, column.cells["docker+overlay"], summary).second == "+59 %, loop +59 %"
    assert "loop +59 %" in page(summary)
    assert "loop (back to back)" in page(summary)


def test_metrics_without_a_verdict_are_not_in_the_first_table_unless_there_are_no_others(summary: Summary) -> None:
    _, first, rest = re.split(r'<section id="(?:result|workloads)"', page(summary))
    assert "spacing 8 B" not in first
    assert "spacing 8 B receive" in rest
    table = rest[rest.index('id="micro-2n-x-1r-spacing-8-10000-receive"') :]
    table = table[table.index("<table") : table.index("</table>")]
    assert "This metric gets no verdict." in table
    assert 'scope="col">verdict' not in table
    assert "HTML report only, no verdict: spacing 8 B send, spacing 8 B receive." in render_text(summary)
    assert "spacing 8 B send" in render_text(summary, all_metrics=True)
    infos = tuple(replace(info, judged=False) for info in summary.metrics)
    assert "latency 8 B" in render_text(replace(summary, metrics=infos))


def test_a_heading_below_the_tables_has_at_least_one_note() -> None:
    placements = (Placement(), Placement(ranks_per_node=2))
    options = Options(samples=10, trouble=False, placements=placements, shapes=QUICKSTART[:2])
    both_groups = factory.make(options).summary
    comparisons = (replace(item, repeats=None, over_limit=False, added_s=None) for item in both_groups.comparisons)
    plain = replace(both_groups, comparisons=tuple(comparisons))
    _, legend, below = render_text(plain).rpartition("First line: typical launch")
    assert legend
    assert "micro @" not in below
    finding = Finding(group=both_groups.metrics[0].group, environment="x", kind="k", text="t", launches=1, of=1)
    below = render_text(replace(plain, findings=(finding,))).rpartition("First line: typical launch")[2]
    assert below.count("micro @") == 1


def test_the_daemons_part_and_the_machines_state_are_stated(summary: Summary) -> None:
    group = summary.metrics[0].group
    effect = StateEffect(
        group=group, metric="latency:8", state="vCPU distance", effect=estimate(0.34, 0.04), per="doubling of it"
    )
    unclear = replace(effect, metric="barrier", effect=estimate(0.0, 0.1))
    terminal, html = both(replace(summary, state_effects=(effect, unclear)))
    sentence = "vCPU distance: +34 % [30, 38] on latency 8 B per doubling of it, the same in all environments."
    assert sentence in terminal
    assert sentence in html
    assert "adjusted for the machine's state (vCPU distance +34 % [30, 38] per doubling of it)" in html
    assert "adjusted for the machine's state (vCPU distance 0 % [−10, 10] per doubling of it)" in html
    text = "latency 8 B +16 %: the daemon's packet filter causes +15 % [+13, +17] (bare+dockerd)"
    finding = Finding(
        group=summary.metrics[0].group, environment="docker+host", kind="daemon", text=text, launches=6, of=6
    )
    for shown in both(replace(summary, findings=(finding,))):
        assert text in shown


def test_modes_are_stated_with_both_centres_and_their_shares(summary: Summary) -> None:
    modes = Modes(
        group=summary.metrics[0].group, metric="alltoallv:65536", p_value=0.0004, n=90, centres=(0.8, 1.25),
        shares=(0.6, 0.4),
    )  # fmt: skip
    for text in both(replace(summary, modes=(modes,))):
        assert "alltoallv 64 KiB has several modes (dip test over 90 launches, p < 0.001)" in text.replace("&lt;", "<")
        assert "60% of launches at −20 % and 40% of launches at +25 %" in text


def test_rare_costs_that_the_rounds_can_miss_are_stated_and_no_launch_is_called_discarded(summary: Summary) -> None:
    for text in both(summary):
        assert "10 rounds can miss a cost that occurs in up to 26 % of launches" in text
    nothing_free = tuple(
        replace(item, verdict=Verdict.INCONCLUSIVE) if item.verdict is Verdict.NO_COST else item
        for item in summary.comparisons
    )
    assert remarks.missed_text(replace(summary, comparisons=nothing_free)) == ""
    for text in both(replace(summary, counts={**summary.counts, "reruns": 5, "repeated": 3})):
        assert "discard" not in text.lower()
        assert "did not count" not in text
        assert "2 in blocks that were run again, 3 repeats because" in text


@pytest.mark.parametrize(
    ("done", "looks", "due", "sentence"),
    [
        (7, (10, 20), 10, "7 of 10 rounds: verdicts are given at 10"),
        (10, (10, 20), 20, "the next verdicts are given at 20 rounds"),
        (10, (10,), None, ""),
        (13, (10,), None, "13 rounds: the last verdicts were given at 10"),
    ],
)
def test_a_report_states_when_verdicts_are_given(
    summary: Summary, done: int, looks: tuple[int, ...], due: int | None, sentence: str
) -> None:
    other = replace(summary, rounds_done=done, looks=looks, next_look=due)
    assert remarks.looks_text(other) == sentence
    for text in both(other):
        assert sentence.lower() in text.lower()


def test_means_with_opposite_signs_are_stated_and_named(summary: Summary) -> None:
    other = changed(summary, "docker+host", "barrier", overhead=estimate(0.004, 0.01), added_s=estimate(-3e-8, 1e-7))
    column = next(c for c in view.groups(other)[0].columns if c.info.key == "barrier")
    assert differ_in_sign(column, column.cells["docker+host"])
    as_shown = replace(column.cells["docker+host"], overhead=estimate(0.00001, 0.01))
    assert not differ_in_sign(column, as_shown)
    for text in both(other):
        assert "docker+host on barrier" in text
        assert "overhead (geometric mean) and added time (arithmetic mean) have opposite signs" in text
    assert "added time (arithmetic mean over 10 rounds) and overhead (geometric mean)" in page(summary)


@given(st.floats(-0.5, 8.0))
def test_an_upper_bound_is_never_rounded_down(bound: float) -> None:
    bound_shown = float(percent_up(bound).replace("−", "-").replace(" %", "")) / 100
    assert bound - 1e-9 <= bound_shown <= bound + 0.0101


@pytest.mark.parametrize("ascii_only", [False, True])
def test_foreign_text_cannot_control_the_terminal(summary: Summary, ascii_only: bool) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    group = summary.metrics[0].group
    foreign = replace(
        summary,
        headline=evil,
        machine=evil,
        warnings=(evil,),
        comparisons=tuple(replace(item, reason=evil, verdict=Verdict.INVALID) for item in summary.comparisons),
        metrics=tuple(replace(info, label=evil) for info in summary.metrics),
        findings=(Finding(group=group, environment=evil, kind=evil, text=evil, launches=1, of=1),),
    )
    text = render_text(foreign, ascii_only=ascii_only)
    assert "owned" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_plots_show_the_launches_that_the_tables_count(result: factory.Result) -> None:
    """A later attempt that is not whole, and repeats, in one block: both rules would differ here."""
    first = result.trials[0].key
    in_block = [t for t in result.trials if (t.key.round, t.key.attempt) == (first.round, 0)]
    again: list[Trial] = [replace(in_block[0], key=replace(in_block[0].key, attempt=1), started_unix_s=2e9)]
    repeat = replace(in_block[1], key=replace(in_block[1].key, repeat=1), started_unix_s=2e9 + 1)
    trials = (*result.trials, *again, repeat)
    counted = {run.trial.key for run in launches(result.summary, trials) if run.counts}
    chosen = select(result.plan, trials).trials
    assert counted == {trial.key for blocks in chosen.values() for trial in blocks.values()}
    assert repeat.key in counted
    assert in_block[1].key not in counted
    assert in_block[0].key in counted
    assert again[0].key not in counted


def test_the_policy_lets_only_the_pages_own_scripts_and_styles_run_and_it_needs_no_others(summary: Summary) -> None:
    html = render_html(summary, (), NoSamples())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    assert len(scripts) == 1
    assert {source(text) for text in scripts} == set(rules["script-src"])
    assert {source(text) for text in styles} == set(rules["style-src"])
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.findall(r"<[^>]*\s(?:style|on[a-z]+)=", markup)
    assert "javascript:" not in markup


def source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize(
    ("ratio", "words"), [(1.5, "took 50 % more time"), (1 / 1.5, "took 33 % less time"), (1.05, "")]
)
def test_a_machine_that_changed_while_it_was_measured_is_a_warning(summary: Summary, ratio: float, words: str) -> None:
    info = summary.metrics[0]
    drift = Pattern(
        group=info.group,
        environment="",
        metric=info.key,
        kind=PatternKind.DRIFT,
        value=math.log(ratio),
        p_value=0.0001,
        n=20,
    )
    drifting = replace(summary, patterns=(drift, replace(drift, environment="docker+bridge", value=1.0)))
    shown = " ".join(remarks.warnings(drifting))
    assert ("The machine changed during the study" in shown) is bool(words)
    assert f"{info.label} {words} at the end" in shown or not words
