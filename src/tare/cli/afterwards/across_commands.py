"""Run `tare compare` and `tare history`: read results folders, print what changed, write JSON or HTML."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tare.across import pages
from tare.across.compare import across, check_common
from tare.across.compare_data import compare_data
from tare.across.compare_terminal import CompareReport
from tare.across.differences import check_kinds, differences, refuse_undeclared
from tare.across.history import history
from tare.across.history_data import history_data
from tare.across.history_terminal import HistoryReport
from tare.across.reading import read
from tare.cli.output import write_page
from tare.errors import EXIT_DONE, EXIT_OVER_LIMIT, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where a comparison goes: JSON instead of text on stdout, and an HTML page."""

    as_json: bool = False
    html: Path | None = None


def show_compare(folders: Sequence[Path], expected: Sequence[str], outputs: Outputs) -> int:
    """Compare results folders with the first of them."""
    if not 2 <= len(folders) <= len(string.ascii_uppercase):
        raise UsageError(
            f"tare compare needs 2 to {len(string.ascii_uppercase)} results folders, not {len(folders)}",
            remedy="name them in order: what others are compared with comes first",
        )
    declared = check_kinds(expected)
    labels = string.ascii_uppercase[: len(folders)]
    readings = [read(folder) for folder in folders]
    check_common(readings, labels)
    found = differences(readings)
    refuse_undeclared(found, declared, labels, [str(reading.path) for reading in readings])
    result = across(readings, labels, found, declared)
    _show(compare_data(result), CompareReport(across=result), outputs)
    _write_html(outputs, lambda: pages.compare_page(result))
    return EXIT_DONE


def show_history(
    folder: Path, cells: Sequence[str], outputs: Outputs, *, overhead: bool, last: int, fail: bool, within: int
) -> int:
    """Print cells over many results; with `fail`, return 1 if one is slower since at most `within` results."""
    result = history(folder, cells, overhead=overhead, last=last)
    _show(history_data(result), HistoryReport(history=result), outputs)
    _write_html(outputs, lambda: pages.history_page(result))
    slower = [series for series in result.series if series.slower_within(within)]
    return EXIT_OVER_LIMIT if fail and slower else EXIT_DONE


def _show(data: dict[str, Any], report: CompareReport | HistoryReport, outputs: Outputs) -> None:
    if outputs.as_json:
        print(json.dumps(data, indent=1, ensure_ascii=True))
    else:
        Console().print(report)


def _write_html(outputs: Outputs, render: Callable[[], str]) -> None:
    if outputs.html is None:
        return
    write_page(outputs.html, render())
    if not outputs.as_json:
        print(f"page: {outputs.html}")
