"""What tare asks of a program of others: how it is called, what it prints, which ranks it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tare.model import Figure, Metric, MetricInfo, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a program said: figures to compare, figures to show, and what it found wrong with its own results."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()
    wrong: tuple[str, ...] = ()


class ProgramAdapter(Protocol):
    """What every known program offers; all of it is pure.

    `arguments` are those of the study. Those of the program itself are passed on as they are; where it reads a file
    of its own instead, they are `key=value` and the program's description says which. `measures`, `timer`,
    `synchronisation` and `reduction` say how its figures come about, `versions` which of them are understood.
    """

    @property
    def name(self) -> str: ...
    @property
    def describes(self) -> str: ...
    @property
    def measures(self) -> str: ...
    @property
    def timer(self) -> str: ...
    @property
    def synchronisation(self) -> str: ...
    @property
    def reduction(self) -> str: ...
    @property
    def versions(self) -> str: ...

    @property
    def ranks(self) -> str:
        """Return its rule on ranks, in words; `refuse` holds a placement against it."""

    @property
    def places(self) -> tuple[str, ...]:
        """Return folders to look in beside PATH; `*` stands for one folder's name."""

    @property
    def brought_by(self) -> str:
        """Return what installs it."""

    @property
    def files(self) -> tuple[str, ...]:
        """Return patterns of result files in the working folder that are read in place of standard output."""

    def executable(self, arguments: tuple[str, ...]) -> str:
        """Return the name of the file that is run."""

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        """Return what each rank runs. `program` is the program's path, or a folder above it, "" for the one on PATH.

        A first word that begins with `tare-` is one of our own programs, wherever they are in the rank's file system.
        """

    def environment(self, arguments: tuple[str, ...]) -> Mapping[str, str]:
        """Return the variables that each rank needs. LD_PRELOAD lists libraries of tare by file name alone."""

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        """Return why these arguments, or so many ranks, cannot be run, with what can, or None.

        Everything else here is asked only when it returned None.
        """

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a completed launch will have, as far as the arguments tell."""

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        """Return roughly how long a launch takes."""

    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        """Return what the program's output says; raise `OutputError` naming the line that is missing or not right."""
