"""miniFE 2.0, reference version: its YAML file of results."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import after, check_single, ended, known_version, number
from tare.workloads.programs.options import Wrong, called, keyed, whole_number
from tare.workloads.programs.quantities import Quantity

USUAL: Final = {"nx": "64", "ny": "64", "nz": "64"}
RESULTS: Final = "miniFE*.yaml"
LAST: Final = "Total Program Time:"
MOST_ITERATIONS: Final = 200
"""The program ends there; earlier it ends only with a residual near the precision of the machine."""
ROUNDING: Final = 0.01
CONVERGED: Final = 1e-6

QUANTITY: Final = Quantity(
    key="minife", label="miniFE CG", statistic="one solution, rank 0's time", done=1e9, unit="FLOP/s"
)


class MiniFe(ProgramAdapter):
    """The program, with the size of the global grid as arguments."""

    name = "minife"
    results = ("Total CG Mflops",)
    file = "miniFE.x"
    describes = "miniFE: arguments nx= ny= nz= (elements of the global grid)"
    measures = "FLOP/s of 200 iterations of conjugate gradients (Total CG Mflops)"
    versions = "2.0"
    ranks = "any, no more than elements"
    timer = "MPI_Wtime around the solver"
    synchronisation = "none before the solver"
    reduction = "rank 0's time of one solution"
    places = ("/opt/tare/programs/minife/bin",)
    brought_by = "miniFE is not packaged: build it for this MPI, then name the folder of miniFE.x by path:"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        given = tuple(f"{key}={value}" for key, value in keyed(arguments, USUAL).items())
        return called("miniFE.x", self.places, program, given, "-f", "-o", RESULTS)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            sizes = [whole_number(values[key], key, 1, 4096) for key in USUAL]
        except Wrong as error:
            return f"minife: {error}"
        elements = sizes[0] * sizes[1] * sizes[2]
        return None if elements >= placement.ranks else f"minife: {elements} elements are fewer than the ranks"

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (QUANTITY.info(),)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        nx, ny, nz = (int(value) for value in keyed(arguments, USUAL).values())
        return 1.0 + nx * ny * nz * 13_630 / (1e9 * placement.ranks)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        known_version(after(lines, "Mini-Application Version:", what="miniFE"), ("2.0",), what="miniFE")
        check_single(sum(line.startswith("Mini-Application Name:") for line in lines), "the result of miniFE")
        seen = [after(lines, f"{key}:", what="miniFE") for key in USUAL]
        wanted = list(keyed(arguments, USUAL).values())
        if seen != wanted:
            raise OutputError(f"the output is of miniFE {'x'.join(seen)}, not {'x'.join(wanted)}")
        iterations = number(after(lines, "Iterations:", what="miniFE"), "Iterations of miniFE")
        residual = after(lines, "Final Resid Norm:", what="miniFE")
        allowed = largest_residual(max(map(int, wanted)), iterations)
        if not re.fullmatch(r"[\d.eE+-]+", residual) or not 0 <= number(residual, "Final Resid Norm") < allowed:
            told = f"the final norm of the residual is {residual}, which must be below {allowed:.3g}"
            return Reading(metrics=(), wrong=(f"miniFE: {told} after {iterations:g} iterations",))
        ended(lines, LAST, what="miniFE")
        mflops = number(after(lines, "Total CG Mflops:", what="miniFE"), "Total CG Mflops of miniFE")
        seconds = number(after(lines, "Total CG Time:", what="miniFE"), "Total CG Time of miniFE")
        counted = [line.partition(":")[2] for line in lines if line.strip().startswith("Total CG Flops:")]
        flops = number(counted[-1], "Total CG Flops of miniFE") if counted else mflops * 1e6 * seconds
        if not abs(mflops * 1e6 * seconds - flops) <= ROUNDING * flops:
            raise OutputError(
                f"miniFE: {flops:g} operations in {seconds:g} s are not {mflops:g} Mflops: one of the three is wrong"
            )
        figures = [
            Figure(key="minife.time", label="miniFE, time of the solver", value=seconds, unit="s"),
            Figure(key="minife.iterations", label="miniFE, iterations", value=iterations),
        ]
        return Reading(metrics=(QUANTITY.ran(mflops * 1e6),), figures=tuple(figures))


def largest_residual(n: int, iterations: float) -> float:
    """Return a bound for the norm of the residual of conjugate gradients that work, on a grid of `n` elements a side.

    It begins near n and shrinks by a factor that depends on the iterations a side, as the square root of the condition
    number grows with n. The bound is above the published residuals: 0.0213 on 32^3 after 20 iterations, 0.041 on 64^3.
    """
    if iterations < MOST_ITERATIONS:
        return CONVERGED
    return max(CONVERGED, 0.02 * (n + 1) * math.exp(-4.0 * iterations / n))
