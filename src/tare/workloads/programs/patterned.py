"""Programs whose results are in single lines: one row of patterns for each, in place of a class."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tare.model import Figure, Metric, MetricInfo, MetricKind, Placement
from tare.system.packages import install
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single, known_version, number
from tare.workloads.programs.options import called
from tare.workloads.programs.quantities import Quantity

NOT_A_NUMBER: Final = r"^\s*(?:- \[)?(?:[-+\d.e]+,?\s+)+[-+]?(?:nan|NaN)\b"
"""A row of a simulation's table in which a quantity is no number any more."""
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFigure:
    """A figure that a program prints: the group `value` of a line, in `factor` seconds or units a second.

    A line that matches without this group is broken. `added` says that a launch may print several, which are added.
    """

    quantity: Quantity
    line: str
    factor: float = 1.0
    added: bool = False

    def metric(self, lines: Sequence[str], program: str) -> Metric:
        """Return the metric; raise `OutputError` if its line is missing, or there more often than it may be."""
        label = self.quantity.label
        found = [match["value"] or line for line in lines if (match := re.match(self.line, line))]
        if not found:
            raise OutputError(f"{program}: the line with {label} is missing: the output is cut off or of another mode")
        if not self.added:
            check_single(len(found), f"{program}: the line with {label}")
        values = [number(each, label) for each in found]
        if min(values) < 0:
            raise OutputError(f"{program}: {label} is {min(values):g}, which is not possible")
        value = sum(values) * self.factor
        return self.quantity.ran(value) if self.quantity.kind is MetricKind.RATE else self.quantity.took(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterned(ProgramAdapter):
    """A program by its patterns.

    `begin` is its first line with the group `version`, `needed` are lines of every whole and right result, by their
    names in messages, and `shown` are figures by key: pattern, label and unit. `words` come before the arguments,
    `options` are those of `tare-run`. If the program runs in a folder of its own, `own_files` lists options whose file
    must be given by an absolute path.
    """

    name: str
    file: str
    describes: str
    measures: str
    begin: str
    known: tuple[str, ...]
    versions: str
    printed: tuple[PrintedFigure, ...]
    needed: Mapping[str, str]
    failure: re.Pattern[str]
    brought_by: str
    timer: str = "MPI_Wtime of rank 0"
    synchronisation: str = "none between time steps"
    reduction: str = "rank 0's time of all steps"
    shown: Mapping[str, tuple[str, str, str]]
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    own_files: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    usual_s: float = 10.0

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return called(self.file, self.places, program, (*self.words, *arguments), *self.options)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        for option, value in pairwise((*arguments, "")):
            if option in self.own_files and not value.startswith("/"):
                return f"{self.name}: {option} {value} must be an absolute path, because it runs in a folder of its own"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return tuple(each.quantity.info() for each in self.printed)

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return self.usual_s

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        begun = [found for line in lines if (found := re.match(self.begin, line))]
        if not begun:
            raise OutputError(f"{self.name}: its first line, which has its name and version, is missing")
        known_version(begun[0]["version"], self.known, what=self.name)
        check_single(len(begun), f"the output of {self.name}")
        for called_by, pattern in self.needed.items():
            if not any(re.match(pattern, line) for line in lines):
                raise OutputError(f"{self.name}: the line {called_by!r} is missing")
        metrics = tuple(each.metric(lines, self.name) for each in self.printed)
        return Reading(metrics=metrics, figures=tuple(self._shown(lines)))

    def _shown(self, lines: Sequence[str]) -> Iterator[Figure]:
        for key, (pattern, label, unit) in self.shown.items():
            found = [match[1] for line in lines if (match := re.match(pattern, line))]
            if found:
                yield Figure(key=key, label=label, value=number(found[-1], label), unit=unit)


def _stream(function: str) -> PrintedFigure:
    label = f"STREAM {function.lower()}"
    quantity = Quantity(key=f"stream:{function.lower()}", label=label, statistic="best of all passes", done=1e9)
    return PrintedFigure(quantity=quantity, line=rf"\s*{function}:\s+(?P<value>\S.*?)(?:\s+\S+){{3}}$", factor=1e6)


PATTERNED: Final[tuple[Patterned, ...]] = (
    Patterned(
        name="stream",
        file="stream_mpi",
        describes="STREAM, the version with MPI (stream_mpi); the size of its arrays is compiled in",
        measures="B/s of copy, scale, add and triad, all ranks together",
        begin=r"(?i)\s*STREAM version \$Revision:\s*(?P<version>\d[\d.]*)",
        known=("1", "5"),
        versions="5.x, and 1.x of the version with MPI",
        printed=tuple(map(_stream, ("Copy", "Scale", "Add", "Triad"))),
        needed={
            "Function Best Rate MB/s": r"Function\s+(?:Best )?Rate \(?MB/s\)?\s",
            "Solution Validates": r"\s*Solution Validates",
        },
        shown={},
        failure=re.compile(r"^\s*Failed Validation|Validation failed", re.IGNORECASE),
        brought_by="STREAM is not packaged: build stream_mpi for this MPI, then name its folder by path:",
        synchronisation="a barrier before each pass",
        reduction="best pass, the slowest rank's time",
    ),
    Patterned(
        name="lammps",
        file="lmp",
        describes="LAMMPS: arguments are its own, such as [-in, /data/in.lj]; files are found from the current folder",
        measures="time of the time steps of all runs of the input script (Loop time)",
        begin=r"LAMMPS \(.*?(?P<version>20\d\d)\b.*\)",
        known=tuple(str(year) for year in range(2015, 2027)),
        versions="2015 to 2026",
        printed=(
            PrintedFigure(
                quantity=Quantity(key="lammps", label="LAMMPS, loop time", statistic="all loops, average over ranks"),
                line=r".*?Loop time of (?:(?P<value>\S+) on \d+ proc|)",
                added=True,
            ),
        ),
        needed={"Loop time of": r".*?Loop time of ", "Total wall time:": r"Total wall time: \d+:\d\d:\d\d"},
        shown={
            "lammps.steps": (r"Performance:.*\s(\S+) timesteps/s", "LAMMPS, time steps a second", "/s"),
            "lammps.cpu": (r"(\S+)% CPU use with ", "LAMMPS, use of the cores", "%"),
        },
        failure=re.compile(rf"^ERROR\b|^Loop time of .* with 0 atoms|{NOT_A_NUMBER}"),
        brought_by=install("lammps"),
        synchronisation="a barrier before each loop",
        reduction="average over ranks of the time of all loops",
        words=("-log", "none"),
    ),
    Patterned(
        name="gromacs",
        file="gmx_mpi",
        describes="GROMACS: arguments are those of gmx mdrun, such as [-s, /data/bench.tpr, -nsteps, '10000']",
        measures="simulated time a day (ns/day)",
        begin=r"\s*:-\) GROMACS - gmx\S* mdrun, (?:VERSION )?(?P<version>\d[\d.]*)",
        known=("5", *(str(year) for year in range(2016, 2027))),
        versions="5.x, 2016 to 2026",
        printed=(
            PrintedFigure(
                quantity=Quantity(
                    key="gromacs", label="GROMACS", statistic="one run, rank 0's time", done=DAY_S, unit="ns/day"
                ),
                line=r"Performance:\s+(?P<value>\S.*?)\s+\S+$",
            ),
        ),
        needed={"(ns/day)    (hour/ns)": r"\s*\(ns/day\)\s+\(hour/ns\)"},
        shown={"gromacs.time": (r"\s*Time:\s+\S+\s+(\S+)\s+\S+\s*$", "GROMACS, time of all steps", "s")},
        failure=re.compile(
            r"^(?:[A-Z][\w/ -]* error|Error in user input|Inconsistency in user input):\s*$"
            rf"|Received the .*signal|Run time exceeded|{NOT_A_NUMBER}"
        ),
        brought_by=install("gromacs"),
        timer="rank 0's clock, around all time steps",
        words=("mdrun",),
        options=("-f", "-o", "*.log"),
        own_files=("-s", "-cpi", "-rerun", "-table"),
    ),
)
