"""KMI_HASH 1.1 (CORAL): the program BENCH_QUERY."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import NUMBER, check_single, number
from tare.workloads.programs.options import Wrong, called, keyed, whole_number
from tare.workloads.programs.quantities import Quantity

USUAL: Final = {"n": "2048", "m": "2048", "l": "100", "q": "20"}
"""Reads a rank, queries a rank, length of a read, length of a query."""

THROUGHPUT: Final = "Query throughput (global #queries/s)"
QUANTITY: Final = Quantity(
    key="kmi", label="KMI queries", statistic="all queries of one run, rank 0's time", done=1e3, unit="queries/s"
)


class Kmi(ProgramAdapter):
    """The program, with its four options as arguments."""

    name = "kmi"
    results = (THROUGHPUT,)
    file = "BENCH_QUERY"
    describes = "KMI_HASH's BENCH_QUERY: arguments n= (reads a rank), m= (queries a rank), l=, q= (their lengths)"
    measures = "queries a second over all ranks, one query at a time each"
    versions = "1.1"
    ranks = "2 or more"
    timer = "MPI_Wtime around all queries"
    synchronisation = "none between queries"
    reduction = "rank 0's time of all queries"
    places = ("/opt/tare/programs/kmi/bin",)
    brought_by = "KMI_HASH is not packaged: build it for this MPI, then name the folder of BENCH_QUERY by path:"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        given = tuple(token for key, value in keyed(arguments, USUAL).items() for token in (f"-{key}", value))
        return called("BENCH_QUERY", self.places, program, given)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            for key in USUAL:
                whole_number(values[key], key, 1, 1 << 30)
        except Wrong as error:
            return f"kmi: {error}"
        if int(values["q"]) > int(values["l"]):
            return f"kmi: queries of {values['q']} letters are longer than the reads of {values['l']}"
        if placement.ranks < 2:
            return "kmi needs 2 ranks or more: on one rank it skips the sorting"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (QUANTITY.info(),)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        values = keyed(arguments, USUAL)
        return 1.0 + int(values["m"]) * 50e-6 + int(values["n"]) * 20e-6

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        rates = [value for line in lines if (value := _value(line, THROUGHPUT, r"\S.*?")) is not None]
        if not rates:
            raise OutputError(f"KMI: the line '{THROUGHPUT}' is missing")
        check_single(len(rates), "the throughput of KMI")
        rate = number(rates[0], THROUGHPUT)
        hits = [value for line in lines if (value := _value(line, "Hit count")) is not None]
        commits = [value for line in lines if (value := _value(line, "Commit time")) is not None]
        figures = []
        if hits:
            figures.append(Figure(key="kmi.hits", label="KMI, hits", value=number(hits[-1], "Hit count")))
        if commits:
            seconds = number(commits[-1], "Commit time")
            figures.append(Figure(key="kmi.commit", label="KMI, sorting and exchange", value=seconds, unit="s"))
        return Reading(metrics=(QUANTITY.ran(rate),), figures=tuple(figures))


def _value(line: str, label: str, form: str = NUMBER) -> str | None:
    """Return what a line gives for a label, without a unit, after a colon, an equals sign or nothing."""
    found = re.match(rf"\W*{re.escape(label)}[^\d:=+-]*[:=]?\s*(?P<value>{form})(?:\s+[^\s\d]\S*)?\s*$", line, re.I)
    return found["value"] if found else None
