"""Render the HTML report: one file that opens offline and contains the plots, their data and plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from jinja2 import Environment as Jinja
from jinja2 import PackageLoader, StrictUndefined

from tare.model import Summary, Trial, Verdict
from tare.report import embed, first_screen, published, remarks, units, view
from tare.report.manifest import sections
from tare.report.metric_pages import MetricPage, metric_page
from tare.report.plots.styles import Style, styles
from tare.report.runs import ShownLaunch, by_group, cell_rows, commands, launches, listed, trial_row
from tare.report.samples import SampleSource, collect, row_key
from tare.report.samples.counting import Counts
from tare.report.sweeps import sweeps_of
from tare.report.tables import merge
from tare.report.traffic import TrafficTables, traffic_tables
from tare.report.verdicts import EXIT_MEANINGS, VERDICT_STYLES, mark


def render_html(summary: Summary, trials: Sequence[Trial], samples: SampleSource, counts: Counts | None = None) -> str:
    """Return the report as one HTML document. Samples are read one trial at a time and not kept in memory.

    `counts` has counted them already, or does so on another core (`tare.report.samples.counting`).
    """
    counts = counts or partial(collect, samples)
    runs = launches(summary, trials)
    runs_of = by_group(runs)
    groups = view.groups(summary)
    shown = merge(view.judged(groups))
    tables = [first_screen.table(group, view.heading(group, shown), summary) for group in shown]
    style_of = styles(list(dict.fromkeys(name for group in groups for name in group.rows)), summary)
    traffic = [_traffic(group, number, runs_of.get(group.name, [])) for number, group in enumerate(groups)]
    data: dict[str, str] = {}
    pages = [
        _without_data(page, data)
        for group in groups
        for page in _pages(group, summary, runs_of.get(group.name, []), counts, style_of)
    ]
    sweeps = [sweep for group in groups for sweep in sweeps_of(group, summary, style_of)]
    data |= {figure.ident: embed.figure_json(figure) for sweep in sweeps for figure in sweep.figures}
    trial_columns = [head.column for table in tables for head in table.heads] if len(tables) == 1 else []
    plotly = embed.asset("plotly", "package_data/plotly.min.js")
    script = embed.asset("tare.report", "templates/report.js")
    style = embed.asset("tare.report", "templates/report.css")
    return _jinja().get_template("report.html.j2").render(
        summary=summary,
        confidence=f"{summary.confidence * 100:g}",
        policy=embed.policy(scripts=(plotly, script), styles=(style, "")),
        clauses=view.clauses(summary),
        machine=view.machine_line(summary) if summary.emulated else summary.machine,
        counts=view.counts_text(summary),
        warnings=remarks.warnings(summary, view.disturbed_text(summary)),
        missed=remarks.missed_text(summary),
        next_look=remarks.looks_text(summary),
        tables=tables,
        pages=pages,
        sweeps=sweeps,
        traffic=list(filter(None, traffic)),
        published=published.rows(summary, groups),
        looks=VERDICT_STYLES,
        seen={comparison.verdict for comparison in summary.comparisons},
        ladder=_ladder_symbols(summary),
        adjusted=any(comparison.adjusted_for for comparison in summary.comparisons),
        has_loop=any(comparison.loop_s for comparison in summary.comparisons),
        exit_meaning=EXIT_MEANINGS.get(summary.exit_code, "unknown"),
        sections=sections(summary.manifest),
        cells=cell_rows(summary, runs),
        commands=commands(runs),
        launches=len(runs),
        runs=[trial_row(run, [column.info for column in trial_columns]) for run in listed(runs)],
        trial_columns=trial_columns,
        data=embed.figure_data(data),
        script=script,
        style=style,
        plotly=plotly,
        plotly_styles=embed.find_style_ids(plotly),
    )  # fmt: skip


def _without_data(page: MetricPage, data: dict[str, str]) -> MetricPage:
    """Move the data of a page's plots to `data`, as JSON: as lists, those of many pages would take gigabytes."""
    data |= {figure.ident: embed.figure_json(figure) for figure in page.figures}
    return replace(page, figures=tuple(replace(figure, spec={}) for figure in page.figures))


def _traffic(group: view.TableGroup, number: int, runs: Sequence[ShownLaunch]) -> TrafficTables | None:
    return traffic_tables(group.name, f"traffic-{number}", group.rows, runs)


def _pages(
    group: view.TableGroup,
    summary: Summary,
    runs: Sequence[ShownLaunch],
    counts: Counts,
    style_of: Mapping[str, Style],
) -> list[MetricPage]:
    """Return the pages of a group's metrics; samples of one group at a time are in memory, as histograms."""
    histograms = counts((row_key(run.group, run.environment), run.trial) for run in runs if run.completed)
    first = view.first_screen(group.columns)
    return [
        metric_page(column, group, summary, runs, histograms, style_of, column in first) for column in group.columns
    ]


@cache
def _jinja() -> Jinja:
    environment = Jinja(
        loader=PackageLoader("tare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["keep_together"] = units.keep_together
    environment.filters["percent"] = lambda fraction: units.percent(fraction, sign=False)
    return environment


def _ladder_symbols(summary: Summary) -> str:
    """Return the "no cost" symbols that occur in the report, each with its margin in per cent."""
    margins = {item.within for item in summary.comparisons if item.within is not None}
    return (
        " ".join(mark(Verdict.NO_COST, within) for within in sorted(margins)) or VERDICT_STYLES[Verdict.NO_COST].symbol
    )
