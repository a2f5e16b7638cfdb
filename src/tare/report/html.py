"""Make the HTML report: one file that opens offline, with its drawings, their data and the library that draws them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment as Jinja
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup

from tare.model import Comparison, Estimate, MetricInfo, MetricKind, Summary, Trial, Verdict
from tare.report import bars, plots_launches, plots_overhead, plots_samples, published, remarks, units, view
from tare.report.cells import BLOCKED, CellText, cell_text, disagree, percent_up
from tare.report.figures import Figure, Style, styles
from tare.report.manifest import sections
from tare.report.runs import Launch, cell_rows, launches, outcome_reason, outcome_word
from tare.report.samples import Histograms, SampleSource, collect, columns_of, gap_columns, main_column
from tare.report.tables import together
from tare.report.traffic import beside
from tare.report.verdicts import EXIT_MEANINGS, LOOKS, mark
from tare.report.view import Column, Group

CURVE_POINTS: Final = 240
FIGURES: Final = (
    "typical", "mean", "loop (back to back)", "p99", "added", "overhead", "interval that decides", "at most",
    "mean's overhead", "mean at most", "ratio of medians (BCa)", "p (Holm)", "overhead over all launches",
)  # fmt: skip
"""The columns of a metric's table of values."""

STARTUP_WORDS: Final = {"pods_s": "containers up", "mpi_init_s": "MPI_Init", "launch_s": "launch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cell of the first screen with its bar."""

    text: CellText
    bar: Markup
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a column of the first screen."""

    column: Column
    axis: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The first screen's table of one group, and the sentences below it."""

    group: Group
    heading: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[str, tuple[Drawn, ...], remarks.Note | None], ...]
    notes: tuple[remarks.Note, ...]
    doubts: tuple[str, ...]
    causes: tuple[tuple[str, str], ...]
    launches: tuple[remarks.LaunchRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A row of a metric's table of values: its mark, how many rounds, and the figures by column."""

    mark: str
    n: str
    figures: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures and the table of values of one metric."""

    column: Column
    figures: tuple[Figure, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, Comparison, Values], ...]
    states: tuple[str, ...]
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The figures of one benchmark over message sizes."""

    name: str
    figures: tuple[Figure, ...]


def render_html(summary: Summary, trials: Sequence[Trial], samples: SampleSource) -> str:
    """Return the report as one HTML document. Samples are read one trial at a time and not kept."""
    runs = launches(summary, trials)
    histograms = collect(samples, ((_row(run.group, run.environment), run.trial) for run in runs if run.completed))
    groups = view.groups(summary)
    shown = together(view.judged(groups))
    tables = [_table(group, view.heading(group, shown), summary) for group in shown]
    look = styles(list(dict.fromkeys(name for group in groups for name in group.rows)), summary)
    pages = [
        _figures(column, group, summary, runs, histograms, look, column in view.first_screen(group.columns))
        for group in groups
        for column in group.columns
    ]
    sweeps = [sweep for group in groups for sweep in _sweeps(group, summary, look)]
    tables_beside = [beside(group.name, f"beside-{number}", group.rows, runs) for number, group in enumerate(groups)]
    every = [figure for sweep in sweeps for figure in sweep.figures]
    every += [figure for page in pages for figure in page.figures]
    plotly, script = _asset("plotly", "package_data/plotly.min.js"), _asset("tare.report", "templates/report.js")
    style = _asset("tare.report", "templates/report.css")
    return _jinja().get_template("report.html.j2").render(
        summary=summary,
        confidence=f"{summary.confidence * 100:g}",
        policy=_policy(scripts=(plotly, script), styles=(style, "")),
        clauses=view.clauses(summary),
        machine=view.machine_line(summary) if summary.emulated else summary.machine,
        counts=view.counts_text(summary),
        warnings=remarks.warnings(summary, view.disturbed_text(summary)),
        missed=remarks.missed_text(summary),
        next_look=remarks.looks_text(summary),
        tables=tables,
        pages=pages,
        sweeps=sweeps,
        beside=[each for each in tables_beside if each is not None],
        published=published.rows(summary, groups),
        looks=LOOKS,
        seen={comparison.verdict for comparison in summary.comparisons},
        ladder=_ladder(summary),
        adjusted=any(comparison.adjusted_for for comparison in summary.comparisons),
        has_loop=any(comparison.loop_s for comparison in summary.comparisons),
        exit_meaning=EXIT_MEANINGS.get(summary.exit_code, "unknown"),
        sections=sections(summary.manifest),
        cells=cell_rows(summary, runs),
        commands=_commands(runs),
        runs=[_trial_row(run, summary) for run in runs],
        trial_columns=[head.column for table in tables for head in table.heads] if len(tables) == 1 else [],
        data=_figure_data(every),
        script=script,
        style=style,
        plotly=plotly,
        plotly_styles=_own_styles(plotly),
    )  # fmt: skip


def _row(group: str, environment: str) -> str:
    return f"{group}\n{environment}"


@cache
def _jinja() -> Jinja:
    environment = Jinja(
        loader=PackageLoader("tare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["together"] = units.together
    environment.filters["percent"] = lambda fraction: units.percent(fraction, sign=False)
    return environment


@cache
def _asset(package: str, path: str) -> Markup:
    """Read a script or style sheet that goes into the page as it is; it must not end its own element."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as a browser reads it, which then takes its hash
    return Markup(text.replace("</script", "<\\/script").replace("</style", "<\\/style"))  # noqa: S704 - our own files


def _policy(*, scripts: Sequence[str], styles: Sequence[str]) -> Markup:
    """Return the Content-Security-Policy: these scripts and style sheets run, by their hashes, and nothing else.

    Plotly makes a style element that is empty at first, so the hash of nothing is among those of the styles.
    """
    script, style = (" ".join(f"'sha256-{_hash(text)}'" for text in texts) for texts in (scripts, styles))
    return Markup(f"default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:")  # noqa: S704 - base64


def _own_styles(plotly: str) -> tuple[str, ...]:
    """Return the identifiers of style sheets that plotly adds to a page where it has none of that name: those of maps.

    The policy would refuse them, with an error in the console. An empty one of the name keeps plotly from trying.
    """
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly)))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _ladder(summary: Summary) -> str:
    """Return the symbols of "no cost" that a report has, each with its per cent."""
    shown = {item.within for item in summary.comparisons if item.within is not None}
    return " ".join(mark(Verdict.NO_COST, within) for within in sorted(shown)) or LOOKS[Verdict.NO_COST].symbol


def drawable(value: Any) -> Any:
    """Return what a plot is made of, with nothing in place of an infinite bound: that of two rounds may be."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: drawable(inner) for key, inner in value.items()}
    return [drawable(inner) for inner in value] if isinstance(value, list | tuple) else value


def _figure_data(figures: Sequence[Figure]) -> Markup:
    """Return all figures as JSON that cannot end the script element that holds it."""
    text = json.dumps(
        {figure.ident: drawable(figure.spec) for figure in figures}, separators=(",", ":"), allow_nan=False
    )
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - JSON with every `<` escaped


# --- first screen -----------------------------------------------------------------------------------------------


def _table(group: Group, heading: str, summary: Summary) -> Table:
    columns = view.first_screen(group.columns)
    scales = [bars.Scale.of(_drawn_estimates(column), summary.margin) for column in columns]
    reasons = {
        note.environments[0]: note
        for note in remarks.notes(group)
        if not note.columns and len(note.environments) == 1 and note.verdict in BLOCKED
    }
    rows = tuple(
        (
            name,
            tuple(_drawn(column, name, scale, summary) for column, scale in zip(columns, scales, strict=True)),
            reasons.get(name),
        )
        for name in group.rows
    )
    heads = tuple(Head(column=column, axis=bars.axis(scale)) for column, scale in zip(columns, scales, strict=True))
    notes = tuple(note for note in remarks.notes(group) if note not in reasons.values())
    return Table(
        group=group,
        heading=heading,
        heads=heads,
        rows=rows,
        notes=notes,
        doubts=remarks.doubts(group, summary),
        causes=remarks.causes(group, summary),
        launches=remarks.launch_rows(group, summary),
    )


def _drawn_estimates(column: Column) -> list[Estimate]:
    return [
        estimate
        for cell in column.cells.values()
        for estimate in (cell.overhead, cell.simultaneous)
        if estimate is not None
    ]


def _drawn(column: Column, name: str, scale: bars.Scale, summary: Summary) -> Drawn:
    comparison = column.cells.get(name)
    text = cell_text(column, comparison, summary)
    noise = column.noise.overhead if column.noise else None
    svg = Markup("")
    if text.drawn is not None:
        svg = bars.bar(scale, text.drawn, text.outer, noise, summary.margin)
    return Drawn(text=text, bar=svg, title=_cell_title(name, column, comparison, text))


def _cell_title(name: str, column: Column, comparison: Comparison | None, text: CellText) -> str:
    parts = [f"{name}, {column.info.label}: {text.verdict.value}"]
    if comparison and comparison.overhead:
        parts.append(f"n = {comparison.overhead.n} rounds")
    if comparison and comparison.simultaneous:
        parts.append(f"the interval that decides {units.overhead_interval(comparison.simultaneous).bounds}")
    if comparison and comparison.absolute_s:
        parts.append(f"absolute {column.absolute(comparison.absolute_s)}")
    if comparison and disagree(column, comparison):
        parts.append("overhead (geometric mean) and added time (arithmetic mean) differ in sign")
    if text.note:
        parts.append(text.note)
    return "; ".join(parts)


# --- a page per metric ------------------------------------------------------------------------------------------


def _figures(
    column: Column,
    group: Group,
    summary: Summary,
    runs: Sequence[Launch],
    histograms: Histograms,
    look: Mapping[str, Style],
    is_open: bool,
) -> Figures:
    figures = [
        plots_overhead.forest(column, group.rows, summary),
        plots_launches.launches(column, group.rows, runs, look),
        plots_launches.order(column, group.rows, runs, look),
        *_sample_figures(column, group, summary, histograms, look),
    ]
    values = _values(column, group)
    filled = {name for _, _, row in values for name, text in row.figures.items() if text}
    return Figures(
        column=column,
        figures=tuple(figures),
        columns=tuple(name for name in FIGURES if name in filled),
        values=values,
        states=remarks.state_texts(column, summary),
        open=is_open,
    )


def _sample_figures(
    column: Column, group: Group, summary: Summary, histograms: Histograms, look: Mapping[str, Style]
) -> list[Figure]:
    here = {_row(group.name, name): name for name in group.rows}
    keys = {(metric, side) for row, metric, side in histograms if row in here}
    stored, own = columns_of(column.info.key, keys)
    main = main_column(own)
    if main is None:
        return []
    found = {
        name: {
            side: histograms[row, stored, side]
            for metric, side in keys
            if metric == stored and (row, stored, side) in histograms
        }
        for row, name in here.items()
    }
    curves = {name: sides[main].curve(CURVE_POINTS) for name, sides in found.items() if main in sides}
    figures = [plots_samples.ecdf(column, curves, look, summary.baseline, is_gap="gap" in main)]
    gaps = gap_columns(side for metric, side in keys if metric == stored)
    if gaps and main == gaps[0]:
        both = {name: {side: sides[side] for side in gaps if side in sides} for name, sides in found.items() if sides}
        figures.append(plots_samples.gaps(column, both, look, summary.baseline))
    return figures


def _values(column: Column, group: Group) -> tuple[tuple[str, Comparison, Values], ...]:
    rows = ((name, column.cells.get(name)) for name in group.rows)
    return tuple((name, cell, _value_texts(column, cell)) for name, cell in rows if cell is not None)


def _value_texts(column: Column, cell: Comparison) -> Values:
    """Return the texts of one row; a column that is empty in all rows is left out of the table."""

    def absolute(cost: Estimate | None) -> str:
        return "" if cost is None else str(column.absolute(cost))

    def overhead(ratio: Estimate | None) -> str:
        return "" if ratio is None else str(units.overhead_interval(ratio))

    def bound(most: float | None) -> str:
        return "" if most is None else percent_up(most)

    figures = (
        absolute(cell.absolute_s),
        absolute(cell.mean_absolute_s),
        absolute(cell.loop_s),
        "" if cell.p99_s is None else units.seconds(cell.p99_s),
        str(column.added(cell.added_s)) if cell.added_s else "",
        overhead(cell.overhead),
        units.overhead_interval(cell.simultaneous).bounds if cell.simultaneous else "",
        bound(cell.at_most),
        overhead(cell.mean.overhead) if cell.mean else "",
        bound(cell.mean.at_most) if cell.mean else "",
        units.ratio_interval(cell.median_ratio) if cell.median_ratio else "",
        units.p_value(cell.p_holm) if cell.p_holm is not None else "",
        overhead(cell.repeats.overhead) if cell.repeats and cell.repeats.repeated else "",
    )
    return Values(
        mark=mark(cell.verdict, cell.within),
        n=str(cell.absolute_s.n) if cell.absolute_s else "",
        figures=dict(zip(FIGURES, figures, strict=True)),
    )


def _sweeps(group: Group, summary: Summary, look: Mapping[str, Style]) -> list[Sweep]:
    families: dict[str, list[Column]] = {}
    for column in group.columns:
        if column.info.message_bytes is not None:
            families.setdefault(view.sweep(column.info), []).append(column)
    result: list[Sweep] = []
    for columns in families.values():
        columns.sort(key=lambda column: column.info.message_bytes or 0)
        if len(columns) >= 2:
            figures = (
                plots_overhead.by_size(columns, group.rows, look),
                plots_overhead.overhead_by_size(columns, group.rows, summary, look),
            )
            result.append(Sweep(name=_common_label(columns), figures=figures))
    return result


def _common_label(columns: Sequence[Column]) -> str:
    """Return what the labels of a family begin with, as `latency` of `latency 8 B` and `latency 64 KiB`."""
    first, *others = [column.info.label.split() for column in columns]
    words = [word for index, word in enumerate(first) if all(other[index : index + 1] == [word] for other in others)]
    return " ".join(words) or view.family(columns[0].info)


# --- launches ---------------------------------------------------------------------------------------------------


def _commands(runs: Sequence[Launch]) -> Mapping[tuple[str, str], str]:
    """Return the command of each environment's last launch."""
    return {(run.group, run.environment): shlex.join(run.trial.argv) for run in runs if run.trial.argv}


def _trial_row(run: Launch, summary: Summary) -> Mapping[str, Any]:
    trial = run.trial
    outcome = trial.outcome
    return {
        "order": run.order,
        "round": trial.key.round + 1,
        "block": trial.key.block + 1,
        "attempt": trial.key.attempt + 1,
        "repeat": trial.key.repeat or "",
        "environment": run.environment,
        "group": run.group,
        "counts": run.counts,
        "outcome": outcome_word(trial),
        "reason": outcome_reason(trial),
        "stderr": getattr(outcome, "stderr_tail", ""),
        "started": datetime.fromtimestamp(trial.started_unix_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "elapsed": units.duration(trial.elapsed_s),
        "startup": ", ".join(
            f"{STARTUP_WORDS.get(name, name)} {units.seconds(value)}" for name, value in trial.startup_s.items()
        ),
        "values": {
            info.key: _metric_text(info, metric.typical_s)
            for info in summary.metrics
            if (metric := run.metrics.get(info.key)) is not None
        },
    }


def _metric_text(info: MetricInfo, value_s: float) -> str:
    if info.kind is MetricKind.RATE and info.done_per_sample > 0 and value_s > 0:
        return units.rate(info.done_per_sample / value_s, info.rate_unit)
    return units.seconds(value_s)
