"""Define what a format is: a text, or several files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tare.report.frames import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """A format whose document is one text. `suffix` is the usual end of its file's name."""

    suffix: str
    meaning: str
    text: Callable[[Source], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFormat:
    """A format of several files. `write` gets the folder, or the .zip file if `zips`, that the user named.

    It raises `OSError` if that cannot be written.
    """

    meaning: str
    zips: bool
    write: Callable[[Source, Path], None]


Format = TextFormat | FilesFormat
