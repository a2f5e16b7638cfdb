"""Intel MPI Benchmarks: the tables of IMB-MPI1, IMB-RMA, IMB-NBC and IMB-EXT."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tare.model import Figure, Metric, MetricInfo, Placement
from tare.model.text import bytes_label
from tare.system.packages import script
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single, count, ended, known_version, number
from tare.workloads.programs.options import called, option_value, with_value
from tare.workloads.programs.quantities import Quantity, sized
from tare.workloads.programs.tables import Row, cells_of, check_order, check_rows, check_sizes, rows_of

PLACE: Final = "/opt/tare/programs/imb"
VERSIONS: Final = ("2018", "2019", "2021")
BYTES: Final = "#bytes"
REPETITIONS: Final = "#repetitions"
TIMES: Final = ("t_max[usec]", "t[usec]", "t_ovrl[usec]", "t_avg[usec]")
"""Columns that can be the metric, the best first: a job waits for its slowest rank."""
IN_ORDER: Final = ("t_min[usec]", "t_avg[usec]", "t_max[usec]")
RATE: Final = "Mbytes/sec"
OVERLAP: Final = "overlap[%]"
DEFECTS: Final = "defects"
GROUP: Final = "Group"
END: Final = "# All processes entering MPI_Finalize"
HEADER: Final = re.compile(r"Intel ?\(R\) MPI Benchmark(?:s| Suite)\s+V?(?P<version>\d[\d.]*)")
CALLED: Final = re.compile(
    r"#\s*(?:Calling sequence was:\s*)?(?:\S*/)?(?P<program>IMB-(?:MPI1|RMA|NBC|EXT|P2P|MT|IO))\b"
)
BEGIN: Final = re.compile(r"\s*#\s*Benchmarking\s+(?:Multi-)?(?P<test>\S+)")
RANKS: Final = re.compile(r"\s*#\s*(?:#processes\s*=\s*|\(\s*(?P<groups>\d+) groups of\s+)(?P<ranks>\d+)\b")
"""How many ranks worked together: with -multi, those of one of the groups."""
LAST_BYTES: Final = re.compile(r"\s*#\s*Maximum message length in bytes:\s*(\d{1,18})")
SKIPPED: Final = re.compile(r"\s*(?P<size>\d{0,18})\s*\b(?P<reason>out-of-mem|time-out|int-overflow)\b")
REMEDIES: Final = {"out-of-mem": "-mem", "time-out": "-time", "int-overflow": "-msglog"}
"""Why IMB skips a size, and the option with which it does not."""
LARGEST_LOG: Final = 22
THIN_LOGS: Final = "13:13"
THIN_ITERATIONS: Final = "10"
ALL_RANKS: Final = "1000000"
"""A value of -npmin above any number of ranks: then only all ranks together are measured, not also 2, 4, ..."""

ONE_SIDED: Final = re.compile("put|get|accumulate|swap|fetch|window", re.IGNORECASE)
OF_ONE_ELEMENT: Final = re.compile("swap|fetch", re.IGNORECASE)
REDUCING: Final = re.compile("reduce|accumulate|swap|fetch", re.IGNORECASE)
"""Benchmarks that calculate with floats, so that they begin with four bytes."""

WITH_VALUE: Final = frozenset(
    {"-npmin", "-msglog", "-msglen", "-iter", "-iter_policy", "-time", "-mem", "-map", "-multi", "-off_cache",
     "-root_shift", "-sync", "-imb_barrier", "-input", "-thread_level", "-window_size", "-data_type", "-red_data_type",
     "-contig_type", "-zero_size", "-aggregate_mode", "-warm_up", "-exclude", "-include"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ImbTable:
    """One benchmark's table: its name with its mode if it has several, how many ranks took part, columns and rows.

    `skipped` gives the reason for each size that IMB did not measure; 0 for a benchmark without sizes.
    """

    test: str
    ranks: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    skipped: Mapping[int, str]


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
    brought_by = script("tools/programs imb")

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

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        headers = [found for line in lines if (found := HEADER.search(line))]
        if not headers:
            raise OutputError(f"{self.name}: its first line 'Intel(R) MPI Benchmarks ...' is missing")
        known_version(headers[0]["version"], VERSIONS, what="the Intel MPI Benchmarks' version")
        called_as = next((found["program"] for line in lines if (found := CALLED.match(line))), self.name)
        if called_as != self.name:
            raise OutputError(f"the output is of {called_as}, not of {self.name}")
        if wrong := tuple(_defects(lines)):
            return Reading(metrics=(), wrong=wrong)
        ended(lines, END, what=self.name)
        check_single(len(headers), f"the output of {self.name}")
        tables = largest(_tables(lines, arguments))
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


def largest(tables: Sequence[ImbTable]) -> dict[str, ImbTable]:
    """Return each benchmark's table with the most ranks: without -npmin a run begins with two and doubles them."""
    best: dict[str, ImbTable] = {}
    for table in tables:
        known = best.get(table.test)
        if known and known.ranks == table.ranks:
            check_single(2, f"the table of {table.test} on {table.ranks} ranks")
        if known is None or table.ranks > known.ranks:
            best[table.test] = table
    return best


def _tables(lines: Sequence[str], arguments: Sequence[str]) -> list[ImbTable]:
    """Return all tables; raise `OutputError` where one has no columns, no rows, or lacks a row."""
    starts = [at for at, line in enumerate(lines) if BEGIN.match(line)]
    found: list[ImbTable] = []
    for at, end in pairwise([*starts, len(lines)]):
        test = _test(lines[at])
        together = next((match for line in lines[at:end] if (match := RANKS.match(line))), None)
        if together is None:
            raise OutputError(f"{test}: the line '# #processes = ...' is missing")
        parts = list(_parts(test, lines[at:end]))
        if not parts:
            raise OutputError(f"{test}: the line that names the columns is missing")
        last = _last_bytes(test, lines[:at], arguments)
        found += [_table(part, together, arguments, last) for part in parts]
    return found


def _parts(test: str, lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield name, columns and lines of each mode of a benchmark (one-sided ones have two, one of them aggregate)."""
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
        elif columns and not text.startswith("#"):
            body.append(text)
    if columns:
        yield name, columns, body


def _table(
    part: tuple[str, tuple[str, ...], list[str]], together: re.Match[str], arguments: Sequence[str], last_bytes: int
) -> ImbTable:
    """Return a table; raise `OutputError` if it lacks the row of a size that was neither measured nor skipped."""
    test, columns, body = part
    rows = rows_of(body, columns)
    if columns[0] == GROUP:
        columns, rows = (
            columns[1:],
            _slowest(columns[1:], [row[1:] for row in rows], int(together["groups"] or 1), test),
        )
    skipped = {int(found["size"] or 0): found["reason"] for line in body if (found := SKIPPED.match(line))}
    if skipped and not rows:
        raise OutputError(f"{test}: IMB skipped every size ({_reasons(skipped)})")
    check_rows(rows, body, columns, what=test)
    if BYTES in columns:
        seen = sorted([*(int(row[0]) for row in rows), *skipped]) if skipped else [int(row[0]) for row in rows]
        last = seen[-1] if skipped or not last_bytes else last_bytes
        if not skipped and not last_bytes and any(line.split()[:1] == [str(2 * last)] for line in body):
            last *= 2  # its row is there, but broken
        wanted = _expected(test, seen, arguments, last)
        if wanted and "-zero_size" not in arguments and not ONE_SIDED.search(test):
            wanted = [0, *wanted]
        check_sizes(seen, wanted, body, columns, what=test)
    else:
        check_single(len(rows), f"{test}: the row of its table")
    check_order(rows, columns, IN_ORDER, what=test)
    return ImbTable(
        test=test,
        ranks=count(together["ranks"], f"#processes of {test}"),
        columns=columns,
        rows=tuple(rows),
        skipped=skipped,
    )


def _slowest(columns: Sequence[str], rows: Sequence[Row], groups: int, test: str) -> list[Row]:
    """Return for each size the row of the slowest group: -multi 1 has one of each, which must all be there."""
    times = Counter(row[0] if columns[0] == BYTES else "" for row in rows)
    for size, found in times.items():
        if found < groups:
            raise OutputError(f"{test}: {found} of {groups} groups have a row{f' of {size} bytes' * bool(size)}")
    at = next((columns.index(name) for name in TIMES if name in columns), -1)
    sign = -1 if at == -1 else 1
    best: dict[str, Row] = {}
    for row in rows:
        size = row[0] if columns[0] == BYTES else ""
        value = sign * number(row[at], f"{columns[at]} of a group")
        if value * sign < 0:
            raise OutputError(f"{test}: {columns[at]} of a group is {row[at]}, which is not possible")
        if size not in best or value > sign * float(best[size][at]):
            best[size] = row
    return list(best.values())


def _expected(test: str, seen: Sequence[int], arguments: Sequence[str], last: int) -> list[int]:
    """Return the sizes that a table must have: powers of two from the first requested one on, up to `last`."""
    sizes = _sizes(arguments) or (0, 1)
    if "-msglen" in arguments or not last:
        return []
    first = next((size for size in seen if size), sizes[1])
    widest = 8 if any("type" in argument for argument in arguments) else 4 if REDUCING.search(test) else 1
    if first > max(sizes[1], widest):
        first = sizes[1]
    wanted = [first]
    while 2 * wanted[-1] <= last:
        wanted.append(2 * wanted[-1])
    return wanted


def _last_bytes(test: str, header: Sequence[str], arguments: Sequence[str]) -> int:
    """Return the size at which a table ends, 0 if it is not known: of one-sided transfers only the option tells it."""
    if ONE_SIDED.search(test):
        return (_sizes(arguments) or (0,))[-1] if "-msglog" in arguments and not OF_ONE_ELEMENT.search(test) else 0
    if not any("MPI-1 part" in line or "NBC part" in line for line in header):
        return 0
    found = next((match[1] for line in header if (match := LAST_BYTES.match(line))), "0")
    return (_sizes(arguments) or (0,))[-1] if "-msglog" in arguments else int(found)


def _reasons(skipped: Mapping[int, str]) -> str:
    return ", ".join(f"{reason}: raise {REMEDIES[reason]}" for reason in dict.fromkeys(skipped.values()))


def _defects(lines: Sequence[str]) -> Iterator[str]:
    """Yield the rows, also of tables that are cut off, in which a build that checks results found wrong data."""
    starts = [at for at, line in enumerate(lines) if BEGIN.match(line)]
    for at, end in pairwise([*starts, len(lines)]):
        for test, columns, body in _parts(_test(lines[at]), lines[at:end]):
            for cells in (cells_of(columns, row) for row in rows_of(body, columns)):
                if DEFECTS in cells and float(cells[DEFECTS]) != 0:
                    where = f"{test} at {cells[BYTES]} bytes" if BYTES in cells else test
                    yield f"{where}: IMB found {cells[DEFECTS]} defects"


def _test(line: str) -> str:
    """Return the benchmark that a line '# Benchmarking ...' names."""
    return line.split("Benchmarking", 1)[1].split(maxsplit=1)[0].removeprefix("Multi-")


def _metrics(table: ImbTable) -> Iterator[Metric]:
    column = next((name for name in TIMES if name in table.columns), None)
    sized_rows = BYTES in table.columns
    for row in table.rows:
        cells = cells_of(table.columns, row)
        size = count(cells[BYTES], f"{BYTES} of {table.test}") if sized_rows else None
        where = f"{column or RATE} of {table.test}" + ("" if size is None else f" at {size} bytes")
        if column:
            yield _quantity(table.test, size).took(number(cells[column], where) * 1e-6)
        elif other := next((name for name in table.columns if name.startswith("t") and name.endswith("sec]")), ""):
            raise OutputError(f"{table.test}: the column {other} is not supported, expected {TIMES[1]}")
        elif RATE in cells:
            if size:
                quantity = _quantity(table.test, size, done=float(size))
                yield quantity.ran(number(cells[RATE], where) * 1e6)
        else:
            raise OutputError(f"{table.test}: no column of time or {RATE} among {', '.join(table.columns)}")


def _figures(table: ImbTable) -> Iterator[Figure]:
    """Yield the rate of the largest message, what share of a collective overlaps computation, and what was skipped."""
    last = cells_of(table.columns, table.rows[-1])
    if RATE in last and any(name in last for name in TIMES):
        rate = number(last[RATE], f"{RATE} of {table.test}")
        yield Figure(key=f"{table.test}.rate", label=f"{table.test}, largest message", value=rate * 1e6, unit="B/s")
    if OVERLAP in last:
        share = number(last[OVERLAP], f"{OVERLAP} of {table.test}")
        yield Figure(key=f"{table.test}.overlap", label=f"{table.test}, overlap", value=share, unit="%")
    if table.skipped:
        sizes = ", ".join(map(bytes_label, sorted(table.skipped)))
        label = f"{table.test}, sizes that IMB skipped: {sizes} ({_reasons(table.skipped)})"
        yield Figure(key=f"{table.test}.skipped", label=label, value=len(table.skipped))


def _quantity(test: str, size: int | None, done: float = 0.0) -> Quantity:
    if size is None:
        return Quantity(key=test, label=test, statistic=Imb.reduction)
    key, label = sized(test, size)
    return Quantity(key=key, label=label, statistic=Imb.reduction, done=done, message_bytes=size)


def _sizes(arguments: Sequence[str]) -> tuple[int, ...] | None:
    """Return the message sizes in -msglog, or None if it is not valid."""
    text = option_value(arguments, "-msglog") or f"0:{LARGEST_LOG}"
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
