"""OSU micro-benchmarks 5.x, 6.x and 7.x: latency, bandwidths, collectives and barrier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import NUMBER, count, known_version, number, whole
from tare.workloads.programs.quantities import Quantity, sized

MIB: Final = 1 << 20
VALIDATION: Final = "Validation"
VERSIONS: Final = ("5", "6", "7")
HEADER: Final = re.compile(r"^#\s*OSU (?P<title>.*?)\s+v(?P<version>\d\S*)\s*$")
SMALLEST_FLOAT: Final = 4
"""Reductions begin with one float; the row for 0 bytes that a 5.x prints is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Osu(ProgramAdapter):
    """One test; `title` is its name in the header, `window` the number of messages in a sample of a bandwidth."""

    name: str
    title: str
    measures: str
    largest: int = MIB
    window: int = 0
    pair: bool = False
    sizeless: bool = False

    versions = "5.x, 6.x and 7.x"
    timer = "MPI_Wtime; 5.x reads it once around the loop, 6.x and 7.x around each iteration"
    places = (
        "/opt/tare/programs/osu/libexec/osu-micro-benchmarks/mpi/*",
        "/usr/local/libexec/osu-micro-benchmarks/mpi/*",
        "/usr/libexec/osu-micro-benchmarks/mpi/*",
    )
    brought_by = "the OSU micro-benchmarks are not packaged: build them for this MPI, then name the folder by path:"

    @property
    def describes(self) -> str:
        """Return a description of one line."""
        return f"{self.name} of the OSU micro-benchmarks"

    @property
    def synchronisation(self) -> str:
        """Return how its iterations are synchronised."""
        return "none: one message follows another" if self.pair else "MPI_Barrier after each iteration, not timed"

    @property
    def ranks(self) -> str:
        """Return the allowed numbers of ranks."""
        return "exactly 2" if self.pair else "2 or more"

    @property
    def reduction(self) -> str:
        """Return how one figure is computed."""
        return "mean over iterations" if self.pair else "mean over iterations, average over ranks"

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        if self.pair and placement.ranks != 2:
            return f"{self.name} runs on exactly 2 ranks, but the placement has {placement.ranks}"
        if placement.ranks < 2:
            return f"{self.name} needs 2 ranks or more, but the placement has {placement.ranks}"
        if _bounds(arguments, self.largest) is None:
            return f"{self.name}: -m takes MIN:MAX or MAX in bytes, no more than {1 << 30}"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        if self.sizeless:
            return (self._quantity(0).info(),)
        low, high = _bounds(arguments, self.largest) or (1, self.largest)
        size = max(low, SMALLEST_FLOAT) if self.name == "osu_allreduce" else low
        sizes = []
        while size <= high:
            sizes.append(size)
            size = 2 * size or 1
        return tuple(self._quantity(size).info() for size in sizes)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 3.0 if self.sizeless or self.pair else 5.0

    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        columns, rows = self._table(whole(text))
        value_at = self._value_column(columns)
        metrics, wrong = [], []
        low, high = _bounds(arguments, self.largest) or (1, self.largest)
        sizes = [] if self.sizeless else [count(row[0], f"{self.name}: a message size") for row in rows]
        self._check_sizes(sizes, rows, low, high)
        for row, size in zip(rows, sizes or [0] * len(rows), strict=True):
            where = f"{columns[value_at]} of {self.name}" + ("" if self.sizeless else f" at {size} bytes")
            value = number(row[value_at], where)
            if self.sizeless or size >= max(low, 1) or low == 0:
                quantity = self._quantity(size)
                metrics.append(quantity.ran(value * 1e6) if self.window else quantity.took(value * 1e-6))
            if VALIDATION in columns and row[columns.index(VALIDATION)] != "Pass":
                wrong.append(f"{self.name} at {size} bytes: validation says {row[columns.index(VALIDATION)]}")
        return Reading(metrics=tuple(metrics), figures=self._figures(columns, rows), wrong=tuple(wrong))

    def _quantity(self, size: int) -> Quantity:
        if self.sizeless:
            return Quantity(key=self.name, label=self.name, statistic=self.reduction)
        key, label = sized(self.name, size)
        done = float(self.window * size)
        return Quantity(key=key, label=label, statistic=self.reduction, done=done, message_bytes=size)

    def _table(self, lines: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        """Return the names of the columns and the rows, each with as many cells."""
        headers = [found for line in lines if (found := HEADER.match(line))]
        if not headers:
            raise OutputError(f"{self.name}: its first line '# OSU ... v...' is missing")
        known_version(headers[0]["version"], VERSIONS, what="the OSU benchmarks' version")
        if not re.search(self.title, headers[0]["title"]):
            raise OutputError(f"the output is of 'OSU {headers[0]['title']}', not of {self.name}")
        named = [
            line for line in lines if line.startswith("#") and re.search(r"Latency ?\(us\)|Bandwidth \(MB/s\)", line)
        ]
        if not named:
            raise OutputError(f"{self.name}: the line that names the columns is missing")
        columns = re.split(r"\s{2,}", named[-1].lstrip("# ").rstrip())
        begin = [] if self.sizeless else [r"\d+"]
        shape = r"\s*" + r"\s+".join([*begin, *[rf"(?:{NUMBER}|\w+)"] * (len(columns) - len(begin))]) + r"\s*"
        rows = [line.split() for line in lines if re.match(r"\s*[\d.+-]", line)]
        broken = next((row for row in rows if not re.fullmatch(shape, " ".join(row))), None)
        if broken:
            raise OutputError(
                f"{self.name}: a row does not have the {len(columns)} columns of its header: {' '.join(broken)}"
            )
        return columns, rows

    def _value_column(self, columns: Sequence[str]) -> int:
        wanted = "Bandwidth" if self.window else "Latency"
        for at, name in enumerate(columns):
            if name.startswith((wanted, f"Avg {wanted}")):
                return at
        raise OutputError(f"{self.name}: no column of {wanted.lower()} among {', '.join(columns)}")

    def _check_sizes(self, sizes: Sequence[int], rows: Sequence[object], low: int, high: int) -> None:
        """Raise `OutputError` unless sizes double from the first requested one to the last."""
        if not rows:
            raise OutputError(f"{self.name}: the table has no row")
        if self.sizeless:
            return
        if sizes[0] > (max(low, 2 * SMALLEST_FLOAT) if self.name == "osu_allreduce" else low):
            raise OutputError(f"{self.name}: the row of {low} bytes is missing")
        for one, following in pairwise(sizes):
            if following != (2 * one or 1):
                raise OutputError(f"{self.name}: the row of {2 * one or 1} bytes is missing")
        if (2 * sizes[-1] or 1) <= high:
            raise OutputError(f"{self.name}: the output is cut off, its row of {2 * sizes[-1] or 1} bytes is missing")

    def _figures(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Figure, ...]:
        """Return the spread over ranks that -f adds, of the largest message."""
        names = {"Min Latency(us)": "fastest rank", "Max Latency(us)": "slowest rank"}
        return tuple(
            Figure(
                key=f"{self.name}.{label.split()[0]}",
                label=f"{self.name}, {label}",
                value=number(rows[-1][columns.index(column)], column) * 1e-6,
                unit="s",
            )
            for column, label in names.items()
            if column in columns
        )


def _bounds(arguments: Sequence[str], largest: int) -> tuple[int, int] | None:
    """Return the smallest and the largest message size in -m, or None if it is not valid."""
    text = ""
    for at, argument in enumerate(arguments):
        if argument in {"-m", "--message-size"}:
            text = arguments[at + 1] if at + 1 < len(arguments) else "?"
        elif argument.startswith("--message-size="):
            text = argument.partition("=")[2]
    if not text:
        return 1, largest
    parts = text.split(":")
    if not 1 <= len(parts) <= 2 or not all(re.fullmatch(r"\d{1,10}", part) for part in parts if part):
        return None
    low, high = ("", parts[0]) if len(parts) == 1 else parts
    bounds = int(low or 1), int(high or largest)
    return bounds if bounds[0] <= bounds[1] <= 1 << 30 else None


def _collective(name: str, title: str, what: str) -> Osu:
    return Osu(name=f"osu_{name}", title=title, measures=f"time of {what}, each rank's own")


OSU: Final[tuple[Osu, ...]] = (
    Osu(
        name="osu_latency",
        title=r"^MPI\S* Latency",
        measures="half the round trip of one message between two ranks",
        largest=4 * MIB,
        pair=True,
    ),
    Osu(
        name="osu_bw",
        title=r"^MPI\S* Bandwidth",
        measures="bytes a second in windows of 64 messages one way",
        largest=4 * MIB,
        window=64,
        pair=True,
    ),
    Osu(
        name="osu_bibw",
        title=r"Bi-Directional Bandwidth",
        measures="bytes a second of both directions together, 64 messages each way at a time",
        largest=4 * MIB,
        window=128,
        pair=True,
    ),
    _collective("alltoall", r"All-to-All\b", "MPI_Alltoall"),
    _collective("alltoallv", r"All-to-Allv", "MPI_Alltoallv, the same count for all"),
    _collective("allgather", r"Allgather\b", "MPI_Allgather"),
    _collective("allreduce", r"Allreduce\b", "MPI_Allreduce, a sum"),
    Osu(name="osu_barrier", title=r"Barrier", measures="time of MPI_Barrier, each rank's own", sizeless=True),
)
