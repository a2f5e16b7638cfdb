"""Solvers of sparse systems: HPCG-like and miniFE-like, operations as the official programs count them."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from tare.workloads.declared.declaration import PACE_PARAMETER, Choice, MiniApp, Parameter

AXES: Final = ("nx", "ny", "nz")

# --- HPCG-like --------------------------------------------------------------------------------------------------------

HPCG_ITERATIONS: Final = 50
HPCG_LEVELS: Final = 4
HPCG_STEP: Final = 8
HPCG_MOST_ASPECT: Final = 8
HPCG_RATE: Final = 2.0
"""A modest rate of one rank, in GFLOP/s."""


def _hpcg_grid(ranks: int) -> tuple[int, int, int]:
    """Return the most cubic grid of ranks, its longest side first."""
    grids = (
        (ranks // z // y, y, z)
        for z in range(1, math.isqrt(ranks) + 1)
        if ranks % z == 0
        for y in range(z, math.isqrt(ranks // z) + 1)
        if ranks // z % y == 0
    )
    return min(grids, key=lambda grid: grid[0] * grid[1] + grid[0] * grid[2] + grid[1] * grid[2])


def _hpcg_refuse(choice: Choice, ranks: int) -> str | None:
    longest, _, shortest = grid = _hpcg_grid(ranks)
    aspect = f"allowed: the longest side at most {HPCG_MOST_ASPECT} times the shortest"
    if longest > HPCG_MOST_ASPECT * shortest:
        return f"hpcg cannot run on {ranks} ranks, a grid of {'x'.join(map(str, grid))}; {aspect}"
    sizes = [choice.values[axis] for axis in AXES]
    for size in sizes:
        if size % HPCG_STEP:
            return f"hpcg cannot halve {size} points three times; allowed for nx, ny, nz: multiples of {HPCG_STEP}"
    if max(sizes) > HPCG_MOST_ASPECT * min(sizes):
        return f"hpcg does not take {'x'.join(map(str, sizes))} points; {aspect}"
    return None


def _hpcg_operations(choice: Choice, ranks: int) -> float:
    """Return the operations of one set: how many sets run depends on the time."""
    sides = [parts * choice.values[axis] for parts, axis in zip(_hpcg_grid(ranks), AXES, strict=True)]
    entries = [math.prod(3.0 * (side >> level) - 2.0 for side in sides) for level in range(HPCG_LEVELS)]
    dots = (3.0 * HPCG_ITERATIONS + 1) * 2.0 * math.prod(sides)
    products = (HPCG_ITERATIONS + 1) * 2.0 * entries[0]
    cycles = HPCG_ITERATIONS * (10.0 * sum(entries[:-1]) + 4.0 * entries[-1])
    return 1e-9 * (2 * dots + products + cycles)


def _hpcg_expected_s(choice: Choice, ranks: int) -> float:
    set_s = _hpcg_operations(choice, ranks) / (HPCG_RATE * ranks)
    return choice.values["seconds"] + 3 * set_s


HPCG: Final = MiniApp(
    name="hpcg",
    description="HPCG-like: conjugate gradients with a multigrid preconditioner (no rating)",
    rate="GFLOP/s",
    timed="sets of 50 iterations; not the set-up, the checks and a first set",
    parameters=(
        *(
            Parameter(name=f"n{axis}", meaning=f"points a rank along {axis}", usual=32, low=16, high=1024, thin=16)
            for axis in "xyz"
        ),
        Parameter(name="seconds", meaning="time for the sets; 0: one set", usual=10, low=0, high=86400, thin=0),
        PACE_PARAMETER,
    ),
    official_pace=380,
    ranks=f"any whose most cubic grid is at most {HPCG_MOST_ASPECT} times as long as wide",
    refuse=_hpcg_refuse,
    memory_bytes=lambda choice, _: (
        8 / 7 * math.prod(choice.values[axis] for axis in AXES) * (27 * 8 + 32 + 2 + 56) * 1.1
    ),
    operations=_hpcg_operations,
    divides=True,
    expected_s=_hpcg_expected_s,
)

# --- miniFE-like ------------------------------------------------------------------------------------------------------

MINIFE_ITERATIONS: Final = 200
MINIFE_MOST_NODES: Final = 1e9
MINIFE_RATE: Final = 2_000.0


@cache
def _minife_cut(lengths: tuple[int, int, int], ranks: int) -> bool:
    """Return whether recursive bisection leaves every rank an element."""
    if math.prod(lengths) < ranks:
        return False
    if ranks == 1:
        return True
    axis = max(range(3), key=lambda each: (lengths[each], each))
    low = lengths[axis] * (ranks // 2) // ranks
    parts = []
    for length in (low, lengths[axis] - low):
        part = list(lengths)
        part[axis] = length
        parts.append((part[0], part[1], part[2]))
    return _minife_cut(parts[0], ranks // 2) and _minife_cut(parts[1], ranks - ranks // 2)


def _minife_nodes(choice: Choice) -> float:
    return math.prod(choice.values[axis] + 1.0 for axis in AXES)


def _minife_refuse(choice: Choice, ranks: int) -> str | None:
    x, y, z = (choice.values[axis] for axis in AXES)
    if _minife_cut((x, y, z), ranks) and _minife_nodes(choice) / ranks < MINIFE_MOST_NODES:
        return None
    allowed = "at least one element and fewer than 1e9 nodes a rank"
    return f"minife cannot cut {x}x{y}x{z} elements for {ranks} ranks; allowed: {allowed}"


def _minife_operations(choice: Choice, _: int) -> float:
    """Return the operations of all iterations; a small problem is solved in fewer."""
    entries = math.prod(3.0 * choice.values[axis] + 1.0 for axis in AXES)
    length = math.prod(choice.values[axis] for axis in AXES)
    products = 2.0 * entries * (MINIFE_ITERATIONS + 1)
    return 1e-6 * (products + 4.0 * length * MINIFE_ITERATIONS + 3.0 * length * (3 * MINIFE_ITERATIONS + 2))


MINIFE: Final = MiniApp(
    name="minife",
    description="miniFE-like: finite elements for heat conduction, conjugate gradients",
    rate="Mflop/s",
    timed="200 iterations of conjugate gradients; not the assembly, whose time is a figure",
    parameters=(
        *(
            Parameter(name=f"n{axis}", meaning=f"elements along {axis}", usual=64, low=2, high=4096, thin=16)
            for axis in "xyz"
        ),
        PACE_PARAMETER,
    ),
    official_pace=150,
    ranks="any, as long as each has an element",
    refuse=_minife_refuse,
    memory_bytes=lambda choice, ranks: _minife_nodes(choice) / ranks * (27 * 16 + 32 + 2 + 40) * 1.1,
    operations=_minife_operations,
    divides=True,
    expected_s=lambda choice, ranks: 1.5 * _minife_operations(choice, ranks) / (MINIFE_RATE * ranks),
)
