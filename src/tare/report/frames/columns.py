"""Declare tables: each column with its type, unit and meaning, and how its value is read of what a row shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tare.model import Cell, Estimate

if TYPE_CHECKING:
    from tare.report.frames.source import Source

T = TypeVar("T")
Row = tuple[Any, ...]
"""Values in the order of a table's columns; None is a missing value."""


class ColumnType(StrEnum):
    """The type of a column's values; any of them may be missing."""

    TEXT = "string"
    INTEGER = "int64"
    NUMBER = "float64"
    TRUTH = "bool"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `unit` is "" for texts, counts and truth values, and "fraction" where 0.5 means 50 %."""

    name: str
    kind: ColumnType
    meaning: str
    unit: str = ""


Columns = Mapping[Column, Callable[[T], object]]
"""Columns in their order, each with the function that reads its value of what a row shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: its columns, and the function that yields its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Source], Iterator[Row]]


def text(name: str, meaning: str) -> Column:
    """Return a column of texts."""
    return Column(name, ColumnType.TEXT, meaning)


def count(name: str, meaning: str, unit: str = "") -> Column:
    """Return a column of whole numbers."""
    return Column(name, ColumnType.INTEGER, meaning, unit)


def number(name: str, unit: str, meaning: str) -> Column:
    """Return a column of floating-point numbers."""
    return Column(name, ColumnType.NUMBER, meaning, unit)


def truth(name: str, meaning: str) -> Column:
    """Return a column of truth values."""
    return Column(name, ColumnType.TRUTH, meaning)


def estimate(name: str, unit: str, meaning: str, value: Callable[[T], Estimate | None]) -> Columns[T]:
    """Return the columns of an estimate: value, both ends of its interval, and the rounds that it is computed from."""
    stem, end = (name.removesuffix("_s"), "_s") if unit == "s" else (name, "")
    return {
        number(name, unit, meaning): lambda item: getattr(value(item), "value", None),
        number(f"{stem}_low{end}", unit, f"lower end of the interval of `{name}`"): (
            lambda item: getattr(value(item), "low", None)
        ),
        number(f"{stem}_high{end}", unit, f"upper end of the interval of `{name}`"): (
            lambda item: getattr(value(item), "high", None)
        ),
        count(f"{stem}_n", f"rounds from which `{name}` is computed"): lambda item: getattr(value(item), "n", None),
    }


def values_of(columns: Columns[T], item: T) -> Row:
    """Return the part of a row that shows an item."""
    return tuple([value(item) for value in columns.values()])


class OfCell(Protocol):
    """What rows show of a cell: the cell itself, and the environment as the report names it."""

    @property
    def cell(self) -> Cell:
        """Return the cell."""

    @property
    def environment(self) -> str:
        """Return the name of the row."""


CELL: Final[Columns[OfCell]] = {
    text("cell", "key of the cell"): lambda c: c.cell.key,
    text("group", "cells that are compared with each other: workload and placement"): lambda c: c.cell.group,
    text("environment", "environment; the second baseline of A/A has a name of its own"): lambda c: c.environment,
    text("role", "`baseline`, `a/a` or `environment`"): lambda c: c.cell.role.value,
}
"""The columns that say which cell a row is about."""


def names_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of columns."""
    return tuple(column.name for column in columns)
