"""Published results, causes, traffic and intervals without an end have their places in a report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import samples_factory as factory
from factory_options import Options
from tare.analysis.summary import summarise
from tare.errors import StudyError
from tare.model import (
    Cause,
    Comparison,
    Completed,
    Estimate,
    Failed,
    Figure,
    InterfaceTraffic,
    Link,
    MetricKind,
    Published,
    Summary,
    Trial,
    Verdict,
)
from tare.report import render_html, render_text, view
from tare.report.causes import NEXT_STEP, RowCause, row_cause
from tare.report.published_results import NOT_MEASURED, conditions, fraction_of_baseline, rows
from tare.report.runs import launches
from tare.report.traffic import count, mean_counters, mean_traffic, reported_values, traffic_tables, value_text
from tare.report.view import groups
from tare.study import load, parse
from tare.system.node import SILENT_ROLE
from unit.study_texts import ENVIRONMENTS, WORK
from unit.summaries import NoSamples, make_plan, make_trials, of, scaled

SOURCE = "a paper, figure 4"


@pytest.fixture(scope="module")
def summary() -> Summary:
    return factory.make(Options(samples=10)).summary


def table(summary: Summary, *published: Published) -> list[tuple[str, str, str]]:
    published_rows = rows(replace(summary, published=published), groups(summary))
    return [(row.metric, row.published, row.here) for row in published_rows]


def comparison(overhead: Estimate | None) -> Comparison:
    return Comparison(metric="m", environment="e", group="g", verdict=Verdict.COSTS, overhead=overhead)


def test_a_published_rate_is_the_inverse_of_a_cost_and_a_study_states_it() -> None:
    cost = comparison(Estimate(value=0.25, low=0.0, high=1.0, n=6))
    rate = fraction_of_baseline(cost, MetricKind.RATE)
    assert (rate.value, rate.low, rate.high, rate.n) == (0.8, 0.5, 1.0, 6)
    time = fraction_of_baseline(cost, MetricKind.COST)
    assert (time.value, time.low, time.high) == (1.25, 1.0, 2.0)
    with pytest.raises(ValueError, match="no overhead"):
        fraction_of_baseline(comparison(None), MetricKind.COST)
    study = parse(stated("docker+host", "w", "of_baseline: 80%"))
    assert study.published == (Published(environment="docker+host", workload="w", of_baseline=0.8, source="a paper"),)


def test_a_published_figure_has_a_row_for_each_metric_meant_and_is_on_the_terminal(summary: Summary) -> None:
    one = Published(environment="docker+overlay", workload="micro", metric="bw*", of_baseline=0.2, source=SOURCE)
    ((label, published, here),) = table(summary, one)
    assert label.startswith("bw")
    assert published == "20 %"
    (cell,) = [c for c in summary.comparisons if c.environment == one.environment and c.metric.startswith("bw")]
    assert float(here.split()[0]) == pytest.approx(100 / (1 + cell.overhead.value), abs=0.06)
    every = table(summary, replace(one, metric=""))
    assert len(every) == len(summary.metrics)
    one = Published(environment="docker+overlay", workload="micro", metric="bw*", told="half of it", source=SOURCE)
    assert "published: half of it" in render_text(replace(summary, published=(one,)), width=200)


@pytest.mark.parametrize(("ratio", "text"), [(0.034, "3.4 %"), (0.91, "91 %"), (1.0, "100 %"), (16.702, "1,670 %")])
def test_a_published_figure_is_a_share_of_its_baseline(summary: Summary, ratio: float, text: str) -> None:
    one = Published(environment="docker+overlay", workload="micro", metric="bw*", of_baseline=ratio, source=SOURCE)
    assert [published for _, published, _ in table(summary, one)] == [text]


def test_a_metric_without_a_value_here_has_a_reason(summary: Summary) -> None:
    invalid = Published(environment="bare+bridge", workload="micro", metric="bw*", of_baseline=0.5, source=SOURCE)
    unavailable = replace(invalid, environment="docker+macvlan")
    elsewhere = replace(invalid, metric="iperf*")
    result = table(summary, invalid, unavailable, elsewhere)
    assert [here for _, _, here in result] == ["invalid here", "unavailable here", NOT_MEASURED]


@pytest.mark.parametrize(
    ("stated", "rate_bps", "mtu", "expected"),
    [
        ("10G Ethernet, MTU 9000", 10**10, "9000", "published with 10G Ethernet, MTU 9000"),
        (
            "10G Ethernet, MTU 9000", 10**10, "1500",
            "published under other conditions: 10G Ethernet, MTU 9000; here: 10 Gbit/s, MTU 1500",
        ),
        (
            "1 Gbit/s Ethernet; 64 ranks", 0, "1500",
            "published under other conditions: 1 Gbit/s Ethernet; 64 ranks; here: no rate set for the link, MTU 1500",
        ),
        ("64 ranks", 0, "", "published with 64 ranks"),
        ("", 10**9, "", "published under other conditions (not stated in the study file); here: 1 Gbit/s"),
    ],
)  # fmt: skip
def test_a_published_figure_has_conditions(
    summary: Summary, stated: str, rate_bps: int, mtu: str, expected: str
) -> None:
    one = Published(environment="docker+overlay", workload="micro", told="x", source=SOURCE, conditions=stated)
    environments = tuple(replace(environment, link=Link(rate_bps=rate_bps)) for environment in summary.environments)
    manifest = {"networks": {one.environment: {"mtu": mtu}}}
    here = replace(summary, environments=environments, manifest=manifest, published=(one,))
    assert conditions(one, here) == expected
    for shown in (render_text(here, width=400), render_html(here, (), NoSamples())):
        assert expected in shown


@pytest.mark.parametrize("name", ["graph500-transports", "kisti-networks", "pearc18-interconnects"])
def test_the_studies_of_papers_state_the_conditions_of_every_figure(name: str) -> None:
    study = load(Path(__file__).parents[3] / "studies" / f"{name}.yaml")
    assert study.published
    assert all(published.conditions for published in study.published)


STATED = f"published: [{{environment: ENV, workload: WHAT, source: a paper, RATIO}}]{ENVIRONMENTS}{WORK}"


def stated(environment: str, workload: str, ratio: str) -> str:
    return STATED.replace("ENV", environment).replace("WHAT", workload).replace("RATIO", ratio)


@pytest.mark.parametrize(
    ("environment", "workload", "ratio", "message"),
    [
        ("docker+hst", "w", "of_baseline: 80%", "unknown environment 'docker+hst'"),
        ("docker+host", "x", "of_baseline: 80%", "unknown workload 'x'"),
        ("bare", "w", "of_baseline: 80%", "bare is the baseline"),
        ("docker+host", "w", "metric: x", "needs `of_baseline`"),
        ("docker+host", "w", "of_baseline: 0%", "must be above 0"),
    ],
)
def test_a_published_result_of_nothing_here_is_refused(
    environment: str, workload: str, ratio: str, message: str
) -> None:
    with pytest.raises(StudyError, match=re.escape(message)):
        parse(stated(environment, workload, ratio))


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.with_causes(factory.make(Options(samples=20)))


def cause_of(name: str, summary: Summary) -> RowCause:
    return row_cause(name, view.judged(view.groups(summary))[0].columns, summary)


def test_a_cause_has_its_words_share_and_remedy_or_names_its_metrics(result: factory.Result) -> None:
    (why,) = cause_of("docker+bridge", result.summary).causes
    assert (why.words, why.proven, why.on) == ("packet filter on bridge", True, "")
    assert why.share == "80 % [70 %, 90 %] of the cost"
    assert why.remedy == "sysctl net.bridge.bridge-nf-call-iptables=0"
    assert not cause_of("docker+bridge", result.summary).costs
    row = cause_of("docker+overlay", result.summary)
    (why,) = row.causes
    assert (why.on, why.proven, why.share) == ("latency 8 B, latency 64 KiB", False, "")
    assert row.costs
    assert row.unexplained == "bw 1 MiB, barrier, alltoallv 64 KiB"


def test_rows_without_a_cost_and_the_baseline_have_no_cause(result: factory.Result) -> None:
    cause = Cause(
        group=result.summary.metrics[0].group, environment="docker+direct", metrics=("latency:8",), name="x", words="x",
        proven=True, share=None, remedy="x",
    )  # fmt: skip
    summary = replace(result.summary, causes=(cause,))
    for name in ("docker+direct", "docker+macvlan", summary.baseline, summary.self_name):
        assert cause_of(name, summary) == RowCause()


def test_the_table_has_no_column_of_causes_if_nothing_costs(result: factory.Result) -> None:
    def table(summary: Summary) -> str:
        page = render_html(summary, result.trials, result.samples)
        return page[page.index('<table class="first') : page.index("</table>")]

    free = tuple(
        replace(item, verdict=Verdict.NO_COST, within=0.02) if item.verdict is Verdict.COSTS else item
        for item in result.summary.comparisons
    )
    assert "what to do" not in table(replace(result.summary, comparisons=free))
    shown = table(result.summary)
    assert NEXT_STEP in shown
    assert re.search(r"encapsulation in UDP</b>.*?<small>not proven</small>", shown)


PLAN = make_plan("docker")
ROWS = ("bare", "bare (A/A)", "docker")


def item(node: str, packets: int, volume: int, role: str = "data NIC") -> InterfaceTraffic:
    return InterfaceTraffic(
        node=node, interface="eth1", role=role, rx_bytes=volume // 2, tx_bytes=volume - volume // 2,
        rx_packets=packets, tx_packets=0,
    )  # fmt: skip


def with_traffic(trial: Trial) -> Trial:
    """Return a trial of 2 s; docker's second node carries twice as much as its first, and more each round."""
    many = 1000 * (1 + trial.key.round)
    figures = (Figure(key="lost", label="loss", value=float(trial.key.round), unit="%"),)
    docker = trial.key.cell.endswith("/docker")
    traffic = (item("n0", many, 100 * many), item("n1", 2 * many, 200 * many), item("n0", 7, 700, SILENT_ROLE))
    outcome = trial.outcome
    if isinstance(outcome, Completed) and docker:
        outcome = replace(outcome, figures=figures)
    return replace(trial, elapsed_s=2.0, traffic=traffic if docker else (), outcome=outcome)


TRIALS = [with_traffic(trial) for trial in make_trials(PLAN, 3)]


def runs_of(trials: list[Trial]) -> list:
    return [run for run in launches(summarise(PLAN, trials, {}), trials) if run.completed]


def test_a_row_is_the_mean_of_a_launch_on_a_node_with_the_size_and_the_rate_of_its_packets() -> None:
    (row,) = mean_traffic(ROWS, runs_of(TRIALS))
    assert (row.environment, row.role) == ("docker", "data NIC")
    assert row.packets == pytest.approx((1000 + 2000 + 3000) * 3 / 6)
    assert row.volume_bytes == pytest.approx(100 * row.packets)
    assert row.packet_bytes == pytest.approx(100)
    assert row.packets_per_s == pytest.approx(row.packets / 2.0)
    assert row.texts == ("3,000", "293.0 KiB", "100 B", "1,500")


def test_failed_launches_do_not_count_and_those_without_packets_have_no_size() -> None:
    empty = [replace(trial, elapsed_s=0.0, traffic=(item("n0", 0, 0),)) for trial in TRIALS]
    rows = mean_traffic(ROWS, runs_of(empty))
    assert [row.environment for row in rows] == list(ROWS)
    assert {(row.packets, row.packet_bytes, row.packets_per_s) for row in rows} == {(0.0, 0.0, 0.0)}
    failed = [replace(trial, outcome=Failed(reason="no")) if trial.key.round == 2 else trial for trial in TRIALS]
    (row,) = mean_traffic(ROWS, runs_of(failed))
    assert row.packets == pytest.approx((1000 + 2000) * 3 / 4)
    assert reported_values(ROWS, runs_of(failed)).rows == (("docker", ("0.5000 %",)),)


def test_the_report_shows_both_tables_where_there_are_values() -> None:
    table = reported_values(ROWS, runs_of(TRIALS))
    assert table.columns == ("loss",)
    assert table.rows == (("docker", ("1 %",)),)
    group = PLAN.cells[0].group
    assert traffic_tables(group, "x", ROWS, runs_of(make_trials(PLAN, 2))) is None
    assert traffic_tables("another", "x", ROWS, runs_of(TRIALS)) is None
    assert traffic_tables(group, "x", ROWS, runs_of(TRIALS)) is not None
    page = render_html(summarise(PLAN, TRIALS, {}), TRIALS, NoSamples())
    assert "Additional values reported by launches" in page
    assert "<td>1 %</td>" in page
    assert "Traffic of a node per launch" in page
    assert "<td>3,000</td><td>293.0 KiB</td><td>100 B</td><td>1,500</td>" in page
    plain = render_html(summarise(PLAN, make_trials(PLAN, 2), {}), make_trials(PLAN, 2), NoSamples())
    assert "Traffic of a node" not in plain


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "", "0"), (13176389.0, "", "13,176,389"), (2.5e-5, "s", "25.0 µs"), (65536.0, "B", "64 KiB"),
        (0.25, "%", "0.2500 %"), (3.7e-12, "", "3.7e-12"), (1404.0, "", "1,404"), (12.5, "1/s", "12.50 1/s"),
    ],
)  # fmt: skip
def test_a_figure_is_read_in_its_unit(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_counts_and_counters_are_means_by_environment() -> None:
    assert [count(value) for value in (0.0, 3.0, 2.345, 99.94, 1234567.8)] == ["0", "3", "2.35", "99.9", "1,234,568"]
    grown = {"n0": {"TcpRetransSegs": 3.0}, "n1": {"TcpRetransSegs": 1.0}, "machine localhost": {"softnet_dropped": 8}}
    docker = [replace(each, node_counters=grown) if "docker" in each.key.cell else each for each in TRIALS]
    table = mean_counters(ROWS, runs_of(docker))
    assert set(table.columns) == {run.environment for run in runs_of(docker) if run.trial.node_counters}
    assert table.rows == (
        ("TcpRetransSegs", ("4",) * len(table.columns)),
        ("softnet_dropped (machine)", ("8",) * len(table.columns)),
    )
    assert mean_counters(ROWS, runs_of(TRIALS)).rows == (), "older results have no counters by place"


MANY = tuple(f"e{number}" for number in range(30))
"""So many comparisons that the intervals which are adjusted for their number have no end."""


@pytest.mark.parametrize("factor", [1e3, 1e8])
def test_a_report_says_not_estimated_in_place_of_an_interval_without_an_end(factor: float) -> None:
    plan = make_plan(*MANY)
    trials = make_trials(plan, 2)
    for name in MANY:
        trials = scaled(trials, name, lambda r: factor if r == 1 else 1.0)
    summary = summarise(plan, trials, {})
    found = of(summary, "e3")
    assert (found.overhead, found.simultaneous, found.at_most, found.absolute_s) == (None, None, None, None)
    assert "not estimated: its interval is wider than a hundredfold" in found.reason
    assert "? not estimated" in render_text(summary)
    page = render_html(summary, trials, NoSamples())
    assert "not estimated" in page
    assert "∞" not in page
    assert "nan" not in page.lower()
