"""HPCG 3.1: its result file, `key=value` with `::` between the parts of a key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single, known_version, number
from tare.workloads.programs.options import Wrong, called, keyed, whole_number
from tare.workloads.programs.quantities import Quantity

USUAL: Final = {"nx": "32", "ny": "32", "nz": "32", "rt": "10"}
VERSION: Final = re.compile(r"\s*(?:HPCG-Benchmark )?version[=:]\s*(\d\S*)")
RESULTS: Final = ("HPCG-Benchmark*.txt",)
RATING: Final = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
SUMMARY: Final = "Final Summary::HPCG result is"
TESTS: Final = {
    "Spectral Convergence Tests::Result": "spectral convergence test",
    "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Result": "symmetry test",
    "Iteration Count Information::Result": "iteration count",
    "Reproducibility Information::Result": "reproducibility test",
}
GRID: Final = "Local Domain Dimensions"
SMALLEST: Final = 16
ASPECT: Final = 8
QUANTITY: Final = Quantity(
    key="hpcg", label="HPCG", statistic="all sets of one run, rating with its overheads", done=1e9, unit="FLOP/s"
)
_FIGURES: Final = {
    "Benchmark Time Summary::Total": ("hpcg.time", "HPCG, time of all sets", "s"),
    "DDOT Timing Variations::Avg DDOT MPI_Allreduce time": ("hpcg.allreduce", "HPCG, in MPI_Allreduce", "s"),
    "Linear System Information::Number of Equations": ("hpcg.rows", "HPCG, rows", ""),
}


class Hpcg(ProgramAdapter):
    """The program, with the local grid and the time in seconds as arguments."""

    name = "hpcg"
    results = ("GFLOP/s rating of",)
    file = "xhpcg"
    describes = "HPCG: arguments nx= ny= nz= (local grid, multiples of 8) and rt= (seconds, 0: one set)"
    measures = "FLOP/s of preconditioned conjugate gradients, the rating of its final summary"
    versions = "3.1"
    timer = "MPI_Wtime, summed over all sets"
    synchronisation = "none between sets"
    reduction = "rank 0's time of all sets"
    places = ("/opt/tare/programs/hpcg/bin",)
    brought_by = "HPCG is not packaged: build it for this MPI, then name the folder of xhpcg by path:"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        values = keyed(arguments, USUAL)
        given = tuple(f"--{key}={value}" for key, value in values.items())
        return called("xhpcg", self.places, program, given, "-f", "-o", RESULTS[0])

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            sizes = [whole_number(values[key], key, SMALLEST, 1024) for key in ("nx", "ny", "nz")]
            whole_number(values["rt"], "rt", 0, 86_400)
        except Wrong as error:
            return f"hpcg: {error}"
        if any(size % 8 for size in sizes):
            return f"hpcg: nx, ny and nz must be multiples of 8, not {sizes[0]}, {sizes[1]} and {sizes[2]}"
        if max(sizes) > ASPECT * min(sizes):
            return f"hpcg: no side of the local grid may be longer than {ASPECT} times another"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (QUANTITY.info(),)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        values = keyed(arguments, USUAL)
        rows = int(values["nx"]) * int(values["ny"]) * int(values["nz"])
        return 1.5 * int(values["rt"]) + rows / 30_000

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        versions = [found[1] for line in lines if (found := VERSION.match(line))]
        if not versions:
            raise OutputError("HPCG: the line 'version=' is missing: no result file was written")
        known_version(versions[0], ("3.1",), what="HPCG")
        check_single(len(versions), "the result of HPCG")
        pairs = [re.sub(r"\s*::\s*", "::", line).partition("=") for line in lines]
        values = {key.strip(): value.strip() for key, sign, value in pairs if sign}
        wrong = [f"HPCG: {key}={value}" for key, value in values.items() if key.startswith(SUMMARY) and key != RATING]
        wrong += [
            f"HPCG: the result of the {label} is {values[key]}"
            for key, label in TESTS.items()
            if values.get(key, "PASSED") != "PASSED"
        ]
        if wrong:
            return Reading(metrics=(), wrong=tuple(wrong))
        for key in (*TESTS, RATING):
            if key not in values:
                raise OutputError(f"HPCG: the output is cut off, its line '{key}=' is missing")
            check_single(sum(name.strip() == key for name, *_ in pairs), f"HPCG: the line '{key}='")
        for key, asked in keyed(arguments, USUAL).items():
            if (size := values.get(f"{GRID}::{key}", asked)) != asked:
                raise OutputError(f"the output is of HPCG with {key}={size}, not {asked}")
        metric = QUANTITY.ran(number(values[RATING], "HPCG's rating") * 1e9)
        figures = tuple(
            Figure(key=name, label=label, value=number(values[key], key), unit=unit)
            for key, (name, label, unit) in _FIGURES.items()
            if key in values
        )
        return Reading(metrics=(metric,), figures=figures)
