"""Where a study was started, which its results record: a command that measures more of it starts its launches there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tare.errors import RefusedError

FACT: Final = "started in"
"""The name of the fact in results; earlier releases did not record it."""
PROGRAM: Final = "program "
"""What the names of the digests of programs begin with, in the identity of results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedIn:
    """The working folder of a study's launches, and the `shown` folders that pods see besides those of programs.

    `writable` is the folder in which programs in images work and may write, "" if there is none.
    """

    folder: str
    shown: tuple[str, ...] = ()
    writable: str = ""

    @classmethod
    def recorded(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return what results record, None if they do not."""
        found = facts.get(FACT)
        if not isinstance(found, Mapping) or not isinstance(found.get("folder"), str):
            return None
        shown = found.get("shown")
        folders = tuple(map(str, shown)) if isinstance(shown, list) else ()
        return cls(folder=found["folder"], shown=folders, writable=str(found.get("writable") or ""))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work in the folder; raise `RefusedError` if it cannot be entered."""
        back = Path.cwd()
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise RefusedError(
                f"the study was started in {self.folder}, which cannot be entered: {error.strerror}",
                remedy="make the folder available, with what the program reads in it, or run the study again",
            ) from error
        try:
            yield
        finally:
            os.chdir(back)


def restarted_in(folder: Path) -> dict[str, str]:
    """Return to a folder before the command starts itself again: its arguments may be relative to it."""
    os.chdir(folder)
    return {}


def changed_programs(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the user's programs whose files differ from those with which results were measured, by their facts."""
    before = recorded.get("identity")
    known = before if isinstance(before, Mapping) else {}
    digests = {name: digest for name, digest in now["identity"].items() if name.startswith(PROGRAM)}
    return tuple(name.removeprefix(PROGRAM) for name, digest in digests.items() if known.get(name, digest) != digest)
