"""Published results are compared with measured ones, each as a fraction of its own baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import samples_factory as factory
from factory_options import Options
from tare.errors import StudyError
from tare.model import Comparison, Estimate, Link, MetricKind, Published, Summary, Verdict
from tare.report import NoSamples, render_html, render_text
from tare.report.published import NOT_MEASURED, conditions, fraction_of_baseline, rows
from tare.report.view import groups
from tare.study import load, parse
from unit.study_texts import ENVIRONMENTS, WORK

SOURCE = "a paper, figure 4"


@pytest.fixture(scope="module")
def summary() -> Summary:
    return factory.make(Options(samples=10)).summary


def table(summary: Summary, *published: Published) -> list[tuple[str, str, str]]:
    published_rows = rows(replace(summary, published=published), groups(summary))
    return [(row.metric, row.published, row.here) for row in published_rows]


def comparison(overhead: Estimate | None) -> Comparison:
    return Comparison(metric="m", environment="e", group="g", verdict=Verdict.COSTS, overhead=overhead)


def test_a_rate_is_the_inverse_of_a_cost() -> None:
    cost = comparison(Estimate(value=0.25, low=0.0, high=1.0, n=6))
    rate = fraction_of_baseline(cost, MetricKind.RATE)
    assert (rate.value, rate.low, rate.high, rate.n) == (0.8, 0.5, 1.0, 6)
    time = fraction_of_baseline(cost, MetricKind.COST)
    assert (time.value, time.low, time.high) == (1.25, 1.0, 2.0)
    with pytest.raises(ValueError, match="no overhead"):
        fraction_of_baseline(comparison(None), MetricKind.COST)


def test_a_row_is_made_for_each_metric_that_is_meant(summary: Summary) -> None:
    one = Published(environment="docker+overlay", workload="micro", metric="bw*", of_baseline=0.2, source=SOURCE)
    ((label, published, here),) = table(summary, one)
    assert label.startswith("bw")
    assert published == "20 %"
    (cell,) = [c for c in summary.comparisons if c.environment == one.environment and c.metric.startswith("bw")]
    assert cell.overhead is not None
    assert float(here.split()[0]) == pytest.approx(100 / (1 + cell.overhead.value), abs=0.06)
    every = table(summary, replace(one, metric=""))
    assert len(every) == len(summary.metrics)


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


def test_the_terminal_shows_published_results(summary: Summary) -> None:
    one = Published(environment="docker+overlay", workload="micro", metric="bw*", told="half of it", source=SOURCE)
    assert "published: half of it" in render_text(replace(summary, published=(one,)), width=200)


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
        (
            "", 10**9, "",
            "published under other conditions (not stated in the study file); here: 1 Gbit/s",
        ),
    ],
)  # fmt: skip
def test_a_published_figure_has_its_conditions(
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


def test_a_study_states_published_results() -> None:
    study = parse(stated("docker+host", "w", "of_baseline: 80%"))
    assert study.published == (Published(environment="docker+host", workload="w", of_baseline=0.8, source="a paper"),)


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
def test_a_published_result_without_a_counterpart_is_refused(
    environment: str, workload: str, ratio: str, message: str
) -> None:
    with pytest.raises(StudyError) as caught:
        parse(stated(environment, workload, ratio))
    assert message in str(caught.value)
