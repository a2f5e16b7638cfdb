"""Tables as CSV (RFC 4180): a file for each, in a folder or a zip archive.

Numbers are written exactly, and a missing value is an empty field. A text that begins with `=`, `+`, `-`, `@`, a tab
or a carriage return gets an apostrophe in front: a spreadsheet would calculate it as a formula.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol

from tare.export import sample_rows
from tare.export.format import FilesFormat
from tare.frames import TABLES, Kind, Source
from tare.frames.columns import Column, Row, names_of

PARTIAL: Final = ".partial"
ZIP: Final = ".zip"
COMPRESSION: Final = 1
"""The fastest level of deflate: samples hardly compress."""

_TRUTH: Final = {True: "true", False: "false", None: None}


class Place(Protocol):
    """Where files are written; temporary ones belong into `folder`."""

    folder: Path

    def file(self, name: str) -> Any:
        """Return a context manager that gives a binary file of this name, open for writing."""


def write(source: Source, path: Path) -> None:
    """Write every table and the samples to a folder, or to an archive if the name ends in `.zip`."""
    with _place(path) as place, sample_rows.writing(source, place.folder) as write_samples:
        for table in TABLES.values():
            with place.file(f"{table.name}.csv") as file:
                write_rows(file, table.columns, table.rows(source))
        with place.file("samples.csv") as file:
            write_samples(file)


def write_rows(file: IO[bytes], columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows below their header."""
    truths = [index for index, column in enumerate(columns) if column.kind is Kind.TRUTH]
    texts = [index for index, column in enumerate(columns) if column.kind is Kind.TEXT]
    wrapped = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(wrapped, lineterminator="\r\n")
    writer.writerow(names_of(columns))
    for row in rows:
        values = list(row)
        for index in truths:
            values[index] = _TRUTH[values[index]]
        for index in texts:
            values[index] = sample_rows.unformulated(values[index] or "")
        writer.writerow(values)
    wrapped.flush()
    wrapped.detach()


@contextmanager
def _place(path: Path) -> Iterator[Place]:
    """Give the place that a name means; what is written there replaces older files only when it is complete."""
    if path.suffix.lower() != ZIP:
        path.mkdir(parents=True, exist_ok=True)
        yield Folder(path)
        return
    partial = path.with_name(path.name + PARTIAL)
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:
            yield Archive(archive, path.parent)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


class Folder:
    """A folder in which files are replaced when they are complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Give a file that replaces an older one at the end; after an error the older one stays."""
        partial = self.folder / (name + PARTIAL)
        try:
            with partial.open("wb") as file:
                yield file
            os.replace(partial, self.folder / name)
        finally:
            partial.unlink(missing_ok=True)


class Archive:
    """A zip archive."""

    def __init__(self, archive: zipfile.ZipFile, folder: Path) -> None:
        self._archive, self.folder = archive, folder

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Give a member of the archive."""
        with self._archive.open(name, "w", force_zip64=True) as member:
            yield member


CSV: Final = FilesFormat(meaning="tables and samples as CSV, in a folder or a .zip file", zips=True, write=write)
