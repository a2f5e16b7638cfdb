"""OSU micro-benchmarks 5.x, 6.x and 7.x: two-sided and one-sided, pairs of ranks, collectives, non-blocking ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single, count, known_version, number
from tare.workloads.programs.options import option_value
from tare.workloads.programs.quantities import Quantity, sized
from tare.workloads.programs.tables import Row, cells_of, check_order, check_rows, check_sizes, rows_of

MIB: Final = 1 << 20
VALIDATION: Final = "Validation"
VERSIONS: Final = ("5", "6", "7")
HEADER: Final = re.compile(r"\s*#?\s*OSU (?P<title>\S.*?)\s+v(?P<version>\d\S*)(?:\s|$)")
LONGEST_TITLE: Final = 200
ACCELERATOR: Final = r"(?:-\w+)?"
"""What follows `MPI` in the title of a build for accelerators, as in `MPI-CUDA`."""
DATATYPE: Final = re.compile(r"\s*#\s*Datatype:\s*MPI_(\w+)")
BETWEEN_COLUMNS: Final = re.compile(r"(?<=\))\s+|(?<=^Size)\s+|\s{2,}|\t+")
WIDTHS: Final = {"CHAR": 1, "INT": 4, "FLOAT": 4}
WIDEST: Final = 8
"""Bytes of the largest element: a table begins with one element."""
LEAST_REDUCED: Final = 4
"""Bytes of the element of reductions, if none is named."""
LATENCY: Final = ("Latency (us)", "Avg Latency(us)")
BANDWIDTH: Final = ("Bandwidth (MB/s)", "MB/s", "Avg Bandwidth(MB/s)")
OVERALL: Final = ("Overall(us)",)
"""The names that the column of the metric has in several versions."""
IN_ORDER: Final = ("Min Latency(us)", "Avg Latency(us)", "Max Latency(us)")
OWN_LIMIT: Final = 512 * MIB
FIGURES: Final = {
    "Min Latency(us)": ("fastest", "fastest rank", 1e-6, "s"),
    "Max Latency(us)": ("slowest", "slowest rank", 1e-6, "s"),
    "Messages/s": ("messages", "messages a second", 1.0, "/s"),
    "Pure Comm.(us)": ("pure", "time without computation", 1e-6, "s"),
    "Overlap(%)": ("overlap", "overlap", 1.0, "%"),
}
"""Columns that are shown, of the largest message: key, label, factor and unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Osu(ProgramAdapter):
    """One test: its `title` in the header (a pattern) and the names of the column that is its metric.

    `window` is the number of messages in a sample of a bandwidth. A `pair` needs exactly two ranks, `pairs` an even
    number. `sizeless` tests have one row without a size, `single` ones one row with a size. The buffers of `gathers`
    grow with the number of ranks.
    """

    name: str
    title: str
    measures: str
    column: tuple[str, ...] = LATENCY
    largest: int = 4 * MIB
    window: int = 0
    pair: bool = False
    pairs: bool = False
    sizeless: bool = False
    single: bool = False
    reduces: bool = False
    gathers: bool = False

    versions = "5.x, 6.x and 7.x"
    timer = "MPI_Wtime; 5.x reads it once around the loop, 6.x and 7.x around each iteration"
    places = (
        "/opt/tare/programs/osu/libexec/osu-micro-benchmarks/mpi/*",
        "/usr/local/libexec/osu-micro-benchmarks/mpi/*",
        "/usr/libexec/osu-micro-benchmarks/mpi/*",
    )
    brought_by = "the OSU micro-benchmarks are not packaged: build them for this MPI, then name the folder by path:"
    failure = re.compile(r"DATA VALIDATION ERROR|This test requires|^MPI_Init_thread must return")

    @property
    def describes(self) -> str:
        """Return a description of one line."""
        return f"{self.name} of the OSU micro-benchmarks"

    @property
    def synchronisation(self) -> str:
        """Return how its iterations are synchronised."""
        follows = self.pair or self.pairs
        return "none: one message follows another" if follows else "MPI_Barrier after each iteration, not timed"

    @property
    def ranks(self) -> str:
        """Return the allowed numbers of ranks."""
        return "exactly 2" if self.pair else "an even number" if self.pairs else "2 or more"

    @property
    def reduction(self) -> str:
        """Return how one figure is computed."""
        if self.pairs:
            return "mean over iterations, " + ("sum over pairs" if self.window else "average over pairs")
        return "mean over iterations" if self.pair else "mean over iterations, average over ranks"

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        ranks = placement.ranks
        if self.pair and ranks != 2:
            return f"{self.name} runs on exactly 2 ranks, but the placement has {ranks}"
        if ranks < 2 or (self.pairs and ranks % 2):
            needed = "an even number of ranks" if self.pairs else "2 ranks or more"
            return f"{self.name} needs {needed}, but the placement has {ranks}"
        bounds = _bounds(arguments, self.largest)
        if bounds is None:
            return f"{self.name}: -m takes MIN:MAX or MAX in bytes, no more than {1 << 30}"
        if self.gathers and bounds[1] * ranks > OWN_LIMIT and not option_value(arguments, "-M", "--mem-limit"):
            return (
                f"{self.name} on {ranks} ranks leaves out sizes above {OWN_LIMIT // ranks} bytes, because OSU limits "
                f"buffers to {OWN_LIMIT >> 20} MiB: add -M {bounds[1] * ranks} or -m {bounds[0]}:{OWN_LIMIT // ranks}"
            )
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        low, high = _bounds(arguments, self.largest) or (1, self.largest)
        sizes = _doubled(max(low, LEAST_REDUCED) if self.reduces else low, high)
        if self.sizeless or self.single:
            sizes = [WIDEST]
        return tuple(self._quantity(size).info() for size in sizes)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 3.0 if self.sizeless or self.pair else 5.0

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        lines = self._section(lines)
        columns, body = self._table(lines)
        rows = rows_of(body, columns, words=(VALIDATION,))
        if wrong := tuple(self._wrong(columns, rows)):
            return Reading(metrics=(), wrong=wrong)
        check_rows(rows, body, columns, what=self.name)
        low, high = _bounds(arguments, self.largest) or (1, self.largest)
        if self.sizeless:
            check_single(len(rows), f"{self.name}: the row of its table")
            self._check_whole(rows[0], body)
        else:
            self._check_sizes(columns, rows, lines, (low, high))
        check_order(rows, columns, IN_ORDER, what=self.name)
        value_at = next(at for at, name in enumerate(columns) if name in self.column)
        metrics = []
        for row in rows:
            size = 0 if self.sizeless else self._size(row)
            where = f"{columns[value_at]} of {self.name}" + ("" if self.sizeless else f" at {size} bytes")
            value = number(row[value_at], where)
            if self.sizeless or size >= max(low, 1) or (low == 0 and not self.window):
                quantity = self._quantity(size)
                metrics.append(quantity.ran(value * 1e6) if self.window else quantity.took(value * 1e-6))
        return Reading(metrics=tuple(metrics), figures=tuple(self._figures(columns, rows[-1])))

    def _quantity(self, size: int) -> Quantity:
        if self.sizeless:
            return Quantity(key=self.name, label=self.name, statistic=self.reduction)
        key, label = sized(self.name, size)
        done = float(self.window * size)
        return Quantity(key=key, label=label, statistic=self.reduction, done=done, message_bytes=size)

    def _section(self, lines: Sequence[str]) -> list[str]:
        """Return the lines from this test's header to the next header of any test."""
        headers = [(at, found) for at, line in enumerate(lines) if (found := HEADER.match(line[:LONGEST_TITLE]))]
        if not headers:
            raise OutputError(f"{self.name}: its first line '# OSU ... v...' is missing")
        title = re.compile(f"{self.title.format(ACCELERATOR)} Test", re.IGNORECASE)
        own = [at for at, found in headers if title.fullmatch(found["title"])]
        if not own:
            raise OutputError(f"the output is of 'OSU {headers[0][1]['title']}', not of {self.name}")
        check_single(len(own), f"the table of {self.name}")
        known_version(dict(headers)[own[0]]["version"], VERSIONS, what="the OSU benchmarks' version")
        return list(lines[own[0] : next((at for at, _ in headers if at > own[0]), len(lines))])

    def _table(self, lines: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the names of the columns and the lines below them."""
        named = [BETWEEN_COLUMNS.split(line.strip("# \t")) for line in lines[1:]]
        tables = [at for at, names in enumerate(named, 1) if set(self.column) & set(names)]
        if not tables:
            other = next((names for names in named if names[0] == "Size" or names[-1].endswith(("s)", "(%)"))), None)
            known = f": {', '.join(other)} are not supported, expected {self.column[0]}" if other else ""
            raise OutputError(f"{self.name}: the line that names the columns is missing{known}")
        check_single(len(tables), f"the table of {self.name}, of one data type,")
        return named[tables[0] - 1], list(lines[tables[0] + 1 :])

    def _size(self, row: Row) -> int:
        return count(row[0], f"{self.name}: a message size")

    def _check_whole(self, row: Row, lines: Sequence[str]) -> None:
        """Raise `OutputError` if the begin of the number may be on the line before: a row of OSU begins with blanks."""
        at = next(at for at, line in enumerate(lines) if tuple(line.split()) == row)
        if at and lines[at - 1].strip()[:1].isdigit() and lines[at][:1].isdigit():
            raise OutputError(
                f"{self.name}: {lines[at]} may be a part of a number: the line before is {lines[at - 1].strip()}"
            )

    def _check_sizes(
        self, columns: Sequence[str], rows: Sequence[Row], lines: Sequence[str], bounds: tuple[int, int]
    ) -> None:
        """Raise `OutputError` unless sizes double from the first requested one to the last."""
        seen = [self._size(row) for row in rows]
        if self.single:
            return check_single(len(seen), f"{self.name}: the row of its table")
        datatype = next((found[1] for line in lines if (found := DATATYPE.match(line))), "")
        width = WIDTHS.get(datatype, WIDEST) if datatype else LEAST_REDUCED if self.reduces else 1
        low = min(seen[0], max(bounds[0], width))
        try:
            return check_sizes(seen, _doubled(low, bounds[1]), lines, columns, what=self.name)
        except OutputError as error:
            if not self.gathers or "cut off" not in str(error):
                raise
            limit = f"OSU also leaves out sizes for which all ranks' buffers are above {OWN_LIMIT >> 20} MiB"
            raise OutputError(f"{error} ({limit}: raise this limit by -M, or the last size by -m MIN:MAX)") from error

    def _wrong(self, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
        for row in rows:
            verdict = cells_of(columns, row).get(VALIDATION, "Pass")
            if verdict != "Pass":
                where = self.name if self.sizeless else f"{self.name} at {self._size(row)} bytes"
                yield f"{where}: validation says {verdict}"

    def _figures(self, columns: Sequence[str], row: Row) -> Iterator[Figure]:
        """Yield what else the row of the largest message has."""
        for column, cell in cells_of(columns, row).items():
            if column in FIGURES:
                key, label, factor, unit = FIGURES[column]
                value = number(cell, f"{column} of {self.name}") * factor
                yield Figure(key=f"{self.name}.{key}", label=f"{self.name}, {label}", value=value, unit=unit)


def _bounds(arguments: Sequence[str], largest: int) -> tuple[int, int] | None:
    """Return the smallest and the largest message size in -m, or None if it is not valid."""
    text = option_value(arguments, "-m", "--message-size")
    if not text:
        return 1, largest
    parts = text.split(":")
    if not 1 <= len(parts) <= 2 or not all(re.fullmatch(r"[0-9]{1,10}", part) for part in parts if part):
        return None
    low, high = ("", parts[0]) if len(parts) == 1 else parts
    bounds = int(low or 1), int(high or largest)
    return bounds if bounds[0] <= bounds[1] <= 1 << 30 else None


def _doubled(low: int, high: int) -> list[int]:
    """Return the sizes from the first to the last, each twice the one before; 1 follows 0."""
    sizes = []
    while low <= high:
        sizes.append(low)
        low = 2 * low or 1
    return sizes


def _of_two(name: str, title: str, measures: str, *, window: int = 0, single: bool = False) -> Osu:
    column = BANDWIDTH if window else LATENCY
    return Osu(
        name=f"osu_{name}", title=title, measures=measures, column=column, window=window, pair=True, single=single
    )


def _collective(name: str, title: str, *, reduces: bool = False, gathers: bool = False) -> Iterator[Osu]:
    """Yield a collective and its non-blocking form."""
    call, sizeless = f"{name.capitalize()}{', the same count for all' * name.endswith(('v', 'w'))}", name == "barrier"
    yield Osu(
        name=f"osu_{name}", title=f"MPI{{}} {title} Latency", measures=f"time of MPI_{call}, each rank's own",
        largest=MIB, sizeless=sizeless, reduces=reduces, gathers=gathers,
    )  # fmt: skip
    yield Osu(
        name=f"osu_i{name}", title=f"MPI{{}} Non-blocking {title} Latency", column=OVERALL,
        measures=f"time of MPI_I{call.lower()} with a computation that is about as long; the overlap of both",
        largest=MIB, sizeless=sizeless, reduces=reduces, gathers=gathers,
    )  # fmt: skip


OSU: Final[tuple[Osu, ...]] = (
    _of_two("latency", "MPI{} Latency", "half the round trip of one message between two ranks"),
    _of_two("bw", "MPI{} Bandwidth", "bytes a second in windows of 64 messages one way", window=64),
    _of_two(
        "bibw", "MPI{} Bi-Directional Bandwidth",
        "bytes a second of both directions together, 64 messages each way at a time", window=128,
    ),
    _of_two("latency_mt", "MPI{} Multi-threaded Latency", "half the round trip between threads of two ranks"),
    _of_two("latency_mp", "MPI{} Multi-process Latency", "half the round trip between processes of two ranks"),
    _of_two("put_latency", "MPI_Put{} Latency", "time of MPI_Put until it is complete"),
    _of_two("get_latency", "MPI_Get{} Latency", "time of MPI_Get until it is complete"),
    _of_two("acc_latency", "MPI_Accumulate{} Latency", "time of MPI_Accumulate until it is complete"),
    _of_two("get_acc_latency", "MPI_Get_accumulate{} Latency", "time of MPI_Get_accumulate until it is complete"),
    _of_two("fop_latency", "MPI_Fetch_and_op{} Latency", "time of MPI_Fetch_and_op of 8 bytes", single=True),
    _of_two("cas_latency", "MPI_Compare_and_swap{} Latency", "time of MPI_Compare_and_swap of 8 bytes", single=True),
    _of_two("put_bw", "MPI_Put{} Bandwidth", "bytes a second in windows of 64 MPI_Put one way", window=64),
    _of_two("get_bw", "MPI_Get{} Bandwidth", "bytes a second in windows of 64 MPI_Get one way", window=64),
    _of_two(
        "put_bibw", "MPI_Put{} Bi-directional Bandwidth",
        "bytes a second of MPI_Put in both directions together, 64 each way at a time", window=128,
    ),
    Osu(
        name="osu_multi_lat", title="MPI{} Multi Latency", pairs=True,
        measures="half the round trip of one message between the ranks of each pair, all pairs at once",
    ),
    Osu(
        name="osu_mbw_mr", title="MPI{} Multiple Bandwidth / Message Rate", column=BANDWIDTH, window=64, pairs=True,
        measures="bytes a second of all pairs together, windows of 64 messages one way; messages a second",
    ),
    *_collective("alltoall", "All-to-All(?: Personalized Exchange)?", gathers=True),
    *_collective("alltoallv", "All-to-Allv(?: Personalized Exchange)?", gathers=True),
    *_collective("alltoallw", "All-to-Allw(?: Personalized Exchange)?", gathers=True),
    *_collective("allgather", "Allgather", gathers=True),
    *_collective("allgatherv", "Allgatherv", gathers=True),
    *_collective("allreduce", "Allreduce", reduces=True),
    *_collective("bcast", "Broadcast"),
    *_collective("gather", "Gather", gathers=True),
    *_collective("gatherv", "Gatherv", gathers=True),
    *_collective("reduce", "Reduce", reduces=True),
    *_collective("reduce_scatter", "Reduce_scatter", reduces=True),
    *_collective("scatter", "Scatter", gathers=True),
    *_collective("scatterv", "Scatterv", gathers=True),
    *_collective("barrier", "Barrier"),
)  # fmt: skip
