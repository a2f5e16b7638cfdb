"""The samples of a results folder, one trial after the other: 10^8 of them do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from tare.report.frames.columns import Column, count, number, text
from tare.report.frames.frame import arrow_schema, load
from tare.report.frames.source import NumberedTrial, Source
from tare.system.safe_files import output_file

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from numpy.typing import NDArray

COLUMNS: Final = (
    count("trial", "number of the launch"),
    text("metric", "metric under whose key the samples are stored"),
    text("column", "what was sampled: `max_s` is the maximum over ranks of each iteration"),
    count("iteration", "iteration, from 0"),
    number("value", "s", "sample; in seconds if `column` ends in `_s`, otherwise a count"),
)
ROWS_OF_GROUP: Final = 1 << 20
"""Samples of a row group of Parquet and of a batch: some 32 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSamples:
    """The samples of one launch in one column: `values[i]` belongs to iteration `i`."""

    trial: int
    metric: str
    column: str
    values: NDArray[np.float64]


class Samples:
    """The samples that were asked for, read from the disk while they are iterated over.

    Iterate over it for `TrialSamples`, or over `batches()` for Arrow record batches of bounded size. `to_arrow`,
    `to_polars` and `to_pandas` hold all of them in memory: 32 bytes each. `write_parquet` does not.
    """

    def __init__(
        self, source: Source, *, metric: str = "", environment: str = "", group: str = "", counted: bool = True
    ) -> None:
        self._source, self._metric, self._counted = source, metric, counted
        self._environment, self._group = environment, group

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the frames."""
        return COLUMNS

    @cached_property
    def _trials(self) -> tuple[NumberedTrial, ...]:
        return tuple(filter(self._is_wanted, self._source.trials))

    def _is_wanted(self, numbered: NumberedTrial) -> bool:
        return (
            bool(numbered.trial.samples_file)
            and (numbered.counts or not self._counted)
            and self._environment in ("", numbered.environment)
            and self._group in ("", numbered.cell.group)
        )

    def __iter__(self) -> Iterator[TrialSamples]:
        """Yield the samples launch by launch; raise `ResultsError` for a file that is missing or damaged."""
        for numbered in self._trials:
            for name, values in self._source.results.columns(numbered.trial).items():
                metric, _, column = name.rpartition("/")
                if self._metric and not belongs(self._metric, metric, column):
                    continue
                yield TrialSamples(
                    trial=numbered.number, metric=metric, column=column, values=values.astype(np.float64, copy=False)
                )

    def batches(self, most_rows: int = ROWS_OF_GROUP) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow record batches, each of whole launches: at most `most_rows`, or one launch if it has more."""
        waiting: list[TrialSamples] = []
        rows = 0
        for each in self:
            if waiting and rows + each.values.size > most_rows:
                yield _batch(waiting)
                waiting, rows = [], 0
            waiting.append(each)
            rows += each.values.size
        if waiting:
            yield _batch(waiting)

    def write_parquet(self, path: Path | str | IO[bytes]) -> None:
        """Write the samples to a Parquet file, named or open, one batch a row group."""
        load("pyarrow")
        parquet = load("pyarrow.parquet")
        opened = output_file(Path(path)) if isinstance(path, Path | str) else nullcontext(path)
        with opened as file, parquet.ParquetWriter(file, schema(), compression="zstd") as writer:
            for batch in self.batches():
                writer.write_batch(batch)

    def to_arrow(self) -> pyarrow.Table:
        """Return all samples as a `pyarrow.Table`."""
        return load("pyarrow").Table.from_batches(self.batches(), schema())

    def to_polars(self) -> polars.DataFrame:
        """Return all samples as a `polars.DataFrame`; pyarrow is needed too."""
        library = load("polars")
        return library.from_arrow(self.to_arrow())

    def to_pandas(self) -> pandas.DataFrame:
        """Return all samples as a `pandas.DataFrame`; pyarrow is needed too."""
        load("pandas")
        return self.to_arrow().to_pandas()


def belongs(metric: str, stored: str, column: str) -> bool:
    """Tell whether a metric is computed from a column: `spacing:8@1000.receive` from `receive_gap_s` of its key."""
    if metric == stored:
        return True
    base, _, side = metric.rpartition(".")
    return base == stored and column.startswith(side)


def schema() -> Any:
    """Return the Arrow schema; texts are dictionaries, because they recur."""
    arrow = load("pyarrow")
    plain = arrow_schema(COLUMNS)
    words = arrow.dictionary(arrow.int32(), arrow.string())
    return arrow.schema([field.with_type(words) if field.type == arrow.string() else field for field in plain])


def _batch(parts: list[TrialSamples]) -> Any:
    arrow = load("pyarrow")
    sizes = np.array([part.values.size for part in parts])
    return arrow.record_batch(
        [
            arrow.array(np.repeat(np.array([part.trial for part in parts], np.int64), sizes)),
            _words([part.metric for part in parts], sizes),
            _words([part.column for part in parts], sizes),
            arrow.array(np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])),
            arrow.array(np.concatenate([part.values for part in parts])),
        ],
        schema=schema(),
    )


def _words(words: list[str], sizes: NDArray[Any]) -> Any:
    """Return an Arrow dictionary array in which each word recurs as often as `sizes` says."""
    arrow = load("pyarrow")
    known = {word: index for index, word in enumerate(dict.fromkeys(words))}
    indices = np.repeat(np.array([known[word] for word in words], np.int32), sizes)
    return arrow.DictionaryArray.from_arrays(arrow.array(indices), arrow.array(list(known), arrow.string()))
