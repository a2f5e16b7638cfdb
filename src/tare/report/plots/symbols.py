"""The outlines of symbols, as relative SVG paths around their centre."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

Points = list[tuple[float, float]]


def _regular(corners: int, turn: float = -90.0, inner: float = 1.0) -> Points:
    """Return the corners of a regular polygon, or of a star whose inner corners are nearer to the centre."""
    count = corners * (2 if inner < 1 else 1)
    return [
        (radius * math.cos(angle), radius * math.sin(angle))
        for number in range(count)
        for angle in [math.radians(turn + 360.0 * number / count)]
        for radius in [inner if inner < 1 and number % 2 else 1.0]
    ]


_CROSS: Final = ((-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35), (0.35, 1), (-0.35, 1),
                 (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35))  # fmt: skip
_OUTLINES: Final[Mapping[str, Callable[[], Points]]] = {
    "square": lambda: [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    "diamond": lambda: _regular(4),
    "triangle-up": lambda: _regular(3),
    "triangle-down": lambda: _regular(3, 90.0),
    "cross": lambda: list(_CROSS),
    "x": lambda: [((x - y) * 0.75, (x + y) * 0.75) for x, y in _CROSS],
    "star": lambda: _regular(5, inner=0.45),
    "pentagon": lambda: _regular(5),
    "hexagram": lambda: _regular(6, inner=0.58),
    "bowtie": lambda: [(-1, -0.8), (1, 0.8), (1, -0.8), (-1, 0.8)],
}


@cache
def outline(symbol: str, size: float) -> str:
    """Return the path of a symbol of this width, relative to its centre; a circle if the symbol is not known."""
    radius = size / 2
    if symbol not in _OUTLINES:
        r = f"{radius:.3g}"
        return f"m-{r} 0a{r} {r} 0 1 0 {2 * radius:.3g} 0a{r} {r} 0 1 0-{2 * radius:.3g} 0z"
    corners = [(x * radius * 1.1, y * radius * 1.1) for x, y in _OUTLINES[symbol]()]
    (x, y), parts = corners[0], []
    for next_x, next_y in corners[1:]:
        parts.append(f"l{next_x - x:.2g} {next_y - y:.2g}")
        x, y = next_x, next_y
    return f"m{corners[0][0]:.2g} {corners[0][1]:.2g}{''.join(parts)}z"
