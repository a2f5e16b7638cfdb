"""Read the tables of benchmarks: a row for each message size, among lines that other programs print. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tare.workloads.output import OutputError
from tare.workloads.programs.lines import NUMBER

Row = tuple[str, ...]

CELL: Final = re.compile(rf"(?:{NUMBER})", re.IGNORECASE)
WHOLE: Final = re.compile(r"[0-9]{1,18}")
OF_WHOLE_NUMBERS: Final = frozenset({"Size", "#bytes", "Group"})
MEASURED: Final = re.compile(r"us\)|usec|MB/s|Mbytes")
"""Columns of times and rates: these programs print them with two decimals. One with fewer is a part of a number."""
WITH_DECIMALS: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]{2,}|[0-9.]+e[-+]?[0-9]+|nan|inf)", re.IGNORECASE)
VERDICT: Final = re.compile(r"pass(?:ed)?|fail(?:ed)?|error|n/?a|-+", re.IGNORECASE)
WITH_COMMA: Final = re.compile(r"[-+]?[\d.']*\d,\d[\d,.]*")
LONGEST: Final = 80


def rows_of(lines: Iterable[str], columns: Sequence[str], *, words: Iterable[str] = ()) -> list[Row]:
    """Return the lines that are rows: as many numbers as columns, sizes that are whole, measured ones with decimals.

    The columns `words` have a verdict. All other lines are not the table's: launchers and libraries print them.
    """
    shapes = [VERDICT if name in words else _shape(name) for name in columns]
    cells = (tuple(line.split()) for line in lines)
    return [
        row
        for row in cells
        if len(row) == len(shapes) and all(shape.fullmatch(cell) for shape, cell in zip(shapes, row, strict=True))
    ]


def _shape(column: str) -> re.Pattern[str]:
    return WHOLE if column in OF_WHOLE_NUMBERS else WITH_DECIMALS if MEASURED.search(column) else CELL


def check_rows(rows: Sequence[Row], lines: Sequence[str], columns: Sequence[str], *, what: str) -> None:
    """Raise `OutputError` if a table has no row, with the line that could have been one."""
    if not rows:
        near = next((line for line in lines if re.match(r"\s*[\d.+-]+\S*(?:\s|$)", line)), "")
        raise OutputError(f"{what}: the table has no row{_because(near, columns)}")


def check_order(rows: Iterable[Row], columns: Sequence[str], names: Sequence[str], *, what: str) -> None:
    """Raise `OutputError` for a row in which minimum, average and maximum, columns with these names, do not rise."""
    if not set(names) <= set(columns):
        return
    for row in rows:
        cells = cells_of(columns, row)
        least, average, most = (cells[name] for name in names)
        if not float(least) <= float(average) <= float(most):
            raise OutputError(f"{what}: {', '.join(names)} are {least}, {average} and {most}: one of them is wrong")


def check_sizes(
    seen: Sequence[int], wanted: Sequence[int], lines: Sequence[str], columns: Sequence[str], *, what: str
) -> None:
    """Raise `OutputError` unless the sizes rise and none that is wanted is missing, with the line that hides it."""
    for one, following in pairwise(seen):
        if following <= one:
            raise OutputError(
                f"{what}: a row of {following} bytes follows that of {one} bytes: it is not of this table"
            )
    if wanted and wanted[-1] in seen and seen[-1] > wanted[-1]:
        raise OutputError(
            f"{what}: a row of {seen[-1]} bytes is behind that of the last size, {wanted[-1]} bytes: "
            "it is not of this table, or the output is of a run with other arguments"
        )
    missing = next((size for size in wanted if size not in set(seen)), None)
    if missing is not None:
        near = next((line for line in lines if line.split()[:1] == [str(missing)]), "")
        cut = "the output is cut off, its" if missing > seen[-1] and not near else "the"
        raise OutputError(f"{what}: {cut} row of {missing} bytes is missing{_because(near, columns)}")
    odd = next((size for size in seen if wanted and wanted[0] < size < wanted[-1] and size not in wanted), None)
    if odd is not None:
        raise OutputError(f"{what}: a row of {odd} bytes is between those of its sizes: it is not of this table")


def cells_of(columns: Sequence[str], row: Row) -> Mapping[str, str]:
    """Return the cells of a row by the names of their columns."""
    return dict(zip(columns, row, strict=True))


def _because(near: str, columns: Sequence[str]) -> str:
    if not near:
        return ""
    has_comma = any(WITH_COMMA.fullmatch(cell) for cell in near.split())
    comma = ", and numbers with commas are not supported (LC_ALL=C)" if has_comma else ""
    return f": this line does not have the {len(columns)} numbers of its columns{comma}: {near.strip()[:LONGEST]}"
