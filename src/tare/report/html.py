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
from tare.report.plots.figures import Drawing
from tare.report.plots.styles import Style, styles
from tare.report.runs import ShownLaunch, by_group, cell_rows, commands, launches, listed, trial_row
from tare.report.samples import SampleSource, collect, row_key
from tare.report.samples.counting import Counts
from tare.report.samples.drawing import Wanted, drawing
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
    style_of = styles(list(dict.fromkeys(name for group in groups for name in group.rows)), summary)
    data: dict[str, str] = {}
    with drawing(counts, _wanted(groups, summary, runs_of, style_of), runs_of) as drawings:
        tables = [first_screen.table(group, view.heading(group, shown), summary) for group in shown]
        traffic = [_traffic(group, number, runs_of.get(group.name, [])) for number, group in enumerate(groups)]
        pages_of = [_pages(group, summary, runs_of.get(group.name, []), style_of) for group in groups]
        pages = [
            _without_data(page, drawn[page.column.ident], data)
            for of_group, drawn in zip(pages_of, drawings, strict=True)
            for page in of_group
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


def _without_data(page: MetricPage, of_samples: Sequence[Drawing], data: dict[str, str]) -> MetricPage:
    """Add the plots of its samples to a page, and move the data of all its plots to `data`, as JSON."""
    figures = [embed.with_json(figure) for figure in (*page.figures, *of_samples)]
    data |= {figure.ident: figure.json for figure in figures}
    return replace(page, figures=tuple(replace(figure, json="") for figure in figures))


def _wanted(
    groups: Sequence[view.TableGroup],
    summary: Summary,
    runs_of: Mapping[str, Sequence[ShownLaunch]],
    style_of: Mapping[str, Style],
) -> list[Wanted]:
    """Return what the plots of each group's samples show besides samples."""
    return [
        Wanted(
            group=group.name,
            rows=group.rows,
            row_of={
                run.trial.key.cell: row_key(run.group, run.environment)
                for run in runs_of.get(group.name, ())
                if run.completed
            },
            columns=tuple(replace(column, cells={}, baseline=None, noise=None) for column in group.columns),
            style=style_of,
            baseline=summary.baseline,
        )
        for group in groups
    ]


def _traffic(group: view.TableGroup, number: int, runs: Sequence[ShownLaunch]) -> TrafficTables | None:
    return traffic_tables(group.name, f"traffic-{number}", group.rows, runs)


def _pages(
    group: view.TableGroup,
    summary: Summary,
    runs: Sequence[ShownLaunch],
    style_of: Mapping[str, Style],
) -> list[MetricPage]:
    """Return the pages of a group's metrics, without the plots of samples."""
    first = view.first_screen(group.columns)
    return [metric_page(column, group, summary, runs, style_of, column in first) for column in group.columns]


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
