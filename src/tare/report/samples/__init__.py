"""The samples of launches, as histograms."""

from __future__ import annotations

from tare.report.samples.histograms import BIN_RATIO as BIN_RATIO
from tare.report.samples.histograms import Curve as Curve
from tare.report.samples.histograms import Histograms as Histograms
from tare.report.samples.histograms import LogHistogram as LogHistogram
from tare.report.samples.histograms import Read as Read
from tare.report.samples.histograms import SampleSource as SampleSource
from tare.report.samples.histograms import collect as collect
from tare.report.samples.histograms import columns_of as columns_of
from tare.report.samples.histograms import gap_columns as gap_columns
from tare.report.samples.histograms import main_column as main_column
from tare.report.samples.histograms import row_key as row_key
