"""HPL 2.x, alone (`xhpl`) or as part of `hpcc`: its rows of results, each with its check."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.system.node.limits import machine_memory
from tare.system.packages import install
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import NUMBER, check_single, count, ended, known_version, number
from tare.workloads.programs.options import Wrong, called, fraction, keyed, numbers, whole_number
from tare.workloads.programs.quantities import Quantity
from tare.workloads.programs.tables import cells_of

USUAL: Final = {"n": "", "memory": "", "nb": "128"}
"""The order of the matrix, or the share of a node's memory that it fills, and the blocking factors to try."""

USUAL_N: Final = 2000
SMALL_N: Final = 256
ENTRY_BYTES: Final = 8
LARGEST_N: Final = 1_000_000
OPS_A_SECOND: Final = 1e10
"""A modest rate per rank, to estimate how long a run takes."""
STATISTIC: Final = "one solution, the slowest rank's time"
BANNER: Final = re.compile(r"^HPLinpack (?P<version>\d\S*)\s+--")
CODE: Final = re.compile(r"W[A-Z]{0,3}\d\w*")
"""What a row begins with: the variant that was timed."""
IN_BRACKETS: Final = re.compile(r"\([^()]*\)")
"""What vendors add behind a column and its figures, as in `Gflops (   per GPU)`."""
COLUMNS: Final = ("N", "NB", "P", "Q", "TIME", "GFLOPS")
CHECK: Final = re.compile(rf"^\|\|Ax-b\|\|_oo/.*=\s*(?P<residual>{NUMBER})\s*\.+\s*(?P<verdict>\w+)\s*$", re.IGNORECASE)
TITLE: Final = "T/V"
ALLOWED: Final = 16.0
END: Final = "End of Tests."
FAILURE: Final = re.compile(r"HPL ERROR from process|^\s*[1-9]\d* tests (?:skipped because|completed and failed)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """One row: order, blocking factor, FLOP/s (0 if it did not pass), and the scaled residual with HPL's verdict."""

    n: int
    nb: int
    flops_a_second: float
    residual: float
    passed: bool


class Hpl(ProgramAdapter):
    """`xhpl`; its HPL.dat is written for the number of ranks."""

    name = "hpl"
    file = "xhpl"
    describes = "HPL (xhpl): arguments n= (order) or memory= (share of one node's memory) and nb= (list)"
    measures = "FLOP/s of solving a dense system, one metric a blocking factor"
    versions = "2.x"
    timer = "MPI_Wtime around factorisation and solution"
    synchronisation = "a barrier before each solution"
    reduction = STATISTIC
    places = ("/opt/tare/programs/hpl/bin",)
    failure = FAILURE
    brought_by = f"HPL is not packaged alone: use hpcc ({install('hpcc')}), or build it and name the folder by path:"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return called("xhpl", self.places, program, (), *input_options("HPL.dat", arguments))

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            if values["n"] and values["memory"]:
                return f"{self.name}: give n= or memory=, not both"
            if values["n"]:
                whole_number(values["n"], "n", 1, LARGEST_N)
            if values["memory"]:
                fraction(values["memory"], "memory", 1e-6, 0.95)
            blockings(arguments)
        except Wrong as error:
            return f"{self.name}: {error}"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return tuple(quantity(nb).info() for nb in blockings(arguments))

    def thin(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (f"n={SMALL_N}", f"nb={keyed(arguments, USUAL)['nb']}")

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        values = keyed(arguments, USUAL)
        n = int(values["n"] or USUAL_N)
        if values["memory"]:  # a share of this machine's
            n = math.isqrt(int(float(values["memory"]) * machine_memory() / ENTRY_BYTES))
        return 2.0 + len(blockings(arguments)) * operations(n) / (OPS_A_SECOND * placement.ranks)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        solved = reading(solutions(lines), arguments)
        if not solved.wrong:
            ended(lines, END, what="HPL")
        return solved


def quantity(nb: int) -> Quantity:
    """Return the metric of one blocking factor; a sample is 10^9 operations, as N may depend on the memory."""
    return Quantity(key=f"hpl:{nb}", label=f"HPL NB={nb}", statistic=STATISTIC, done=1e9, unit="FLOP/s")


def operations(n: int) -> float:
    """Return the operations that HPL counts for a matrix of order `n`."""
    return 2.0 / 3.0 * n**3 + 1.5 * n**2


def solutions(lines: Sequence[str]) -> list[Solution]:
    """Return all rows of results with their checks; raise `OutputError` if one is missing."""
    banner = next((found for line in lines if (found := BANNER.match(line.strip()))), None)
    if banner is None:
        raise OutputError("HPL: its first line 'HPLinpack ...' is missing")
    known_version(banner["version"], ("2",), what="HPL")
    rows = list(_rows(lines))
    if not rows:
        raise OutputError("HPL: the row of results below 'T/V  N  NB  P  Q  Time  Gflops' is missing")
    ends = [at for at, _ in rows[1:]] + [len(lines)]
    return [_solution(row, lines[at:end]) for (at, row), end in zip(rows, ends, strict=True)]


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield where each row of results is, with its cells by the columns that the title line above it names."""
    columns: list[str] = []
    for at, line in enumerate(lines):
        cells = IN_BRACKETS.sub("", line).split()
        if cells[:1] == [TITLE] and ":" not in cells:  # the line that explains T/V has a colon
            columns = [cell.upper() for cell in cells]
            if missing := [name for name in COLUMNS if name not in columns]:
                raise OutputError(f"HPL: its table has no column {missing[0]}: {' '.join(line.split())}")
        elif columns and cells and CODE.fullmatch(cells[0]):
            if len(cells) != len(columns):
                raise OutputError(f"HPL: a row does not have the {len(columns)} columns of its title: {line[:80]}")
            yield at, cells_of(columns, tuple(cells))


def _solution(row: Mapping[str, str], lines: Sequence[str]) -> Solution:
    where = f"HPL N={row['N']} NB={row['NB']}"
    check = next((found for line in lines if (found := CHECK.match(line.strip()))), None)
    if check is None:
        raise OutputError(f"{where}: the line of its check, '||Ax-b||_oo/(...)= ... PASSED', is missing")
    verdict, residual = check["verdict"].upper(), float(check["residual"])
    if verdict not in {"PASSED", "FAILED"}:
        raise OutputError(f"{where}: its check prints {check['verdict']!r}, neither PASSED nor FAILED")
    passed = verdict == "PASSED" and 0 <= residual < ALLOWED  # not so for NaN
    n, nb = (count(row[key], f"{key} of {where}") for key in ("N", "NB"))
    flops_a_second = _rate(row, n, where) if passed else 0.0
    return Solution(n=n, nb=nb, flops_a_second=flops_a_second, residual=residual, passed=passed)


def _rate(row: Mapping[str, str], n: int, where: str) -> float:
    """Return the FLOP/s of a row; raise `OutputError` if its rate and its time contradict each other."""
    gflops, seconds = number(row["GFLOPS"], f"Gflops of {where}"), number(row["TIME"], f"Time of {where}")
    if gflops <= 0 or abs(operations(n) / (gflops * 1e9) - seconds) > 0.02 * seconds + 0.0051:
        raise OutputError(f"{where}: {gflops:g} Gflops and {seconds:g} s contradict each other: one of them is wrong")
    return gflops * 1e9


def reading(solved: Sequence[Solution], arguments: tuple[str, ...]) -> Reading:
    """Return the metrics of all solutions, one for each requested blocking factor."""
    wrong = tuple(
        f"HPL N={solution.n} NB={solution.nb}: the scaled residual is {solution.residual:g}, which must be below 16"
        for solution in solved
        if not solution.passed
    )
    if wrong:
        return Reading(metrics=(), wrong=wrong)
    asked, factors = keyed(arguments, USUAL)["n"], blockings(arguments)
    if asked and not any(solution.n == int(asked) for solution in solved):
        raise OutputError(f"the output is of HPL N={solved[0].n}, not of N={asked}")
    solved = [solution for solution in solved if not asked or solution.n == int(asked)]
    for nb in factors:
        times = sum(solution.nb == nb for solution in solved)
        if not times:
            raise OutputError(f"HPL: the row of NB={nb} is missing")
        check_single(times, f"HPL: the row of NB={nb}")
    by_blocking = {solution.nb: solution for solution in solved}
    last = by_blocking[factors[-1]]
    figures = (
        Figure(key="hpl.n", label="HPL, order of the matrix", value=last.n),
        Figure(key="hpl.residual", label="HPL, scaled residual", value=last.residual),
    )
    return Reading(metrics=tuple(quantity(nb).ran(by_blocking[nb].flops_a_second) for nb in factors), figures=figures)


# --- arguments ----------------------------------------------------------------------------------------------------


def input_options(file: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options of `tare-run` that write the program's input file."""
    values = keyed(arguments, USUAL)
    order = f"memory={values['memory']}" if values["memory"] else f"n={values['n'] or USUAL_N}"
    return ("-f", "-l", file, "-n", order, "-b", values["nb"])


def blockings(arguments: tuple[str, ...]) -> tuple[int, ...]:
    """Return the blocking factors, each once."""
    return tuple(dict.fromkeys(numbers(keyed(arguments, USUAL)["nb"], "nb", 1, 4096)))
