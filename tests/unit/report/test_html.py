"""The HTML report is one file, lists everything and escapes everything; a golden file holds its first screen."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import samples_factory as factory
from factory_options import SWEEP, Floats, Options
from tare.analysis.summary import summarise
from tare.model import Placement, Trial, Verdict
from tare.report import render_html, units, view
from tare.report.html import figures_of
from tare.report.manifest import sections
from tare.store.writer import read_only
from unit.summaries import NoSamples

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
UPDATE = os.environ.get("TARE_UPDATE_GOLDEN") == "1"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/report/test_html.py` rewrites the golden files; review the difference."""


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=60))


@pytest.fixture(scope="module")
def page(result: factory.Result) -> str:
    return render_html(result.summary, result.trials, result.samples)


def _first_screen(page: str) -> str:
    """Return the first screen with bars replaced by a mark, a tag a line, so that a difference can be read."""
    match = re.search(r'<section id="result".*?</section>', page, re.DOTALL)
    assert match
    text = re.sub(r"<svg.*?</svg>", "[bar]", match[0], flags=re.DOTALL)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"


def test_the_first_screen_equals_its_golden_file(page: str) -> None:
    path = GOLDEN / "first-screen.html"
    if UPDATE:
        path.write_text(_first_screen(page), encoding="utf-8")
    assert _first_screen(page) == path.read_text(encoding="utf-8")


def test_the_page_loads_nothing_is_small_enough_to_mail_and_its_tags_are_closed(page: str) -> None:
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*["']""", markup)
    assert len(page.encode()) < 1_000_000
    outline = _Outline()
    outline.feed(re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", page, flags=re.DOTALL))
    assert not outline.open
    assert len(outline.idents) == len(set(outline.idents))


def test_reports_of_stored_results_and_of_the_quick_start_are_at_most_1_5_mb() -> None:
    stored = read_only(Path(__file__).parents[2] / "data/results-0.1.0")
    summary = summarise(stored.plan, stored.trials, stored.facts)
    assert len(render_html(summary, stored.trials, stored).encode()) <= 1_500_000
    quick = factory.make(Options(rounds=10, samples=1000, trouble=False))  # as many rows, columns and rounds
    assert len(render_html(quick.summary, quick.trials, quick.samples).encode()) <= 1_500_000


class _Outline(HTMLParser):
    """Collect identifiers and open tags."""

    def __init__(self) -> None:
        super().__init__()
        self.idents: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.idents += [value for name, value in attrs if name == "id" and value]
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_figure_is_in_the_page_and_needs_no_script(result: factory.Result, page: str) -> None:
    figures = [figure.ident for _, figure in figures_of(result.summary, result.trials, result.samples)]
    assert figures == re.findall(r'<figure[^>]* id="([^"]+)-figure"', page)
    assert page.count('<svg class="chart"') == len(figures) + page.count('<details class="closer">')
    assert "<style" not in re.sub(r"<style>.*?</style>", "", page, count=1, flags=re.DOTALL)
    assert " style=" not in page


class _SlowAtFirst(factory.FakeSamples):
    """Samples of which the first tenth takes half as long again, and neighbours resemble each other."""

    def columns(self, trial: Trial) -> Mapping[str, Floats]:
        waves = np.exp(0.3 * np.sin(np.arange(self.count) / 4))
        waves[: self.count // 10] *= 1.5
        factory_columns = factory.FakeSamples.columns(self, trial)
        return {name: values * waves for name, values in factory_columns.items()}


def test_what_the_order_of_iterations_shows_is_in_the_page(result: factory.Result, page: str) -> None:
    assert not re.search(r'id="(warm-up|dependence)-', page), "samples in random order show nothing"
    slow = _SlowAtFirst(shapes=result.samples.shapes, count=result.samples.count)
    with_order = render_html(result.summary, result.trials, slow)
    assert "Warm-up is not over on " in with_order
    assert "depend on the one before" in with_order
    column = view.groups(result.summary)[0].columns[0].ident
    for kind in ("warm-up", "dependence"):
        assert f'id="{kind}-{column}-figure"' in with_order


def test_every_planned_cell_and_every_launch_is_listed_with_its_reason(result: factory.Result, page: str) -> None:
    cells = page[page.index('<section id="cells"') : page.index('<section id="trials"')]
    assert cells.count('<th scope="row">') == len(result.plan.cells)
    assert "no driver macvlan" in cells
    assert "12 % of the payload" in cells
    assert "rank 1 ended by signal 11" in cells
    trials = page[page.index('<section id="trials"') :]
    assert trials.count('<th scope="row">') == len(result.trials)
    assert "superseded by another launch" in trials


def test_the_lab_is_named_and_a_cluster_is_not_called_a_lab(page: str) -> None:
    assert "emulated lab" in page
    real = factory.make(Options(rounds=3, samples=10, emulated=False))
    text = render_html(real.summary, real.trials, real.samples)
    assert "emulated" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL).lower()


def test_text_from_outside_is_escaped(result: factory.Result) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    given = factory.with_causes(result).summary
    comparison = replace(given.comparisons[2], reason=evil, verdict=Verdict.INVALID)
    summary = replace(
        given,
        headline=evil,
        machine=evil,
        manifest={"host": {evil: evil}},
        comparisons=(*given.comparisons[:2], comparison, *given.comparisons[3:]),
        environments=tuple(replace(environment, image=evil) for environment in given.environments),
        metrics=tuple(replace(info, label=evil) for info in given.metrics),
        causes=tuple(replace(one, words=f"cause {evil}", remedy=evil, name=evil) for one in given.causes),
    )
    page = render_html(summary, result.trials, result.samples)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "cause &lt;/script&gt;&lt;script&gt;alert" in page


def test_a_result_of_real_code_and_one_without_samples_or_trials_make_a_report(result: factory.Result) -> None:
    page = render_html(replace(result.summary, cells=()), (), NoSamples())
    assert "0 launches" in page
    assert 'id="forest-' in page
    assert 'id="ecdf-' not in page
    summary = summarise(result.plan, result.trials, {"cpu": "Xeon", "cores": 2, "identity": {"kernel": "6.1"}})
    page = render_html(summary, result.trials, result.samples)
    assert units.keep_together(summary.headline) in page
    assert page.count("<td class=") > 50


def test_two_placements_make_two_tables_and_a_sweep_shows_every_benchmark_first(result: factory.Result) -> None:
    placements = (Placement(), Placement(ranks_per_node=2))
    both = factory.make(Options(rounds=3, samples=10, placements=placements))
    page = render_html(both.summary, both.trials, both.samples)
    assert len(re.findall(r'<table class="first[ "]', page)) == 2
    assert "2n x 2r" in page
    swept = factory.make(Options(shapes=SWEEP, rounds=3, samples=10))
    columns = view.first_screen(view.groups(swept.summary)[0].columns)
    assert [column.info.key for column in columns] == [
        "latency:1", "latency:1048576", "bw:64", "barrier", "alltoallv:65536", "spacing:8@10000.receive",
    ]  # fmt: skip


def test_a_manifest_of_any_shape_is_formatted_with_names_of_sysctls_and_acronyms_in_capitals() -> None:
    manifest_sections = sections(
        {"seed": 1, "host": {"memory_bytes": 1 << 30, "deep": {"a": {"b": None}}, "list": ["x", 2]}}
    )
    assert [(section.title, section.facts) for section in manifest_sections] == [
        ("study", (("seed", "1"),)),
        ("host", (("memory", "1 GiB"), ("deep: a: b", "none"), ("list", "x, 2"))),
    ]
    (section,) = sections({"host": {"cpu": "Xeon", "net.core.rmem_max": "4", "boot_id": "x"}})
    assert [name for name, _ in section.facts] == ["CPU", "net.core.rmem_max", "boot id"]
