"""The samples of launches, as histograms."""

from __future__ import annotations

from tare.report.samples.histograms import (
    BIN_RATIO,
    Curve,
    Floats,
    Histograms,
    LogHistogram,
    NoSamples,
    Read,
    SampleSource,
    collect,
    columns_of,
    count,
    gap_columns,
    main_column,
    row_key,
)

__all__ = [
    "BIN_RATIO",
    "Curve",
    "Floats",
    "Histograms",
    "LogHistogram",
    "NoSamples",
    "Read",
    "SampleSource",
    "collect",
    "columns_of",
    "count",
    "gap_columns",
    "main_column",
    "row_key",
]
