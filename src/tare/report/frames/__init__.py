"""Give a results folder as tables: trials, readings, samples, comparisons, cells, environments.

`tare.open(folder)` returns an `OpenResults`; its tables convert to Arrow, polars or pandas, and `tare.report.export`
writes the same tables as CSV and Parquet. Comes in: a results folder. Goes out: rows, whose columns, types and units
are declared next to them and documented in docs/notebooks.md. Imported by `tare.report.export` and by users.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tare.report.frames import cells, comparisons, environments, readings, trials
from tare.report.frames.columns import Column as Column
from tare.report.frames.columns import ColumnType as ColumnType
from tare.report.frames.columns import Table as Table
from tare.report.frames.frame import Frame as Frame
from tare.report.frames.opened_results import OpenResults as OpenResults
from tare.report.frames.opened_results import open_results as open_results
from tare.report.frames.samples import Samples as Samples
from tare.report.frames.samples import TrialSamples as TrialSamples
from tare.report.frames.source import Source as Source

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {table.name: table for table in (trials.TABLE, readings.TABLE, comparisons.TABLE, cells.TABLE, environments.TABLE)}
)
"""Every table but that of the samples, which do not fit into memory (`tare.report.frames.samples`)."""
