"""Text that is safe for a terminal, and short labels for quantities; `tare.report` formats values for readers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

_PREFIXED: Final = ("B/s", "b/s", "op/s", "FLOP/s", "TEPS")
MOST_NAMES: Final = 12
_CONTROLS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
)
"""Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, and lone surrogates."""

_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape every character of foreign text that controls a terminal, as `\x1b`.

    With `lines`, line ends and tabs are kept.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return _CONTROLS.sub(lambda match: match[0] if match[0] in kept else _escape(match[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def without_html(text: str) -> str:
    """Return foreign text for a line of Markdown, in which no element begins."""
    return " ".join(printable(text, lines=True).split()).translate(_ENTITIES)


def bytes_label(count: int) -> str:
    """Format a size as `8 B`, `64 KiB`, `1 MiB`."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def three_digits(value: float, sign: str = "") -> str:
    """Format with three significant digits, all before the point, and no exponent; `sign` is that of `format`."""
    return f"{value:{sign},.0f}" if 999.5 <= abs(value) < math.inf else f"{value:{sign}.3g}"


def rate_scale(value: float, unit: str) -> tuple[float, str]:
    """Return the size and the name of the decimal multiple of a rate's unit for a value.

    Units that count things (`queries/s`) have no multiples.
    """
    if unit in _PREFIXED:
        for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) * (1 + 1e-9) >= size and not (prefix == "T" and unit == "B/s"):
                return size, prefix + unit
    return 1.0, unit


def counted(number: int, noun: str) -> str:
    """Format a number of things, as `1 round` and `2,000 rounds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def processes_text(counts: Mapping[str, int]) -> str:
    """Format numbers of processes by name as `3 processes (cached, sleep 2)`; of many names the first are shown."""
    shown = [f"{name} {count}" if count > 1 else name for name, count in sorted(counts.items())]
    names = ", ".join([*shown[:MOST_NAMES], *(["..."] if len(shown) > MOST_NAMES else [])])
    total = sum(counts.values())
    return f"{total} process{'es' if total != 1 else ''} ({names})"


def without_dashes(command: Sequence[str]) -> list[str]:
    """Return a command as a user gave it, without the `--` before it."""
    words = list(command)
    return words[1:] if words[:1] == ["--"] else words
