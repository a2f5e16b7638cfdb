"""JSON: the whole summary as it is in memory, and the tables of comparisons, cells and environments as objects.

docs/report.schema.json is its JSON Schema, made from the same declarations (tools/report_schema.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from tare import __version__
from tare.report.export.format import TextFormat
from tare.report.frames import TABLES, Source, Table
from tare.report.frames.columns import names_of
from tare.store.codec import encode

FORMAT: Final = 1
"""The version of the document: it grows when a field is removed or changes its meaning, not when one is added."""

SHOWN: Final = ("comparisons", "cells", "environments")
"""The tables that the document has; the others are of every launch."""


def document(source: Source) -> dict[str, Any]:
    """Return the document as JSON data."""
    return {
        "format": FORMAT,
        "tool": f"tare {__version__}",
        **{name: list(_objects(TABLES[name], source)) for name in SHOWN},
        "damaged": [asdict(damage) for damage in source.results.damaged],
        "summary": encode(source.summary),
    }


def _objects(table: Table, source: Source) -> Iterator[dict[str, Any]]:
    names = names_of(table.columns)
    return (dict(zip(names, map(_finite, row), strict=True)) for row in table.rows(source))


def _finite(value: Any) -> Any:
    """Return a value of a table; JSON cannot represent infinite numbers, which are bounds that do not exist."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text(source: Source) -> str:
    """Return the document."""
    return json.dumps(document(source), indent=1, allow_nan=False) + "\n"


JSON: Final = TextFormat(suffix=".json", meaning="the whole summary (docs/report.schema.json)", text=text)
