"""The pseudo-applications of the NAS Parallel Benchmarks: operations as the official programs count them.

Memory is that of the large arrays, within a quarter: what decides whether a size fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Final

from tare.workloads.declared.declaration import Choice, MiniApp, by_rate
from tare.workloads.declared.npb import npb_app

COMPONENTS: Final = 5
DOUBLE: Final = 8


@dataclass(frozen=True, slots=True)
class _Cube:
    points: int
    iterations: int


# --- BT and SP --------------------------------------------------------------------------------------------------------

ADI_LEAST_POINTS: Final = 3
LANES: Final = 8
FIELDS: Final = 3
HALO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adi:
    """One of the two: its classes, the polynomial of its operations a step, the doubles that lines keep of a point."""

    name: str
    cubes: Mapping[str, _Cube]
    operations: tuple[float, float, float, float]
    kept: int


BT_METHOD: Final = _Adi(
    name="npb-bt",
    cubes={
        "S": _Cube(12, 60),
        "W": _Cube(24, 200),
        "A": _Cube(64, 200),
        "B": _Cube(102, 200),
        "C": _Cube(162, 200),
        "D": _Cube(408, 250),
        "E": _Cube(1020, 250),
    },
    operations=(3478.8, -17655.7, 28023.7, 0.0),
    kept=30,
)
SP_METHOD: Final = _Adi(
    name="npb-sp",
    cubes={
        "S": _Cube(12, 100),
        "W": _Cube(36, 400),
        "A": _Cube(64, 400),
        "B": _Cube(102, 400),
        "C": _Cube(162, 400),
        "D": _Cube(408, 500),
        "E": _Cube(1020, 500),
    },
    operations=(881.174, -4683.91, 11484.5, -19272.4),
    kept=11,
)


def _whole_lanes(count: int) -> int:
    return -(-count // LANES) * LANES


def _adi(method: _Adi, *, description: str, rate: float, pace: int) -> MiniApp:
    def refuse(choice: Choice, ranks: int) -> str | None:
        most = method.cubes[choice.letter].points // ADI_LEAST_POINTS
        if isqrt(ranks) <= most:
            return None
        allowed = f"up to {(most + 1) ** 2 - 1}, of which the largest square number takes part"
        return f"{method.name} class {choice.letter} cannot run on {ranks} ranks; allowed: {allowed}"

    def memory_bytes(choice: Choice, ranks: int) -> float:
        parts = isqrt(ranks)
        side = -(-method.cubes[choice.letter].points // parts)
        around = side + 2 * HALO
        fields = FIELDS * COMPONENTS * (LANES + _whole_lanes(side + HALO) + 1) * around * around
        lines = 0 if parts == 1 else method.kept * side * side * _whole_lanes(side)
        halos = 0 if parts == 1 else 120 * side * side
        return DOUBLE * parts * float(fields + lines + halos)

    def operations(choice: Choice, _: int) -> float:
        cube = method.cubes[choice.letter]
        a, b, c, d = method.operations
        n = cube.points
        return 1e-6 * cube.iterations * (a * n**3 + b * n**2 + c * n + d)

    def expected_s(choice: Choice, ranks: int) -> float:
        return 1.2 * operations(choice, ranks) / (rate * isqrt(ranks) ** 2)

    return npb_app(
        name=method.name,
        description=description,
        timed="time steps: the change of the state, solved along x, y and z",
        classes="SWABCDE",
        official_pace=pace,
        ranks="any: the largest square number of them takes part",
        refuse=refuse,
        memory_bytes=memory_bytes,
        operations=operations,
        expected_s=expected_s,
    )


BT: Final = _adi(
    BT_METHOD,
    description="flow of a compressible fluid, a block-tridiagonal system along each line",
    rate=3_500.0,
    pace=360,
)
SP: Final = _adi(
    SP_METHOD,
    description="flow of a compressible fluid, five pentadiagonal systems along each line",
    rate=2_500.0,
    pace=160,
)

# --- LU ---------------------------------------------------------------------------------------------------------------

LU_CUBES: Final = {
    "S": _Cube(12, 50),
    "W": _Cube(33, 300),
    "A": _Cube(64, 250),
    "B": _Cube(102, 250),
    "C": _Cube(162, 250),
    "D": _Cube(408, 300),
    "E": _Cube(1020, 300),
}
LU_LEAST_POINTS: Final = 3


def _lu_parts(ranks: int) -> tuple[int, int]:
    smaller = next(divisor for divisor in range(isqrt(ranks), 0, -1) if ranks % divisor == 0)
    return ranks // smaller, smaller


def _lu_refuse(choice: Choice, ranks: int) -> str | None:
    points, (larger, smaller) = LU_CUBES[choice.letter].points, _lu_parts(ranks)
    if larger <= 2 * smaller and points // larger >= LU_LEAST_POINTS:
        return None
    return (
        f"npb-lu class {choice.letter} cannot run on {ranks} ranks, {larger} along x and {smaller} along y; allowed: "
        f"numbers with factors as near to the square as 2 to 1, at least {LU_LEAST_POINTS} of {points} points a rank"
    )


def _lu_memory(choice: Choice, ranks: int) -> float:
    points = LU_CUBES[choice.letter].points
    width, depth = ((points - 1) // parts + 1 for parts in _lu_parts(ranks))
    plane = (width + 4) * (depth + 4) + 12 * (width + depth + 4)  # halos, and diagonals that begin at whole vectors
    return DOUBLE * COMPONENTS * (3.0 * points + 4.6) * plane


def _lu_operations(choice: Choice, _: int) -> float:
    n, iterations = LU_CUBES[choice.letter].points, LU_CUBES[choice.letter].iterations
    return 1e-6 * iterations * (1984.77 * n**3 - 10923.3 * n**2 + 27770.9 * n - 144010.0)


LU: Final = npb_app(
    name="npb-lu",
    description="Navier-Stokes equations on a cube by symmetric successive over-relaxation",
    timed="the iterations: two sweeps, update, exchange of layers, residual; two norms at the end",
    classes="SWABCDE",
    official_pace=490,
    ranks="with factors as near to the square as 2 to 1",
    refuse=_lu_refuse,
    memory_bytes=_lu_memory,
    operations=_lu_operations,
    expected_s=by_rate(3_000.0, untimed=0.2),
)
