"""Define the commands that read results: `tare explain`, `tare compare`, `tare history`, `tare claims`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ResultsFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESULTS", help="Results folders; the others are compared with the first.", show_default=False
    ),
]
ExpectOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Declare a kind of difference, such as kernel or cpu; repeatable; all: every kind (docs/comparing.md).",
        show_default=False,
    ),
]
CellOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Show the series that have this in GROUP / ENVIRONMENT / METRIC; repeatable.",
        show_default="all",
    ),
]
OverheadOption = Annotated[
    bool, typer.Option("--overhead", help="Follow the overhead against the baseline instead of the cost.")
]
LastOption = Annotated[int, typer.Option(min=2, max=200, help="Use only so many of the newest results.")]
FailOnChangeOption = Annotated[
    bool, typer.Option("--fail-on-change", help="End with 1 if the newest change of a series is to slower.")
]
WithinOption = Annotated[int, typer.Option(min=1, help="With --fail-on-change: of the last so many results.")]
AsJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
PageOption = Annotated[Path | None, typer.Option("--html", help="Write an HTML page to this file.", show_default=False)]


def explain(
    results: Annotated[Path, typer.Argument(help="A results folder, such as results/quickstart.", show_default=False)],
    cell: Annotated[str, typer.Argument(help="A part of the cells' names, such as docker+overlay.")] = "",
    run: Annotated[
        bool, typer.Option("--run", help="Measure the suspects: the cells again, each with one change.")
    ] = False,
    remedy: Annotated[
        bool, typer.Option("--remedy", help="Measure the cells without their proven causes, and print how to get them.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Trace a few launches with bpftrace: drops, softirqs, system calls (root).")
    ] = False,
    rounds: Annotated[int, typer.Option(min=6, help="Rounds of what --run and --remedy measure.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/explain.schema.json) instead.")] = False,
) -> None:
    """Say why cells cost what they cost, and what helps.

    Each cause has what speaks for it, its share of the cost, and the remedy.
    """
    from tare.cli.afterwards.explain_command import Wanted, explain_results

    wanted = Wanted(folder=results, cell=cell, run=run, remedy=remedy, trace=trace, rounds=rounds, as_json=as_json)
    raise typer.Exit(explain_results(wanted))


def compare(
    results: ResultsFolders, expect: ExpectOption = None, as_json: AsJsonOption = False, html: PageOption = None
) -> None:
    """Compare results of two or more sites, days or versions."""
    from tare.cli.afterwards.across_commands import Outputs, show_compare

    raise typer.Exit(show_compare(results, expect or [], Outputs(as_json=as_json, html=html)))


def claims(
    papers: Annotated[
        list[str] | None, typer.Argument(help="Publications: names of files in claims/, or files.", show_default=False)
    ] = None,
    on: Annotated[
        list[Path] | None, typer.Option("--on", help="A results folder; may be repeated.", show_default=False)
    ] = None,
    as_json: AsJsonOption = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    html: PageOption = None,
) -> None:
    """Hold the claims of publications against results.

    A claim is reproduced, contradicted, undecided, or untestable here. With --html, a page shows each claim with
    its interval over the range that is claimed.
    """
    from tare.cli.afterwards.claims_command import Wanted, show_claims

    wanted = Wanted(
        papers=tuple(papers or ()), results=tuple(on or ()), as_json=as_json, as_markdown=as_markdown, html=html
    )
    raise typer.Exit(show_claims(wanted))


def history(
    folder: Annotated[Path, typer.Argument(help="A folder with results folders in or below it.", show_default=False)],
    cell: CellOption = None,
    overhead: OverheadOption = False,
    last: LastOption = 100,
    fail_on_change: FailOnChangeOption = False,
    within: WithinOption = 10,
    as_json: AsJsonOption = False,
    html: PageOption = None,
) -> None:
    """Show cells over many results, and when their level changed."""
    from tare.cli.afterwards.across_commands import Outputs, show_history

    outputs = Outputs(as_json=as_json, html=html)
    raise typer.Exit(
        show_history(folder, cell or [], outputs, overhead=overhead, last=last, fail=fail_on_change, within=within)
    )
