"""Write results in the formats that other tools read: one file per format, and one registry.

Comes in: a results folder with its summary (`tare.report.frames.Source`). Goes out: text, or files in a folder. A text
format returns the whole document; a format of files writes tables, samples included, without holding them in memory.
Imported by `tare.cli`. docs/formats.md describes each format.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tare.report.export import csv, json, junit, markdown, openmetrics, pages, parquet
from tare.report.export.format import FilesFormat, Format, TextFormat

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "terminal": pages.TERMINAL,
        "html": pages.HTML,
        "csv": csv.CSV,
        "parquet": parquet.PARQUET,
        "json": json.JSON,
        "junit": junit.JUNIT,
        "openmetrics": openmetrics.OPENMETRICS,
        "markdown": markdown.MARKDOWN,
    }
)
"""Every format by its name on the command line."""

__all__ = ["FORMATS", "FilesFormat", "Format", "TextFormat"]
