"""Traffic and reported values are averaged by environment over the launches that count, and get no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.model import Completed, Failed, Figure, InterfaceTraffic, Trial
from tare.node import SILENT_ROLE
from tare.report import NoSamples, render_html
from tare.report.runs import launches
from tare.report.traffic import count, mean_counters, mean_traffic, reported_values, traffic_tables, value_text
from tare.summary import summarise
from unit.summaries import make_plan, make_trials

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


def test_launches_without_packets_have_no_size_and_no_division_by_zero() -> None:
    empty = [replace(trial, elapsed_s=0.0, traffic=(item("n0", 0, 0),)) for trial in TRIALS]
    rows = mean_traffic(ROWS, runs_of(empty))
    assert [row.environment for row in rows] == list(ROWS)
    assert {(row.packets, row.packet_bytes, row.packets_per_s) for row in rows} == {(0.0, 0.0, 0.0)}


def test_reported_values_are_means_over_rounds_of_environments_that_have_any() -> None:
    table = reported_values(ROWS, runs_of(TRIALS))
    assert table.columns == ("loss",)
    assert table.rows == (("docker", ("1 %",)),)


def test_a_failed_launch_does_not_count() -> None:
    failed = [replace(trial, outcome=Failed(reason="no")) if trial.key.round == 2 else trial for trial in TRIALS]
    (row,) = mean_traffic(ROWS, runs_of(failed))
    assert row.packets == pytest.approx((1000 + 2000) * 3 / 4)
    assert reported_values(ROWS, runs_of(failed)).rows == (("docker", ("0.5000 %",)),)


def test_a_group_without_either_has_no_tables() -> None:
    group = PLAN.cells[0].group
    assert traffic_tables(group, "x", ROWS, runs_of(make_trials(PLAN, 2))) is None
    assert traffic_tables("another", "x", ROWS, runs_of(TRIALS)) is None
    assert traffic_tables(group, "x", ROWS, runs_of(TRIALS)) is not None


def test_the_report_shows_both_tables() -> None:
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


def test_counts_have_no_more_digits_than_a_mean_has() -> None:
    assert [count(value) for value in (0.0, 3.0, 2.345, 99.94, 1234567.8)] == ["0", "3", "2.35", "99.9", "1,234,568"]


def test_counters_are_means_per_launch_by_environment_and_the_machines_are_apart() -> None:
    grown = {"n0": {"TcpRetransSegs": 3.0}, "n1": {"TcpRetransSegs": 1.0}, "machine localhost": {"softnet_dropped": 8}}
    docker = [replace(each, node_counters=grown) if "docker" in each.key.cell else each for each in TRIALS]
    table = mean_counters(ROWS, runs_of(docker))
    assert set(table.columns) == {run.environment for run in runs_of(docker) if run.trial.node_counters}
    assert table.rows == (
        ("TcpRetransSegs", ("4",) * len(table.columns)),
        ("softnet_dropped (machine)", ("8",) * len(table.columns)),
    )
    assert mean_counters(ROWS, runs_of(TRIALS)).rows == (), "older results have no counters by place"
