"""Intel MPI Benchmarks: the tables of IMB-MPI1, IMB-RMA, IMB-NBC and IMB-EXT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tare.model import Figure, Metric, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import count, ended, known_version, number, whole
from tare.workloads.programs.options import called, with_value
from tare.workloads.programs.quantities import Quantity, sized

PLACE: Final = "/opt/tare/programs/imb"
VERSIONS: Final = ("2018", "2019", "2021")
BYTES: Final = "#bytes"
REPETITIONS: Final = "#repetitions"
TIMES: Final = ("t_max[usec]", "t[usec]", "t_ovrl[usec]", "t_avg[usec]")
"""Columns that can be the metric, the best first: a job waits for its slowest rank."""
RATE: Final = "Mbytes/sec"
OVERLAP: Final = "overlap[%]"
END: Final = "# All processes entering MPI_Finalize"
HEADER: Final = re.compile(r"Intel\(R\) MPI Benchmarks\s+(?:20\d\d Update \d+|(?P<version>\d[\d.]*))")
LARGEST_LOG: Final = 22
THIN_LOGS: Final = "13:13"
THIN_ITERATIONS: Final = "10"
ALL_RANKS: Final = "1000000"
"""A value of -npmin above any number of ranks: then only all ranks together are measured, not also 2, 4, ..."""

REDUCING: Final = re.compile("reduce|accumulate", re.IGNORECASE)
"""Benchmarks that calculate with floats, so that they begin with four bytes."""

WITH_VALUE: Final = frozenset(
    {"-npmin", "-msglog", "-msglen", "-iter", "-iter_policy", "-time", "-mem", "-map", "-multi", "-off_cache",
     "-root_shift", "-sync", "-imb_barrier", "-input", "-thread_level", "-window_size", "-data_type", "-red_data_type",
     "-contig_type", "-zero_size", "-aggregate_mode", "-warm_up", "-exclude", "-include"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One benchmark's table: its name, how many ranks took part, its mode if it has several, columns and rows."""

    test: str
    ranks: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imb(ProgramAdapter):
    """One program of the suite; its arguments name the benchmarks that are run."""

    name: str
    measures: str

    versions = "2018, 2019 and 2021 (2021.11 seen)"
    ranks = "2 or more"
    timer = "MPI_Wtime around all repetitions of a size"
    synchronisation = "two barriers before the repetitions of a size"
    reduction = "mean over repetitions, maximum over ranks"
    places = (f"{PLACE}/bin",)
    brought_by = "tools/programs imb"

    @property
    def describes(self) -> str:
        """Return a description of one line."""
        return f"{self.name} of the Intel MPI Benchmarks"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        given = arguments if "-npmin" in arguments else ("-npmin", ALL_RANKS, *arguments)
        return called(self.name, self.places, program, given)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        if not benchmarks(arguments):
            return f"{self.name}: name the benchmarks to run in arguments, such as PingPong; all of them take hours"
        if placement.ranks < 2:
            return f"{self.name} needs 2 ranks or more, but the placement has {placement.ranks}"
        if _sizes(arguments) is None:
            return f"{self.name}: -msglog takes MIN:MAX or MAX, powers of two of bytes, no more than 30"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        infos = []
        for test in benchmarks(arguments):
            sizes: tuple[int | None, ...] = _sizes(arguments) or ()
            if test.lower().endswith("barrier"):
                sizes = (None,)
            elif REDUCING.search(test):
                sizes = tuple(size for size in sizes if size not in {1, 2})
            infos += [_quantity(test, size).info() for size in sizes]
        return tuple(infos)

    def thin(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return with_value(with_value(arguments, THIN_LOGS, "-msglog"), THIN_ITERATIONS, "-iter")

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 5.0 * max(1, len(benchmarks(arguments)))

    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        lines = whole(text)
        headers = [found for line in lines if (found := HEADER.search(line))]
        if not headers:
            raise OutputError(f"{self.name}: its first line 'Intel(R) MPI Benchmarks ...' is missing")
        if headers[0]["version"]:  # 2018 and 2019 count updates instead
            known_version(headers[0]["version"], VERSIONS, what="the Intel MPI Benchmarks' version")
        ended(lines, END, what=self.name)
        tables = largest(_tables(lines))
        for test in benchmarks(arguments):
            if not any(name.partition(" ")[0].lower() == test.lower() for name in tables):
                raise OutputError(f"{self.name}: the line '# Benchmarking {test}' is missing")
        if not tables:
            raise OutputError(f"{self.name}: no line '# Benchmarking ...': nothing was run")
        metrics = [metric for table in tables.values() for metric in _metrics(table)]
        figures = [figure for table in tables.values() for figure in _figures(table)]
        return Reading(metrics=tuple(metrics), figures=tuple(figures))


def benchmarks(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the benchmarks that arguments name, without options and their values."""
    named, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument.startswith("-"):
            skip = argument in WITH_VALUE
        else:
            named.append(argument)
    return tuple(named)


def largest(tables: Sequence[Table]) -> dict[str, Table]:
    """Return each benchmark's table with the most ranks: without -npmin a run begins with two and doubles them."""
    best: dict[str, Table] = {}
    for table in tables:
        if table.test not in best or table.ranks > best[table.test].ranks:
            best[table.test] = table
    return best


def _tables(lines: Sequence[str]) -> list[Table]:
    """Return all tables; raise `OutputError` where one has no columns, no rows, or a row that is none."""
    starts = [at for at, line in enumerate(lines) if re.match(r"#\s*Benchmarking\s+\S", line)]
    found: list[Table] = []
    for at, end in pairwise([*starts, len(lines)]):
        test = lines[at].split("Benchmarking", 1)[1].split()[0]
        ranks = next(
            (match for line in lines[at:end] if (match := re.match(r"#\s*#processes\s*=\s*(\d+)", line))), None
        )
        if ranks is None:
            raise OutputError(f"{test}: the line '# #processes = ...' is missing")
        parts = list(_parts(test, lines[at:end]))
        if not parts:
            raise OutputError(f"{test}: the line that names the columns is missing")
        for name, columns, body in parts:
            rows = tuple(_row(name, columns, line) for line in body)
            if not rows:
                raise OutputError(f"{name}: the table has no row")
            found.append(Table(test=name, ranks=count(ranks[1], f"#processes of {test}"), columns=columns, rows=rows))
    return found


def _parts(test: str, lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield name, columns and rows of each mode of a benchmark (one-sided ones have two, one of them aggregate)."""
    mode, name = "", test
    columns: tuple[str, ...] = ()
    body: list[str] = []
    for line in lines:
        text = line.strip()
        if heading := re.match(r"#\s*MODE:\s*(\S+)", text):
            mode = heading[1].lower()
        elif REPETITIONS in text.split():
            if columns:
                yield name, columns, body
            columns, body = tuple(text.split()), []
            name = f"{test} {mode}" if mode else test
        elif columns and text and not text.startswith("#"):
            body.append(text)
        elif columns and body and not text:
            yield name, columns, body
            columns, body = (), []
    if columns:
        yield name, columns, body


def _row(test: str, columns: Sequence[str], line: str) -> tuple[str, ...]:
    cells = tuple(line.split())
    if len(cells) != len(columns):
        raise OutputError(f"{test}: a row does not have the {len(columns)} columns of its header: {line[:80]}")
    for name, cell in zip(columns, cells, strict=True):
        number(cell, f"{name} of {test}")
    return cells


def _metrics(table: Table) -> Iterator[Metric]:
    column = next((name for name in TIMES if name in table.columns), None)
    sized_rows = BYTES in table.columns
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        size = count(cells[BYTES], f"{BYTES} of {table.test}") if sized_rows else None
        where = f"{column or RATE} of {table.test}" + ("" if size is None else f" at {size} bytes")
        if column:
            yield _quantity(table.test, size).took(number(cells[column], where) * 1e-6)
        elif RATE in cells:
            if size:
                quantity = _quantity(table.test, size, done=float(size))
                yield quantity.ran(number(cells[RATE], where) * 1e6)
        else:
            raise OutputError(f"{table.test}: no column of time or {RATE} among {', '.join(table.columns)}")


def _figures(table: Table) -> Iterator[Figure]:
    """Yield the rate of the largest message, and the share of a collective that overlaps computation."""
    last = dict(zip(table.columns, table.rows[-1], strict=True))
    if RATE in last and any(name in last for name in TIMES):
        rate = number(last[RATE], f"{RATE} of {table.test}")
        yield Figure(key=f"{table.test}.rate", label=f"{table.test}, largest message", value=rate * 1e6, unit="B/s")
    if OVERLAP in last:
        share = number(last[OVERLAP], f"{OVERLAP} of {table.test}")
        yield Figure(key=f"{table.test}.overlap", label=f"{table.test}, overlap", value=share, unit="%")


def _quantity(test: str, size: int | None, done: float = 0.0) -> Quantity:
    if size is None:
        return Quantity(key=test, label=test, statistic=Imb.reduction)
    key, label = sized(test, size)
    return Quantity(key=key, label=label, statistic=Imb.reduction, done=done, message_bytes=size)


def _sizes(arguments: Sequence[str]) -> tuple[int, ...] | None:
    """Return the message sizes in -msglog, or None if it is not valid."""
    text = f"0:{LARGEST_LOG}"
    for at, argument in enumerate(arguments):
        if argument == "-msglog":
            text = arguments[at + 1] if at + 1 < len(arguments) else "?"
    match = re.fullmatch(r"(?:(\d{1,2}):)?(\d{1,2})", text)
    if not match or int(match[2]) > 30 or int(match[1] or 0) > int(match[2]):
        return None
    return (0, *(1 << power for power in range(int(match[1] or 0), int(match[2]) + 1)))


IMB: Final[tuple[Imb, ...]] = (
    Imb(name="IMB-MPI1", measures="messages between two ranks and collectives: PingPong, Sendrecv, Allreduce, ..."),
    Imb(name="IMB-RMA", measures="one-sided transfers of MPI-3: Unidir_put, Bidir_get, Accumulate, ..."),
    Imb(name="IMB-NBC", measures="non-blocking collectives: Ibcast, Iallreduce, ..., and their overlap"),
    Imb(name="IMB-EXT", measures="one-sided transfers of MPI-2: Unidir_Put, Accumulate, Window, ..."),
)
