"""Render the HTML report: one file that opens offline, with its figures as SVG, and reads without JavaScript.

The page is made of views: the result, a page for each workload, one for each environment, and the study's records.
Without the page's script they follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

from tare.analysis.explain.failed import FailedCell, failed_cells
from tare.analysis.explain.failed_lines import told_together
from tare.model import Summary, Trial, Verdict
from tare.report import embed, first_screen, published_results, remarks, view
from tare.report.causes import NEXT_STEP
from tare.report.frames.source import NumberedTrial
from tare.report.jinja import templates
from tare.report.manifest import sections
from tare.report.pages.environments import environment_pages
from tare.report.pages.metrics import metric_page
from tare.report.pages.sizes import sweeps_of
from tare.report.pages.workloads import WorkloadPage, with_plots
from tare.report.plots.figures import Drawing
from tare.report.plots.launches import points
from tare.report.plots.styles import Style, styles
from tare.report.runs import by_group, cell_rows, commands, launches, listed, trial_row
from tare.report.samples.counting import Counts, count_here
from tare.report.samples.drawing import GroupPlots, drawing
from tare.report.samples.histograms import SampleSource, row_key
from tare.report.tables import merge
from tare.report.traffic import traffic_tables
from tare.report.verdicts import VERDICT_STYLES, exit_meaning, mark

Groups = Sequence[view.TableGroup]
RunsOf = Mapping[str, Sequence[NumberedTrial]]
"""The launches of each group."""


def prepare() -> None:
    """Load what the first report of a process loads: a second of CPU time, most of it SciPy."""
    for name in ("scipy.optimize", "scipy.special", "scipy.stats"):
        import_module(name)
    templates("tare.report").get_template("report.html.j2")


def render_html(
    summary: Summary,
    trials: Sequence[Trial],
    samples: SampleSource,
    counts: Counts | None = None,
    *,
    addition: embed.Addition | None = None,
) -> str:
    """Return the report as one HTML document; a study that runs has an `addition`. For the rest see `laying_out`."""
    with laying_out(summary, trials, samples, counts, addition=addition) as parts:
        return "".join(parts())


@contextmanager
def laying_out(
    summary: Summary,
    trials: Sequence[Trial],
    samples: SampleSource,
    counts: Counts | None = None,
    *,
    addition: embed.Addition | None = None,
) -> Iterator[Callable[[], Iterator[str]]]:
    """Provide what returns the parts of the HTML document, which is too large to be in memory twice.

    Samples are read one trial at a time and not kept in memory, all before the first part is made. `counts` has counted
    them already, or does so on another core (`tare.report.samples.counting`). If it has, another process begins at once
    to draw the plots, and does so while the block runs (`tare.report.samples.drawing`).
    """
    runs = launches(summary, trials)
    groups = view.groups(summary)
    failed = failed_cells(summary, trials)
    with _drawing(groups, summary, by_group(runs), counts or count_here(samples)) as workload_pages:
        yield lambda: _parts(summary, groups, runs, failed, workload_pages, addition)


def _parts(
    summary: Summary,
    groups: Groups,
    runs: Sequence[NumberedTrial],
    failed: Sequence[FailedCell],
    workload_pages: Callable[[], Sequence[WorkloadPage]],
    addition: embed.Addition | None,
) -> Iterator[str]:
    """Return the parts of the document; all that it shows is arranged before, the workloads' pages last."""
    shown = merge(view.judged(groups))
    tables = [first_screen.table(group, view.heading(group, shown), summary) for group in shown]
    trial_columns = [head.column for table in tables for head in table.heads] if len(tables) == 1 else []
    last_commands = commands(runs)
    environments = environment_pages(groups, summary, last_commands)
    cells = cell_rows(summary, runs)
    rows = [trial_row(run, [column.info for column in trial_columns]) for run in listed(runs)]
    script = embed.asset("tare.report", "templates/report.js")
    style = embed.asset("tare.report", "templates/report.css")
    workloads = workload_pages()
    return templates("tare.report").get_template("report.html.j2").generate(
        summary=summary,
        confidence=f"{summary.confidence * 100:g}",
        policy=_policy(script, style, addition),
        addition=addition,
        machine=view.machine_line(summary) if summary.emulated else summary.machine,
        counts=view.counts_text(summary),
        warnings=remarks.warnings(summary, view.disturbed_text(summary)),
        missed=remarks.missed_text(summary),
        next_look=remarks.looks_text(summary),
        tables=tables,
        workloads=workloads,
        workload_of={page.name: page for page in workloads},
        environments=environments,
        number_of={page.name: page.number for page in environments},
        next_step=NEXT_STEP,
        failed=tuple(told_together(failed)),
        published=published_results.rows(summary, tuple(groups)),
        looks=VERDICT_STYLES,
        seen={comparison.verdict for comparison in summary.comparisons},
        ladder=_ladder_symbols(summary),
        adjusted=any(comparison.adjusted_for for comparison in summary.comparisons),
        has_loop=any(comparison.loop_s for comparison in summary.comparisons),
        exit_meaning=exit_meaning(summary),
        sections=sections(summary.manifest),
        cells=cells,
        commands=last_commands,
        launches=len(runs),
        runs=rows,
        trial_columns=trial_columns,
        script=script,
        style=style,
    )  # fmt: skip


def figures_of(summary: Summary, trials: Sequence[Trial], samples: SampleSource) -> Iterator[tuple[str, Drawing]]:
    """Yield every figure of the report, with the name of its workload."""
    runs_of = by_group(launches(summary, trials))
    with _drawing(view.groups(summary), summary, runs_of, count_here(samples)) as workload_pages:
        for page in workload_pages():
            yield from ((page.name, figure) for figure in page.figures())


@contextmanager
def _drawing(
    groups: Groups, summary: Summary, runs_of: RunsOf, counts: Counts
) -> Iterator[Callable[[], Sequence[WorkloadPage]]]:
    """Provide what returns the page of each workload, with its figures; `counts` provides the samples."""
    style_of = styles(list(dict.fromkeys(name for group in groups for name in group.rows)), summary)
    wanted = _wanted(groups, summary, runs_of, style_of)
    with drawing(counts, wanted, runs_of) as drawings:

        def workload_pages() -> Sequence[WorkloadPage]:
            pages = [
                _workload_page(number, group, summary, runs_of.get(group.name, ()), one)
                for number, (group, one) in enumerate(zip(groups, wanted, strict=True))
            ]
            return [with_plots(page, drawn) for page, drawn in zip(pages, drawings, strict=True)]

        yield workload_pages


def _wanted(groups: Groups, summary: Summary, runs_of: RunsOf, style_of: Mapping[str, Style]) -> list[GroupPlots]:
    """Return what the plots of each group's launches and samples show besides samples."""
    return [
        GroupPlots(
            group=group.name,
            rows=group.rows,
            row_of={
                run.trial.key.cell: row_key(run.group, run.environment)
                for run in runs_of.get(group.name, ())
                if run.completed
            },
            columns=tuple(replace(column, cells={}, noise=None) for column in group.columns),
            plotted={column.ident: points(column, group.rows, runs_of.get(group.name, ())) for column in group.columns},
            style=style_of,
            baseline=summary.baseline,
            share=1 / len(groups),
        )
        for group in groups
    ]


def _workload_page(
    number: int, group: view.TableGroup, summary: Summary, runs: Sequence[NumberedTrial], wanted: GroupPlots
) -> WorkloadPage:
    """Return the page of a workload, without the plots of its launches and samples."""
    first = view.first_screen(group.columns)
    return WorkloadPage(
        ident=f"workload-{number}",
        number=number,
        name=group.name,
        metrics=tuple(
            metric_page(
                column, group, summary, runs, wanted.plotted[column.ident], wanted.style, is_open=column in first
            )
            for column in group.columns
        ),
        sizes=tuple(sweeps_of(group, summary, wanted.style)),
        traffic=traffic_tables(group.name, f"traffic-{number}", group.rows, runs),
    )


def _policy(script: str, style: str, addition: embed.Addition | None) -> str:
    if addition is None:
        return embed.policy(scripts=(script,), styles=(style,))
    return embed.policy(scripts=(script, addition.script), styles=(style, addition.style))


def _ladder_symbols(summary: Summary) -> str:
    """Return the "no cost" symbols that occur in the report, each with its margin in per cent."""
    margins = {item.within for item in summary.comparisons if item.within is not None}
    return (
        " ".join(mark(Verdict.NO_COST, within) for within in sorted(margins)) or VERDICT_STYLES[Verdict.NO_COST].symbol
    )
