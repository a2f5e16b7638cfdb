"""Programs of others that tare knows: how each is started, and how what it says becomes metrics. One file a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tare.model import Figure, Metric, MetricInfo, Placement

__all__ = ["PROGRAMS", "ProgramAdapter", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a program said: its metrics, figures beside them, and what of its results is wrong (empty: all verified)."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()
    wrong: tuple[str, ...] = ()


class ProgramAdapter(Protocol):
    """What tare must know of a program to run it and to read it; all of it is pure.

    `describes` and `measures` are a line each: what the program is, what its figures are. `versions` says of which
    versions the output is understood. `files` are patterns of the files that it writes its results to, in its working
    directory, in the order in which they are read; empty where results are on stdout.
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
    def files(self) -> tuple[str, ...]: ...

    def argv(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return the program, by the name that it has on PATH, and all that it is given."""

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a whole output has; their group is filled in by the caller."""

    def read(self, text: str) -> Reading:
        """Return what the text says, or raise `OutputError` that names the line which is missing or wrong.

        The text is that of stdout without our own records, or of the files one after the other.
        """

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        """Return why the program cannot run so (a number of ranks, an argument) and what is allowed, or None."""

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        """Return about how many seconds a run takes."""


PROGRAMS: Final[Mapping[str, ProgramAdapter]] = {}
"""By the name that a study uses (`program: osu_latency`)."""
