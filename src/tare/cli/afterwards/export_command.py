"""What `tare report RESULTS --format NAME` does: write one format, to a file or to standard output."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tare.cli import commands, session
from tare.cli.afterwards.options import ReportOptions
from tare.cli.output import writing
from tare.errors import UsageError
from tare.model.text import printable
from tare.report.export import FORMATS, FilesFormat, TextFormat
from tare.report.frames import Source
from tare.store.writer import read_only
from tare.system.safe_files import write_output


def report_results(asked: ReportOptions) -> int:
    """Print the tables and write page and figures, if asked; or write one format. Return the exit code."""
    if (asked.html or asked.figures) and (asked.form or asked.output):
        raise UsageError("--html or --figures, and --format, are two reports", remedy="leave one of them out")
    if asked.output and not asked.form:
        raise UsageError("-o needs a format", remedy=f"name one with --format: {', '.join(FORMATS)}")
    if asked.form:
        return export_results(asked.results, asked.form, asked.output)
    return commands.show_report(asked.results, asked.html, asked.figures, details=asked.details)


def export_results(folder: Path, name: str, output: Path | None) -> int:
    """Write a results folder in a format, and return the exit code of the results."""
    write = _writer(name, output)
    results = read_only(folder, skip_damaged=True)
    for caveat in results.caveats:
        print(f"tare: {printable(caveat)}", file=sys.stderr)
    source = Source(results, session.summary_of(results, folder))
    with writing("the report", output or "standard output", "file with -o"):
        write(source)
    return source.summary.exit_code


def _writer(name: str, output: Path | None) -> Callable[[Source], None]:
    """Return what writes a format; raise `UsageError` if there is no such format, or no place for its files."""
    if name not in FORMATS:
        close = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"unknown format {name!r} of a report{hint}", remedy=f"known: {', '.join(FORMATS)}")
    match FORMATS[name]:
        case TextFormat(text=text):
            return partial(_write_text, text, output)
        case FilesFormat(write=write, zips=zips):
            if output is None:
                place = "folder or a .zip file" if zips else "folder"
                raise UsageError(f"the format {name} has several files", remedy=f"name a {place} for them with -o")
            return lambda source: write(source, output)


def _write_text(text: Callable[[Source], str], output: Path | None, source: Source) -> None:
    shown = text(source)
    if output is not None:
        write_output(output, [shown])
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(shown.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
