"""Name the damaged lines of a results folder, which a report leaves out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import ResultsError
from tare.model.text import printable

RESTORE: Final = "restore the file from a copy, or start over with `tare run --fresh`"
MOST_DAMAGED: Final = 1000
"""Most damaged lines that are left out; with more of them the file is something else."""

LONGEST_REASON: Final = 300
NAMED: Final = 3
"""Damaged lines of which a warning has the number and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged line, counted from 1, and why it is not used; the rest of the file is."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def damage_of(file: Path, number: int, error: ResultsError) -> Damage:
    """Return a damaged line; the message of `error` begins with the file and the number."""
    reason = printable(error.message.removeprefix(f"{file}:{number}: "))
    return Damage(file=file.name, line=number, reason=reason[:LONGEST_REASON])


def damage_text(damaged: Sequence[Damage]) -> str:
    """Return a warning that names the first damaged lines."""
    lines = "1 damaged line was" if len(damaged) == 1 else f"{len(damaged):,} damaged lines were"
    more = f"; and {len(damaged) - NAMED:,} more" if len(damaged) > NAMED else ""
    named = "; ".join(map(str, damaged[:NAMED]))
    return f"{lines} left out, so launches are missing from these results: {named}{more}."


def facts_text(names: Sequence[str]) -> str:
    """Return a warning that names the facts that were left out."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"Facts that no launch can have were left out: {', '.join(names[:NAMED])}{more}."


def too_many(path: Path, first: Damage | None = None) -> ResultsError:
    """Return the error for a folder in which hardly a line can be used."""
    such = f", as {first}" if first else ""
    return ResultsError(f"{path} has more than {MOST_DAMAGED:,} damaged lines{such}", remedy=RESTORE)
