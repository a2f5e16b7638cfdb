"""Tables as CSV (RFC 4180): a file for each, in a folder or a zip archive.

Numbers are written exactly, and a missing value is an empty field. A text that begins with `=`, `+`, `-`, `@`, a tab
or a carriage return gets an apostrophe in front: a spreadsheet would calculate it as a formula.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from tare.report.export.format import FilesFormat
from tare.report.frames import TABLES, ColumnType, Samples, Source
from tare.report.frames.columns import Column, Row, names_of
from tare.report.frames.samples import COLUMNS as SAMPLE_COLUMNS
from tare.system.safe_files import folder_at, output_file, replacing

ZIP: Final = ".zip"
COMPRESSION: Final = 1
"""The fastest level of deflate: samples hardly compress."""

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet would calculate."""
_TRUTH: Final = {True: "true", False: "false", None: None}


File = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Gives a binary file of a name, open for writing, in the folder or the archive that a user named."""


def write(source: Source, path: Path) -> None:
    """Write every table and the samples to a folder, or to an archive if the name ends in `.zip`."""
    opened = _archive(path) if path.suffix.lower() == ZIP else folder_of_files(path)
    with opened as new:
        for table in TABLES.values():
            with new(f"{table.name}.csv") as file:
                write_rows(file, table.columns, table.rows(source))
        with new("samples.csv") as file:
            write_samples(source, file)


def write_rows(file: IO[bytes], columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows below their header."""
    truths = [index for index, column in enumerate(columns) if column.kind is ColumnType.TRUTH]
    texts = [index for index, column in enumerate(columns) if column.kind is ColumnType.TEXT]
    wrapped = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(wrapped, lineterminator="\r\n")
    writer.writerow(names_of(columns))
    for row in rows:
        values = list(row)
        for index in truths:
            values[index] = _TRUTH[values[index]]
        for index in texts:
            values[index] = unformulated(values[index] or "")
        writer.writerow(values)
    wrapped.flush()
    wrapped.detach()


def write_samples(source: Source, file: IO[bytes]) -> None:
    """Write the samples of all launches below their header; raise `ResultsError` for a file that cannot be read."""
    file.write((",".join(names_of(SAMPLE_COLUMNS)) + "\r\n").encode())
    for each in Samples(source, counted=False):
        begin = f"{each.trial},{quoted(each.metric)},{quoted(each.column)},"
        numbers = each.values.tolist()
        file.write("".join([f"{begin}{index},{value!r}\r\n" for index, value in enumerate(numbers)]).encode())


def unformulated(text: str) -> str:
    """Return a text that no spreadsheet calculates."""
    return f"'{text}" if text.startswith(FORMULA) else text


def quoted(text: str) -> str:
    """Return a text as a field of CSV."""
    safe = unformulated(text).replace('"', '""')
    return f'"{safe}"' if any(character in safe for character in ',"\r\n') else safe


@contextmanager
def folder_of_files(path: Path) -> Iterator[File]:
    """Give the files of a folder, which is created if missing; each replaces an older one when it is complete."""
    with folder_at(path, make=True) as folder:
        yield partial(replacing, folder)


@contextmanager
def _archive(path: Path) -> Iterator[File]:
    """Give the members of a zip archive, which replaces an older one when it is complete."""
    with output_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as made:
        yield lambda name: made.open(name, "w", force_zip64=True)


CSV: Final = FilesFormat(meaning="tables and samples as CSV, in a folder or a .zip file", zips=True, write=write)
