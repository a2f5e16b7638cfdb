"""Declare tables: each column with its type, unit and meaning, next to the function that yields the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tare.model import Estimate

if TYPE_CHECKING:
    from tare.report.frames.source import Source

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


def estimate(name: str, unit: str, meaning: str) -> tuple[Column, ...]:
    """Return the columns of an estimate: value, both ends of its interval, and the rounds that it is computed from."""
    stem, end = (name.removesuffix("_s"), "_s") if unit == "s" else (name, "")
    return (
        number(name, unit, meaning),
        number(f"{stem}_low{end}", unit, f"lower end of the interval of `{name}`"),
        number(f"{stem}_high{end}", unit, f"upper end of the interval of `{name}`"),
        count(f"{stem}_n", f"rounds from which `{name}` is computed"),
    )


def estimate_values(value: Estimate | None) -> tuple[float | None, float | None, float | None, int | None]:
    """Return the values for the columns of `estimate`."""
    return (None, None, None, None) if value is None else (value.value, value.low, value.high, value.n)


def names_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the names of columns."""
    return tuple(column.name for column in columns)
