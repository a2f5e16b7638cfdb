"""HPC Challenge 1.5 (Debian's `hpcc`): HPL, STREAM, RandomAccess and DGEMM of one run, read from hpccoutf.txt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.system.packages import install
from tare.workloads.output import OutputError
from tare.workloads.programs import hpl
from tare.workloads.programs.adapter import Reading
from tare.workloads.programs.lines import check_single, ended, known_version, number
from tare.workloads.programs.options import called
from tare.workloads.programs.quantities import Quantity

INPUT: Final = "hpccinf.txt"
OUTPUT: Final = "hpccoutf.txt"
BEGIN: Final = "Begin of Summary section."
END: Final = "End of Summary section."
LAST: Final = "End of HPC Challenge tests."
ERRORS_ALLOWED: Final = 0.01
"""The share of wrong entries that RandomAccess's rules allow: updates may get lost between processes."""

STATISTIC: Final = "one run"


def _rate(key: str, label: str, unit: str, statistic: str = STATISTIC) -> Quantity:
    return Quantity(key=key, label=label, statistic=statistic, done=1e9, unit=unit)


RATES: Final[Mapping[str, Quantity]] = {
    "StarSTREAM_Triad": _rate("stream", "STREAM triad", "B/s", "average of all ranks at once, best of ten"),
    "StarDGEMM_Gflops": _rate("dgemm", "DGEMM", "FLOP/s", "average of all ranks at once"),
    "MPIRandomAccess_GUPs": _rate("randomaccess", "RandomAccess", "op/s", "all ranks together"),
}
"""Lines of the summary that are metrics, in 10^9 units a second."""

FIGURES: Final[Mapping[str, tuple[str, float, str]]] = {
    "HPL_time": ("HPL, time of the last solution", 1.0, "s"),
    "SingleSTREAM_Triad": ("STREAM triad, one rank alone", 1e9, "B/s"),
    "StarSTREAM_Copy": ("STREAM copy, all ranks", 1e9, "B/s"),
    "SingleDGEMM_Gflops": ("DGEMM, one rank alone", 1e9, "FLOP/s"),
    "StarRandomAccess_GUPs": ("RandomAccess, each rank its own table", 1e9, "op/s"),
    "PTRANS_GBs": ("PTRANS", 1e9, "B/s"),
    "MPIFFT_Gflops": ("FFT over all ranks", 1e9, "FLOP/s"),
    "AvgPingPongLatency_usec": ("ping-pong, 8 bytes", 1e-6, "s"),
    "AvgPingPongBandwidth_GBytes": ("ping-pong, 2 MB", 1e9, "B/s"),
    "RandomlyOrderedRingLatency_usec": ("ring in random order, 8 bytes", 1e-6, "s"),
    "RandomlyOrderedRingBandwidth_GBytes": ("ring in random order, 2 MB", 1e9, "B/s"),
}


class Hpcc(hpl.Hpl):
    """The program of Debian, which runs all of its tests; its input file is written for the number of ranks."""

    name = file = "hpcc"
    results = tuple(RATES)
    describes = (
        "HPC Challenge: arguments n= (order of HPL's matrix) or memory= (share of one node's memory), nb= (list)"
    )
    measures = "FLOP/s of HPL (one metric a blocking factor) and DGEMM, B/s of STREAM triad, updates/s of RandomAccess"
    versions = "1.5"
    timer = "MPI_Wtime"
    synchronisation = "a barrier before each test"
    reduction = "as each test has it; HPL: the slowest rank, STREAM and DGEMM: the average of ranks"
    places = ("/opt/tare/programs/hpcc/bin",)
    failure = re.compile(
        rf"{hpl.FAILURE.pattern}|^(?:\|\|Ax-b\|\|_oo/|WALL|CPU ).*FAILED|^Node\(s\) with error [1-9]|^Failed Val"
    )
    brought_by = install("hpcc")

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return called("hpcc", self.places, program, (), *hpl.input_options(INPUT, arguments), "-o", OUTPUT)

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return tuple(one.info() for one in (*map(hpl.quantity, hpl.blockings(arguments)), *RATES.values()))

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 10.0 + 2.0 * super().expected_s(arguments, placement)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        lines = [line.strip() for line in lines]
        ended(lines, LAST, what="hpcc")
        values = summary(lines)
        version = ".".join(_value(values, f"Version{part}") for part in ("Major", "Minor"))
        known_version(version, ("1.5",), what="hpcc")
        solved = hpl.reading(hpl.solutions(lines), arguments)
        if wrong := (*solved.wrong, *_wrong(values, lines)):
            return Reading(metrics=(), wrong=wrong)
        rates = [q.ran(number(_value(values, key), key) * q.done) for key, q in RATES.items()]
        figures = [
            Figure(key=key, label=label, value=number(_value(values, key), key) * factor, unit=unit)
            for key, (label, factor, unit) in FIGURES.items()
        ]
        return Reading(metrics=(*solved.metrics, *rates), figures=(*solved.figures, *figures))


def summary(lines: Sequence[str]) -> dict[str, str]:
    """Return the `key=value` lines of the summary; raise `OutputError` if its first or last line is missing."""
    for mark in (BEGIN, END):
        if mark not in lines:
            raise OutputError(f"hpcc: the line {mark!r} is missing")
        check_single(lines.count(mark), "the summary of hpcc")
    part = lines[lines.index(BEGIN) : lines.index(END)]
    pairs = [line.split("=", 1) for line in part if "=" in line]
    for key, times in Counter(key for key, _ in pairs).items():
        check_single(times, f"hpcc: the line '{key}='")
    return dict(pairs)


def _value(values: Mapping[str, str], key: str) -> str:
    if key not in values:
        raise OutputError(f"hpcc: the line '{key}=' of the summary is missing")
    return values[key]


def _wrong(values: Mapping[str, str], lines: Sequence[str]) -> tuple[str, ...]:
    """Return the errors that the tests report in their own results."""
    errors = []
    if _value(values, "Success") != "1":
        errors.append(f"hpcc: Success={values['Success']}")
    share = number(_value(values, "MPIRandomAccess_ErrorsFraction"), "MPIRandomAccess_ErrorsFraction")
    if share < 0:
        errors.append("RandomAccess: it did not run (MPIRandomAccess_ErrorsFraction is below 0)")
    elif share > ERRORS_ALLOWED:
        errors.append(f"RandomAccess: {100 * share:g} % of the table is wrong; {100 * ERRORS_ALLOWED:g} % is allowed")
    if any("Node(s) with error" in line and line.split()[-1] != "0" for line in lines):
        errors.append("hpcc: a line 'Node(s) with error' is not 0")
    if any(line.startswith(("WALL", "CPU")) and " FAILED " in line for line in lines):
        errors.append("PTRANS: a residual check failed")
    if not any(line.strip().startswith("Solution Validates") for line in lines):
        errors.append("STREAM: the line 'Solution Validates' is missing")
    return tuple(errors)
