"""What a third-party program is to tare: how it is called, what it prints, which ranks it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tare.model import Figure, Metric, MetricInfo, Placement
from tare.workloads.programs.options import called


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a program said: figures to compare, figures to show, and what it found wrong with its own results."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()
    wrong: tuple[str, ...] = ()


class ProgramAdapter(ABC):
    """A third-party program: a member sets the attributes without a default, and says how its output is read.

    All of it is pure. `arguments` are those of the study; the program gets them as they are. Where it reads a file of
    its own instead, they are `key=value` and `describes` says which keys there are. `measures`, `timer`,
    `synchronisation` and `reduction` say how its figures come about. `brought_by` says what installs it.
    """

    name: str
    measures: str
    timer: str
    brought_by: str
    versions: str = "any"
    """The versions whose output is understood."""
    places: tuple[str, ...] = ()
    """Folders to look in after PATH; `*` stands for one folder's name."""
    files: tuple[str, ...] = ()
    """Patterns of result files in the working folder that are read in place of standard output."""

    @property
    @abstractmethod
    def describes(self) -> str:
        """Return what it is in one line."""

    @property
    @abstractmethod
    def synchronisation(self) -> str:
        """Return how its iterations begin."""

    @property
    @abstractmethod
    def reduction(self) -> str:
        """Return how one figure is made of those of all iterations and ranks."""

    @property
    def ranks(self) -> str:
        """Return its rule on ranks, in words; `refuse` checks a placement against it."""
        return "any"

    def executable(self, arguments: tuple[str, ...]) -> str:
        """Return the name of the file that is run."""
        return self.name

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        """Return what each rank runs. `program` is the program's path, or a folder above it, "" for the one on PATH.

        A first word that begins with `tare-` is one of our own programs, wherever they are in the rank's file system.
        """
        return called(self.executable(arguments), self.places, program, arguments)

    def environment(self, arguments: tuple[str, ...]) -> Mapping[str, str]:
        """Return the variables that each rank needs. LD_PRELOAD lists libraries of tare by file name alone."""
        return {}

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        """Return why these arguments, or so many ranks, cannot be run, with what can, or None.

        Everything else here is asked only when it returned None.
        """
        return None

    @abstractmethod
    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a completed launch will have, as far as the arguments tell."""

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        """Return roughly how long a launch takes."""
        return 1.0

    @abstractmethod
    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        """Return what the program's output says; raise `OutputError` naming the line that is missing or wrong."""
