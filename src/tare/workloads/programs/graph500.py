"""Graph500 3.0, reference program of breadth-first search: its lines of `name: value`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single, number
from tare.workloads.programs.options import Wrong, called, keyed, whole_number
from tare.workloads.programs.quantities import Quantity

USUAL: Final = {"scale": "16", "edgefactor": "16"}
TEPS: Final = "bfs harmonic_mean_TEPS"
SPREAD: Final = "bfs harmonic_stddev_TEPS"
VALIDATED: Final = "bfs stddev_validate"
ROUNDING: Final = 1e-3
QUANTITY: Final = Quantity(
    key="bfs", label="Graph500 BFS", statistic="harmonic mean of TEPS over all searches", done=1e6, unit="TEPS"
)
_FIGURES: Final = {
    "construction_time": ("g500.construction", "Graph500, kernel 1 (construction)", "s"),
    "bfs median_time": ("g500.median", "Graph500, median of a search", "s"),
    SPREAD: ("g500.spread", "Graph500, harmonic standard deviation", "TEPS"),
    "median_nedge": ("g500.edges", "Graph500, edges of a search (median)", ""),
}


class Graph500(ProgramAdapter):
    """The program, with scale and edge factor as arguments."""

    name = "graph500"
    results = ("harmonic_mean_TEPS",)
    file = "graph500_reference_bfs"
    describes = "Graph500's BFS: arguments scale= and edgefactor="
    measures = "traversed edges a second of 64 searches, each validated"
    versions = "3.0"
    ranks = "a power of two"
    timer = "MPI_Wtime around each search"
    synchronisation = "a barrier before each search"
    reduction = "harmonic mean over searches of edges by the slowest rank's time"
    places = ("/opt/tare/programs/graph500/bin",)
    failure = re.compile(r"validat\w*.*fail|fail\w*.*validat", re.IGNORECASE)
    brought_by = (
        "Graph500 is not packaged: build it for this MPI, then name the folder of graph500_reference_bfs by path:"
    )

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return called(self.executable(arguments), self.places, program, tuple(keyed(arguments, USUAL).values()))

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            whole_number(values["scale"], "scale", 4, 40)
            whole_number(values["edgefactor"], "edgefactor", 1, 1024)
        except Wrong as error:
            return f"graph500: {error}"
        ranks = placement.ranks
        if ranks & (ranks - 1):
            return f"graph500 runs on a power of two of ranks, but the placement has {ranks}"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (QUANTITY.info(),)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        values = keyed(arguments, USUAL)
        edges = int(values["edgefactor"]) * 2.0 ** int(values["scale"])
        return 2.0 + 64 * 4 * edges / (2e7 * placement.ranks)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        values = _values(lines)
        if TEPS not in values and TEPS.removeprefix("bfs ") in values:
            raise OutputError("the output is of Graph500 2.x, which is not supported; supported: 3.0")
        for label, key in (("SCALE", "scale"), ("edgefactor", "edgefactor")):
            if int(number(_value(values, label), label)) != int(keyed(arguments, USUAL)[key]):
                raise OutputError(
                    f"the output is of Graph500 {label} {values[label]}, not {keyed(arguments, USUAL)[key]}"
                )
        check_single(sum(line.startswith("SCALE:") for line in lines), "the output of Graph500")
        # The line after it is printed only after the complete line with the result.
        teps, _ = number(_value(values, TEPS), TEPS), _value(values, SPREAD)
        low, high = (number(values.get(f"bfs {name}", values[TEPS]), name) for name in ("min_TEPS", "max_TEPS"))
        if not low * (1 - ROUNDING) <= teps <= high * (1 + ROUNDING):
            raise OutputError(f"Graph500: {TEPS} is {teps:g}, which is not between min_TEPS and max_TEPS: one is wrong")
        if VALIDATED not in values:
            raise OutputError(
                f"Graph500: the line '{VALIDATED}:' is missing: "
                "the output is cut off, or the searches were not validated (SKIP_VALIDATION)"
            )
        for name, value in values.items():
            if name.endswith("_validate") and number(value, name) < 0:
                raise OutputError(f"Graph500: the searches were not validated ({name}: {value}): unset SKIP_VALIDATION")
        figures = tuple(
            Figure(key=key, label=text, value=number(_value(values, name), name), unit=unit)
            for name, (key, text, unit) in _FIGURES.items()
        )
        return Reading(metrics=(QUANTITY.ran(teps),), figures=figures)


def _values(lines: Sequence[str]) -> dict[str, str]:
    """Return values by the words before the colon; the headline's value has a `!` before it."""
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {" ".join(name.split()): value.strip(" \t!") for name, _, value in pairs}


def _value(values: Mapping[str, str], name: str) -> str:
    if name not in values:
        raise OutputError(f"Graph500: the line '{name}:' is missing")
    return values[name]
