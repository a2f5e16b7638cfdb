"""NAS Parallel Benchmarks 3.3 (`bt.A.4`) and 3.4 (`bt.A.x`), MPI versions: EP, IS, CG, MG, FT, BT, SP and LU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import after, check_single, count, known_version, number
from tare.workloads.programs.options import called
from tare.workloads.programs.quantities import Quantity

VERSIONS: Final = ("3.3", "3.4")
BINARY: Final = re.compile(r"(?P<kernel>ep|is|cg|mg|ft|bt|sp|lu)\.(?P<letter>[SWABCD])\.(?P<ranks>x|[1-9]\d*)")
COMPLETED: Final = re.compile(r"^\s*([A-Z][A-Z-]+) Benchmark Completed\.?\s*$")
OPS_A_SECOND: Final = 1e9
"""A modest rate per rank, to estimate how long a run takes."""

_CLASSES: Final = "SWABCD"
_EP: Final = (24, 25, 28, 30, 32, 36)
_IS: Final = (16, 20, 23, 25, 27, 31)
_CG: Final = ((1400, 7, 15), (7000, 8, 15), (14000, 11, 15), (75000, 13, 75), (150000, 15, 75), (1500000, 21, 100))
_MG: Final = ((32, 4), (128, 4), (256, 4), (256, 20), (512, 20), (1024, 50))
_FT: Final = ((18, 6), (19, 6), (23, 6), (25, 20), (27, 20), (31, 25))
_BT: Final = ((12, 60), (24, 200), (64, 200), (102, 200), (162, 200), (408, 250))
_SP: Final = ((12, 100), (36, 400), (64, 400), (102, 400), (162, 400), (408, 500))
_LU: Final = ((12, 50), (33, 300), (64, 250), (102, 250), (162, 250), (408, 300))


def _cg(size: tuple[int, int, int]) -> float:
    rows, nonzeros, iterations = size
    z = nonzeros * (nonzeros + 1)
    return 2.0 * iterations * rows * (3 + z + 25 * (5 + z) + 3)


def _ft(size: tuple[int, int]) -> float:
    points, iterations = 2.0 ** size[0], size[1]
    logarithm = math.log(points)
    return points * (14.8157 + 7.19641 * logarithm + (5.23518 + 7.21113 * logarithm) * iterations)


def _cube(size: tuple[int, int], *coefficients: float) -> float:
    n, steps = size
    three, two, one, none = coefficients
    return steps * (three * n**3 + two * n**2 + one * n + none)


_OPERATIONS: Final[Mapping[str, Callable[[int], float]]] = {
    "ep": lambda at: 2.0 ** (_EP[at] + 1),
    "is": lambda at: 10.0 * 2 ** _IS[at],
    "mg": lambda at: 58.0 * _MG[at][1] * _MG[at][0] ** 3,
    "cg": lambda at: _cg(_CG[at]),
    "ft": lambda at: _ft(_FT[at]),
    "bt": lambda at: _cube(_BT[at], 3478.8, -17655.7, 28023.7, 0.0),
    "sp": lambda at: _cube(_SP[at], 881.174, -4683.91, 11484.5, -19272.4),
    "lu": lambda at: _cube(_LU[at], 1984.77, -10923.3, 27770.9, -144010.0),
}


def operations(kernel: str, letter: str) -> float:
    """Return the number of operations that the benchmark counts: the formulas and sizes of NAS's own reports."""
    return _OPERATIONS[kernel](_CLASSES.index(letter))


class Npb(ProgramAdapter):
    """A binary of the suite; the first argument is its name, which contains benchmark, class and ranks."""

    name = "npb"
    results = ("Mop/s total", "Time in seconds")
    describes = "a binary of the NAS Parallel Benchmarks: arguments: [bt.A.x], or bt.A.4 of 3.3"
    measures = "Mop/s of EP, IS, CG, MG, FT, BT, SP or LU, by NAS's count of operations"
    versions = "3.3 and 3.4"
    ranks = (
        "IS, CG, MG, FT: a power of two; BT, SP: a square number; LU: factors as near to the square as 2 to 1; EP: any"
    )
    timer = "MPI_Wtime around the timed section"
    synchronisation = "a barrier before the timed section"
    reduction = "maximum over ranks of one run"
    places = ("/opt/tare/programs/npb/bin",)
    failure = re.compile(r"^\s*(?:verification failed|FAILURE:)", re.IGNORECASE)
    brought_by = "the NPB are not packaged: build them for this MPI, then name the folder by path:"

    def executable(self, arguments: tuple[str, ...]) -> str:
        return arguments[0] if arguments else "bt.A.x"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return called(self.executable(arguments), self.places, program, arguments[1:])

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        binary = BINARY.fullmatch(arguments[0]) if arguments else None
        if not binary:
            return (
                "npb: the first argument is the binary's name, KERNEL.CLASS.RANKS of 3.3 or KERNEL.CLASS.x of 3.4, "
                "with a kernel of ep is cg mg ft bt sp lu and a class of S W A B C D"
            )
        ranks = placement.ranks
        if binary["ranks"] not in {"x", str(ranks)}:
            return f"{arguments[0]} was compiled for {binary['ranks']} ranks, but the placement has {ranks}"
        return _rank_rule(binary["kernel"], ranks)

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (_quantity(*_asked(arguments)).info(),)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 1.0 + operations(*_asked(arguments)) / (OPS_A_SECOND * placement.ranks)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        kernel, letter = _asked(arguments)
        what = f"NPB {kernel.upper()}"
        starts = [at for at, line in enumerate(lines) if COMPLETED.match(line)]
        if not starts:
            raise OutputError(f"{what}: the line '{kernel.upper()} Benchmark Completed' is missing")
        reports = [lines[at:end] for at, end in pairwise([*starts, len(lines)])]
        own = [report for report in reports if _of(report, what) == f"{kernel}.{letter}"]
        if not own:
            raise OutputError(f"the output is of {_of(reports[0], what)}, not of {kernel}.{letter}")
        check_single(len(own), f"the report of {what} class {letter}")
        report = own[0]
        known_version(_value(report, "Version", what), VERSIONS, what="NPB")
        verification = _value(report, "Verification", what)
        if verification != "SUCCESSFUL":
            return Reading(metrics=(), wrong=(f"{what} class {letter}: Verification = {verification}",))
        mops = number(_value(report, "Mop/s total", what), f"Mop/s total of {what}")
        seconds = number(_value(report, "Time in seconds", what), f"Time in seconds of {what}")
        metric = _quantity(kernel, letter).ran(mops * 1e6)
        if abs(metric.value - seconds) > 0.02 * seconds + 0.0051:
            raise OutputError(
                f"{what}: {mops:g} Mop/s in {seconds:g} s are not the operations of class {letter}: "
                "one of the two lines is wrong"
            )
        ranks = _ranks(report, what)
        if arguments[0].rpartition(".")[2] not in {"x", str(ranks)}:
            raise OutputError(
                f"{what}: {arguments[0]} ran on {ranks} rank{'s' * (ranks != 1)}: "
                "start it by the launcher of the MPI for which it was built"
            )
        figures = (Figure(key=f"{kernel}.ranks", label=f"{kernel.upper()}, ranks that took part", value=ranks),)
        return Reading(metrics=(metric,), figures=figures)


def _asked(arguments: tuple[str, ...]) -> tuple[str, str]:
    binary = BINARY.fullmatch(arguments[0]) if arguments else None
    if not binary:
        raise OutputError("npb: the first argument is not the name of a binary")
    return binary["kernel"], binary["letter"]


def _of(report: Sequence[str], what: str) -> str:
    """Return which benchmark and class a report is of, such as `bt.A`."""
    completed = COMPLETED.match(report[0])
    return f"{completed[1].lower() if completed else ''}.{_value(report, 'Class', what)}"


def _quantity(kernel: str, letter: str) -> Quantity:
    label = f"NPB {kernel.upper()} {letter}"
    return Quantity(
        key=f"{kernel}.{letter}", label=label, statistic=Npb.reduction, done=operations(kernel, letter), unit="op/s"
    )


def _value(report: Sequence[str], label: str, what: str) -> str:
    """Return the value after `label =` in the report; the label must be the whole text before the sign."""
    for line in report:
        name, sign, value = line.partition("=")
        if sign and name.strip() == label and value.strip():
            return value.strip()
    return after([], f"{label} =", what=what)


def _ranks(report: Sequence[str], what: str) -> int:
    """Return how many ranks took part: 3.4 leaves those out that the benchmark cannot use."""
    total = count(_value(report, "Total processes", what), f"Total processes of {what}")
    active = next((line.partition("=")[2].strip() for line in report if line.strip().startswith("Active proc")), "")
    return count(active, f"Active processes of {what}") if active else total


def _rank_rule(kernel: str, ranks: int) -> str | None:
    if kernel in {"is", "cg", "mg", "ft"} and ranks & (ranks - 1):
        return f"NPB {kernel.upper()} runs on a power of two of ranks, but the placement has {ranks}"
    if kernel in {"bt", "sp"} and math.isqrt(ranks) ** 2 != ranks:
        rule = f"NPB {kernel.upper()} needs a square number of ranks (others would be idle)"
        return f"{rule}, but the placement has {ranks}"
    if kernel == "lu":
        rows = next(part for part in range(math.isqrt(ranks), 0, -1) if ranks % part == 0)
        if ranks // rows > 2 * rows:
            return f"NPB LU needs ranks in a grid no more than twice as long as wide, {ranks} have none"
    return None
