"""Define the adapter of a third-party program: its command, its output, and the numbers of ranks that it supports."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tare.model import Figure, Metric, MetricInfo, Placement
from tare.workloads.declaration_check import DECLARED, check_declared
from tare.workloads.output import OutputError
from tare.workloads.programs.failures import first_complaint, first_failure
from tare.workloads.programs.lines import torn_value, whole
from tare.workloads.programs.options import called


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A program's output: figures to compare, figures to show, and errors that it reports in its own results."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()
    wrong: tuple[str, ...] = ()


class ProgramAdapter(ABC):
    """A third-party program: a member sets the attributes without a default, and reads the program's output.

    All of it is pure. `arguments` are those of the study, passed on unchanged. If the program reads its options from a
    file, they are `key=value` and `describes` lists the keys. `measures`, `timer`, `synchronisation` and `reduction`
    describe how its figures are measured. `brought_by` is the command that installs it.
    """

    name: str
    measures: str
    timer: str
    brought_by: str
    versions: str = "any"
    """The versions whose output is supported."""
    file: str = ""
    """The name of the file that is run, if it is not the program's own and the same for all arguments."""
    places: tuple[str, ...] = ()
    """Folders to look in after PATH; `*` stands for one folder's name."""
    results: tuple[str, ...] = ()
    """What names its results in lines `name = number`."""
    failure: re.Pattern[str] | None = None
    """The lines with which the program itself says that it failed, or that its result is wrong."""

    def __init_subclass__(cls) -> None:
        """Refuse a member that does not declare how its figures are made: it does not load (rule 10)."""
        super().__init_subclass__()
        check_declared(cls, *DECLARED)

    @property
    @abstractmethod
    def describes(self) -> str:
        """Return a description of one line."""

    @property
    @abstractmethod
    def synchronisation(self) -> str:
        """Return how its iterations are synchronised."""

    @property
    @abstractmethod
    def reduction(self) -> str:
        """Return how one figure is computed from all iterations and ranks."""

    @property
    def ranks(self) -> str:
        """Return the allowed numbers of ranks, in words; `refuse` checks a placement against them."""
        return "any"

    def executable(self, arguments: tuple[str, ...]) -> str:
        """Return the name of the file that is run."""
        return self.file or self.name

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        """Return the command of each rank; `program` is its path or a folder above it, "" for the program on PATH.

        A first word that begins with `tare-` is one of tare's own programs, wherever they are for the rank.
        """
        return called(self.executable(arguments), self.places, program, arguments)

    def environment(self, arguments: tuple[str, ...]) -> Mapping[str, str]:
        """Return the variables that each rank needs. LD_PRELOAD lists libraries of tare by file name alone."""
        return {}

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        """Return why these arguments, or this number of ranks, cannot run, with what is allowed, or None.

        The other methods are called only if it returns None.
        """
        return None

    def thin(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return arguments with which the program takes as little time as possible; called only for valid ones."""
        return arguments

    @abstractmethod
    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a completed launch will have, as far as the arguments determine them."""

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        """Return roughly how long a launch takes."""
        return 1.0

    @abstractmethod
    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        """Parse the complete lines of an output; raise `OutputError` naming the line that is missing or wrong."""

    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        """Parse the program's output; raise `OutputError` with the reason, a failure that it printed first.

        A time, rate or share below zero means that it was not measured: it is no figure.
        """
        lines = whole(text)
        failure = first_failure(lines, self.failure)
        try:
            if torn := torn_value(lines, self.results):
                raise OutputError(f"a line end is within the number of the line {torn[:80]!r}")
            reading = self.parse(lines, arguments)
        except OutputError as error:
            printed = failure or first_complaint(lines)
            raise OutputError(f"{self.name} printed {printed!r}; {error}" if printed else str(error)) from error
        figures = tuple(figure for figure in reading.figures if figure.value >= 0 or not figure.unit)
        failed = (f"{self.name}, which printed {failure!r}",) if failure else ()
        return replace(reading, figures=figures, wrong=(*failed, *reading.wrong))
