"""Convert a table to Arrow, polars or pandas; the library is imported only then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tare.errors import MissingTool
from tare.report.frames.columns import Column, ColumnType, Row, Table, names_of
from tare.system.packages import install_python

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from tare.report.frames.source import Source

ROWS_OF_BATCH: Final = 50_000
PANDAS_TYPES: Final = {
    ColumnType.TEXT: "string",
    ColumnType.INTEGER: "Int64",
    ColumnType.NUMBER: "float64",
    ColumnType.TRUTH: "boolean",
}
"""pandas' types: missing texts, integers and truth values are `NA`, missing numbers `NaN`."""


def load(library: str) -> Any:
    """Import and return a library of frames; raise `MissingTool` with the command that installs it."""
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingTool(
            f"{library} is not installed in the Python that runs tare ({error})",
            remedy=f"install it with `{install_python(library)}`",
        ) from error


class Frame:
    """One table of a results folder; rows are made at each use, so converting it twice costs twice the time."""

    def __init__(self, table: Table, source: Source) -> None:
        self._table, self._source = table, source

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self._table.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns with their types, units and meanings."""
        return self._table.columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a mapping from the columns' names; a missing value is None."""
        names = names_of(self.columns)
        return (dict(zip(names, row, strict=True)) for row in self.rows())

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.columns)} columns; to_arrow(), to_polars() and to_pandas() convert it>"

    def rows(self) -> Iterator[Row]:
        """Yield the rows as tuples in the order of `columns`."""
        return self._table.rows(self._source)

    def to_arrow(self) -> pyarrow.Table:
        """Return a `pyarrow.Table`; units and meanings are the metadata of its fields."""
        arrow = load("pyarrow")
        return arrow.Table.from_batches(arrow_batches(self.columns, self.rows()), arrow_schema(self.columns))

    def to_polars(self) -> polars.DataFrame:
        """Return a `polars.DataFrame`."""
        library = load("polars")
        types = {
            ColumnType.TEXT: library.String,
            ColumnType.INTEGER: library.Int64,
            ColumnType.NUMBER: library.Float64,
            ColumnType.TRUTH: library.Boolean,
        }
        values = _by_column(self.columns, self.rows())
        pairs = zip(self.columns, values, strict=True)
        return library.DataFrame([library.Series(item.name, given, types[item.kind]) for item, given in pairs])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a `pandas.DataFrame` with the types of `PANDAS_TYPES`."""
        library = load("pandas")
        values = _by_column(self.columns, self.rows())
        pairs = zip(self.columns, values, strict=True)
        return library.DataFrame(
            {item.name: library.Series(given, dtype=PANDAS_TYPES[item.kind]) for item, given in pairs}
        )


def arrow_schema(columns: Sequence[Column]) -> Any:
    """Return the Arrow schema of columns."""
    arrow = load("pyarrow")
    types = {
        ColumnType.TEXT: arrow.string(),
        ColumnType.INTEGER: arrow.int64(),
        ColumnType.NUMBER: arrow.float64(),
        ColumnType.TRUTH: arrow.bool_(),
    }
    return arrow.schema(
        [
            arrow.field(item.name, types[item.kind], metadata={"unit": item.unit, "meaning": item.meaning})
            for item in columns
        ]
    )


def arrow_batches(columns: Sequence[Column], rows: Iterator[Row]) -> Iterator[Any]:
    """Yield rows as Arrow record batches of at most `ROWS_OF_BATCH`."""
    arrow = load("pyarrow")
    schema = arrow_schema(columns)
    for some in batches_of(rows, ROWS_OF_BATCH):
        arrays = [
            arrow.array(values, field.type) for values, field in zip(zip(*some, strict=True), schema, strict=True)
        ]
        yield arrow.record_batch(arrays, schema=schema)


def _by_column(columns: Sequence[Column], rows: Iterator[Row]) -> list[Sequence[Any]]:
    values: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return values or [()] * len(columns)


def batches_of(rows: Iterator[Row], size: int) -> Iterator[tuple[Row, ...]]:
    """Yield rows in tuples of at most `size`."""
    while some := tuple(islice(rows, size)):
        yield some
