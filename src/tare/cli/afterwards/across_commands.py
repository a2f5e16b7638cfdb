"""Run `tare compare` and `tare history`: read results folders, print what changed, write JSON or HTML."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

from rich.console import Console

from tare.cli.afterwards.options import CompareOptions, HistoryOptions
from tare.cli.output import write_page
from tare.compare import pages
from tare.compare.compare import across, check_common
from tare.compare.compare_data import compare_data
from tare.compare.compare_terminal import CompareReport
from tare.compare.differences import check_kinds, differences, refuse_undeclared
from tare.compare.history import history
from tare.compare.history_data import history_data
from tare.compare.history_terminal import HistoryReport
from tare.compare.reading import read
from tare.errors import EXIT_DONE, EXIT_OVER_LIMIT, UsageError


def show_compare(asked: CompareOptions) -> int:
    """Compare results folders with the first of them."""
    folders = asked.results
    if not 2 <= len(folders) <= len(string.ascii_uppercase):
        raise UsageError(
            f"tare compare needs 2 to {len(string.ascii_uppercase)} results folders, not {len(folders)}",
            remedy="name them in order: what others are compared with comes first",
        )
    declared = check_kinds(asked.expect or ())
    labels = string.ascii_uppercase[: len(folders)]
    readings = [read(folder) for folder in folders]
    check_common(readings, labels)
    found = differences(readings)
    refuse_undeclared(found, declared, labels, [str(reading.path) for reading in readings])
    result = across(readings, labels, found, declared)
    _show(compare_data(result), CompareReport(across=result), asked, lambda: pages.compare_page(result))
    return EXIT_DONE


def show_history(asked: HistoryOptions) -> int:
    """Print cells over many results; return 1 if it is to fail and one is slower since at most `within` results."""
    result = history(asked.folder, asked.cell or (), overhead=asked.overhead, last=asked.last)
    _show(history_data(result), HistoryReport(history=result), asked, lambda: pages.history_page(result))
    slower = [series for series in result.series if series.slower_within(asked.within)]
    return EXIT_OVER_LIMIT if asked.fail_on_change and slower else EXIT_DONE


def _show(
    data: dict[str, Any],
    report: CompareReport | HistoryReport,
    asked: CompareOptions | HistoryOptions,
    page: Callable[[], str],
) -> None:
    if asked.as_json:
        print(json.dumps(data, indent=1, ensure_ascii=True))
    else:
        Console().print(report)
    if asked.html is not None:
        write_page(asked.html, page())
        if not asked.as_json:
            print(f"page: {asked.html}")
