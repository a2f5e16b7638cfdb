"""The row of an environment says why it costs something and what to do, as far as that is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import samples_factory as factory
from factory_options import Options
from tare.model import Cause, Summary, Verdict
from tare.report import render_html, view
from tare.report.causes import NEXT_STEP, RowCause, row_cause


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.with_causes(factory.make(Options(samples=20)))


def of(name: str, summary: Summary) -> RowCause:
    return row_cause(name, view.judged(view.groups(summary))[0].columns, summary)


def test_a_proven_cause_has_its_words_its_share_and_its_remedy(result: factory.Result) -> None:
    (why,) = of("docker+bridge", result.summary).causes
    assert (why.words, why.proven, why.on) == ("packet filter on bridge", True, "")
    assert why.share == "80 % [70 %, 90 %] of the cost"
    assert why.remedy == "sysctl net.bridge.bridge-nf-call-iptables=0"
    assert not of("docker+bridge", result.summary).costs


def test_a_cause_of_some_metrics_names_them_and_the_others_ask_for_an_explanation(result: factory.Result) -> None:
    row = of("docker+overlay", result.summary)
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
        assert of(name, summary) == RowCause()


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


def test_a_cause_from_elsewhere_is_escaped(result: factory.Result) -> None:
    evil = "<script>alert(1)</script>"
    causes = tuple(replace(one, words=evil, remedy=evil, name=evil) for one in result.summary.causes)
    page = render_html(replace(result.summary, causes=causes), result.trials, result.samples)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
