"""Give a results folder as tables: trials, readings, samples, comparisons, cells, environments.

`tare.open(folder)` returns an `OpenResults`; its tables convert to Arrow, polars or pandas, and `tare.export` writes
the same tables as CSV and Parquet. Comes in: a results folder. Goes out: rows, whose columns, types and units are
declared next to them and documented in docs/notebooks.md. Imported by `tare.export` and by users.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tare.frames import cells, comparisons, environments, readings, trials
from tare.frames.columns import Column as Column
from tare.frames.columns import Kind as Kind
from tare.frames.columns import Table as Table
from tare.frames.frame import Frame as Frame
from tare.frames.opened import OpenResults as OpenResults
from tare.frames.opened import open_results as open_results
from tare.frames.samples import Samples as Samples
from tare.frames.samples import TrialSamples as TrialSamples
from tare.frames.source import Source as Source

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {table.name: table for table in (trials.TABLE, readings.TABLE, comparisons.TABLE, cells.TABLE, environments.TABLE)}
)
"""Every table but that of the samples, which do not fit into memory (`tare.frames.samples`)."""
