"""Declare the options of the commands that read results: reader, default and help of each at one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

AsJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
PageOption = Annotated[Path | None, typer.Option("--html", help="Write an HTML page to this file.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What `tare report` is asked for."""

    results: Annotated[Path, typer.Argument(help="A results folder, such as results/quickstart.", show_default=False)]
    html: Annotated[Path | None, typer.Option(help="Write the HTML report to this file.", show_default=False)] = None
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Write this format: terminal, html, csv, parquet, json, junit, openmetrics or markdown "
            "(docs/formats.md).",
            show_default=False,
        ),
    ] = ""
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File or folder of --format.", show_default="standard output")
    ] = None
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write every figure to this folder, as SVG and PDF.", show_default=False),
    ] = None
    details: Annotated[bool, typer.Option("--details", help="Print intervals, means and caveats, too.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What `tare compare` is asked for."""

    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS", help="Results folders; the others are compared with the first.", show_default=False
        ),
    ]
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Declare a kind of difference, such as kernel or cpu; repeatable; all: every kind "
            "(docs/comparing.md).",
            show_default=False,
        ),
    ] = None
    as_json: AsJsonOption = False
    html: PageOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """What `tare history` is asked for."""

    folder: Annotated[Path, typer.Argument(help="A folder with results folders in or below it.", show_default=False)]
    cell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Show the series that have this in GROUP / ENVIRONMENT / METRIC; repeatable.",
            show_default="all",
        ),
    ] = None
    overhead: Annotated[
        bool, typer.Option("--overhead", help="Follow the overhead against the baseline instead of the cost.")
    ] = False
    last: Annotated[int, typer.Option(min=2, max=200, help="Use only so many of the newest results.")] = 100
    fail_on_change: Annotated[
        bool, typer.Option("--fail-on-change", help="End with 1 if the newest change of a series is to slower.")
    ] = False
    within: Annotated[int, typer.Option(min=1, help="With --fail-on-change: of the last so many results.")] = 10
    as_json: AsJsonOption = False
    html: PageOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsOptions:
    """What `tare claims` is asked for: publications (none: all), results folders, and the form of the answer."""

    papers: Annotated[
        list[str] | None, typer.Argument(help="Publications: names of files in claims/, or files.", show_default=False)
    ] = None
    on: Annotated[
        list[Path] | None, typer.Option("--on", help="A results folder; may be repeated.", show_default=False)
    ] = None
    as_json: AsJsonOption = False
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False
    html: PageOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What `tare explain` is asked for: a results folder, and a part of the names of cells ("": all).

    `run` measures the suspects, `remedy` what is left of the costs without their proven causes; `trace` traces launches
    of the costly cells and of the baseline.
    """

    results: Annotated[Path, typer.Argument(help="A results folder, such as results/quickstart.", show_default=False)]
    cell: Annotated[str, typer.Argument(help="A part of the cells' names, such as docker+overlay.")] = ""
    run: Annotated[bool, typer.Option("--run", help="Measure the suspects: the cells again, each with one change.")] = (
        False
    )
    remedy: Annotated[
        bool, typer.Option("--remedy", help="Measure the cells without their proven causes, and print how to get them.")
    ] = False
    trace: Annotated[
        bool, typer.Option("--trace", help="Trace a few launches with bpftrace: drops, softirqs, system calls (root).")
    ] = False
    rounds: Annotated[int, typer.Option(min=6, help="Rounds of what --run and --remedy measure.")] = 10
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/explain.schema.json) instead.")] = False
