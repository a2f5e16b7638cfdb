"""Render the HTML report: one file that opens offline, with its figures as SVG, and reads without JavaScript.

The page is made of views: the result, a page for each workload, one for each environment, and the study's records.
Without the page's script they follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

from tare.analysis.explain.failed import failed_cells
from tare.analysis.explain.failed_lines import told_together
from tare.model import Summary, Trial, Verdict
from tare.report import embed, first_screen, published_results, remarks, view
from tare.report.causes import NEXT_STEP
from tare.report.jinja import templates
from tare.report.manifest import sections
from tare.report.pages.environments import environment_pages
from tare.report.pages.workloads import workload_pages
from tare.report.plots.figures import Drawing
from tare.report.plots.histograms import SampleSource
from tare.report.runs import cell_rows, commands, launches, listed, trial_row
from tare.report.tables import merge
from tare.report.verdicts import VERDICT_STYLES, exit_meaning, mark


def prepare() -> None:
    """Load what the first report of a process loads: a second of CPU time, most of it SciPy."""
    for name in ("scipy.optimize", "scipy.special", "scipy.stats"):
        import_module(name)
    templates("tare.report").get_template("report.html.j2")


def render_html(
    summary: Summary, trials: Sequence[Trial], samples: SampleSource, addition: embed.Addition | None = None
) -> str:
    """Return the report as one HTML document; a study that runs has an `addition`."""
    return "".join(html_parts(summary, trials, samples, addition))


def html_parts(
    summary: Summary, trials: Sequence[Trial], samples: SampleSource, addition: embed.Addition | None = None
) -> Iterator[str]:
    """Return the parts of the HTML document, which is too large to be in memory twice.

    All that it shows is arranged before the first part is made. Samples are read one trial at a time and not kept.
    """
    runs = launches(summary, trials)
    groups = view.groups(summary)
    shown = merge(view.judged(groups))
    tables = [first_screen.table(group, view.heading(group, shown), summary) for group in shown]
    trial_columns = [head.column for table in tables for head in table.heads] if len(tables) == 1 else []
    last_commands = commands(runs)
    environments = environment_pages(groups, summary, last_commands)
    cells = cell_rows(summary, runs)
    rows = [trial_row(run, [column.info for column in trial_columns]) for run in listed(runs)]
    script = embed.asset("tare.report", "templates/report.js")
    style = embed.asset("tare.report", "templates/report.css")
    workloads = tuple(workload_pages(groups, summary, runs, samples))
    return templates("tare.report").get_template("report.html.j2").generate(
        summary=summary,
        confidence=f"{summary.confidence * 100:g}",
        policy=_policy(script, style, addition),
        addition=addition,
        machine=view.machine_line(summary) if summary.emulated else summary.machine,
        counts=view.counts_text(summary),
        warnings=remarks.warnings(summary),
        missed=remarks.missed_text(summary),
        next_look=remarks.looks_text(summary),
        tables=tables,
        workloads=workloads,
        workload_of={page.name: page for page in workloads},
        environments=environments,
        number_of={page.name: page.number for page in environments},
        next_step=NEXT_STEP,
        failed=tuple(told_together(failed_cells(summary, trials))),
        published=published_results.rows(summary, groups),
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
    for page in workload_pages(view.groups(summary), summary, launches(summary, trials), samples):
        yield from ((page.name, figure) for figure in page.figures())


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
