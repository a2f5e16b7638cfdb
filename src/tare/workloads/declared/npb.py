"""The NAS Parallel Benchmarks: classes of RNR-94-007 and NAS-02-007, operations as the official programs count them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tare.workloads.declared.declaration import (
    INT_MAX,
    PACE_PARAMETER,
    Choice,
    MiniApp,
    Parameter,
    by_rate,
    is_power_of_two,
)

POWERS: Final = "a power of two"
npb_app: Final = partial(MiniApp, rate="Mop/s", classes="SWABCD", parameters=(PACE_PARAMETER,), divides=True)
"""Make a program of the suite."""


def _powers_up_to(most: Callable[[str], int]) -> Callable[[Choice, int], str | None]:
    def refuse(choice: Choice, ranks: int) -> str | None:
        limit = most(choice.letter)
        if is_power_of_two(ranks) and ranks <= limit:
            return None
        asked = f"{choice.app.name} class {choice.letter} cannot run on {ranks} ranks"
        return f"{asked}; allowed: powers of two up to {limit}"

    return refuse


# --- EP -----------------------------------------------------------------------------------------------------------

EP_LOG2_PAIRS: Final = {"S": 24, "W": 25, "A": 28, "B": 30, "C": 32, "D": 36}
EP_LOG2_BATCH: Final = 16
EP_BLOCK: Final = 512


def _ep_refuse(choice: Choice, ranks: int) -> str | None:
    batches = 1 << (EP_LOG2_PAIRS[choice.letter] - EP_LOG2_BATCH)
    if ranks <= batches:
        return None
    return f"npb-ep class {choice.letter} has {batches} parts for {ranks} ranks; allowed: 1 to {batches} ranks"


EP: Final = npb_app(
    name="npb-ep",
    description="embarrassingly parallel: Gaussian deviates, no communication but sums at the end",
    timed="all numbers and the three sums",
    official_pace=480,
    ranks="any",
    refuse=_ep_refuse,
    memory_bytes=lambda _choice, _ranks: 6.0 * EP_BLOCK * 8,
    operations=lambda choice, _: math.ldexp(1.0, EP_LOG2_PAIRS[choice.letter] + 1) / 1e6,
    expected_s=by_rate(100.0),
)

# --- IS -----------------------------------------------------------------------------------------------------------

IS_LOG2: Final = {"S": (16, 11, 9), "W": (20, 16, 10), "A": (23, 19, 10), "B": (25, 21, 10), "C": (27, 23, 10)}
"""Keys, largest key, buckets."""
IS_RANKINGS: Final = 10


def _is_memory(choice: Choice, ranks: int) -> float:
    keys, largest, usual = IS_LOG2[choice.letter]
    buckets = choice.values["log2_buckets"] or usual
    return (3.2 * (1 << keys) / ranks + (1 << largest) + 4.0 * (1 << buckets)) * 4


IS: Final = npb_app(
    name="npb-is",
    description="integer sort: ranking of keys by buckets",
    timed="ten rankings",
    classes="SWABC",
    parameters=(
        Parameter(
            name="log2_buckets",
            meaning="log2 of the number of buckets; 0: as the class has it",
            usual=0,
            low=0,
            high=10,
        ),
        PACE_PARAMETER,
    ),
    official_pace=170,
    ranks=POWERS,
    refuse=_powers_up_to(lambda letter: 1 << (IS_LOG2[letter][0] - 7)),
    memory_bytes=_is_memory,
    operations=lambda choice, _: IS_RANKINGS * (1 << IS_LOG2[choice.letter][0]) / 1e6,
    expected_s=by_rate(200.0, untimed=1.0),
)

# --- CG -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Matrix:
    size: int
    nonzeros: int
    iterations: int


CG_MATRICES: Final[Mapping[str, _Matrix]] = {
    "S": _Matrix(1_400, 7, 15),
    "W": _Matrix(7_000, 8, 15),
    "A": _Matrix(14_000, 11, 15),
    "B": _Matrix(75_000, 13, 75),
    "C": _Matrix(150_000, 15, 75),
    "D": _Matrix(1_500_000, 21, 100),
}
CG_STEPS: Final = 25


def _cg_refuse(choice: Choice, ranks: int) -> str | None:
    if is_power_of_two(ranks) and ranks <= CG_MATRICES[choice.letter].size // 2:
        return None
    return f"npb-cg class {choice.letter} cannot run on {ranks} ranks; allowed: powers of two"


def _cg_memory(choice: Choice, ranks: int) -> float:
    matrix = CG_MATRICES[choice.letter]
    entries = matrix.size * (matrix.nonzeros + 1.0) ** 2
    return 2.0 * 12.0 * entries / ranks + 12.0 * matrix.size * (matrix.nonzeros + 1.0) + 64.0 * matrix.size


def _cg_operations(choice: Choice, _: int) -> float:
    matrix = CG_MATRICES[choice.letter]
    z = matrix.nonzeros * (matrix.nonzeros + 1.0)
    return 2e-6 * matrix.iterations * matrix.size * (3.0 + z + CG_STEPS * (5.0 + z) + 3.0)


CG: Final = npb_app(
    name="npb-cg",
    description="conjugate gradients on a sparse matrix with a random pattern",
    timed="the outer iterations, 25 steps of conjugate gradients in each",
    official_pace=180,
    ranks=POWERS,
    refuse=_cg_refuse,
    memory_bytes=_cg_memory,
    operations=_cg_operations,
    expected_s=by_rate(2_000.0, untimed=0.3),
)

# --- MG -----------------------------------------------------------------------------------------------------------

MG_LEVELS: Final = {"S": (5, 4), "W": (7, 4), "A": (8, 4), "B": (8, 20), "C": (9, 20), "D": (10, 50)}
"""log2 of the points along an edge, iterations."""


MG: Final = npb_app(
    name="npb-mg",
    description="multigrid for a Poisson equation on a periodic cube",
    timed="V-cycles with their residuals, the norm before and after",
    official_pace=160,
    ranks=POWERS,
    refuse=_powers_up_to(lambda letter: 1 << (3 * (MG_LEVELS[letter][0] - 1))),
    memory_bytes=lambda choice, ranks: 3.6 * 8 * (1 << (3 * MG_LEVELS[choice.letter][0])) / ranks,
    operations=lambda choice, _: 58e-6 * MG_LEVELS[choice.letter][1] * (1 << (3 * MG_LEVELS[choice.letter][0])),
    expected_s=by_rate(3_000.0, untimed=0.5),
)

# --- FT -----------------------------------------------------------------------------------------------------------

FT_FIELDS: Final = {
    "S": (64, 64, 64, 6),
    "W": (128, 128, 32, 6),
    "A": (256, 256, 128, 6),
    "B": (512, 256, 256, 20),
    "C": (512, 512, 512, 20),
    "D": (2048, 1024, 1024, 25),
    "E": (4096, 2048, 2048, 25),
}
"""Points along x, y and z; steps."""


def _ft_points(choice: Choice) -> int:
    return math.prod(FT_FIELDS[choice.letter][:3])


def _ft_refuse(choice: Choice, ranks: int) -> str | None:
    least, most = 1, min(FT_FIELDS[choice.letter][1:3])
    while 2 * _ft_points(choice) // least**2 > INT_MAX:  # doubles of one pair of ranks, which MPI counts in an int
        least *= 2
    if is_power_of_two(ranks) and least <= ranks <= most:
        return None
    asked = f"npb-ft class {choice.letter} cannot run on {ranks} ranks"
    return f"{asked}; allowed: powers of two from {least} to {most}"


def _ft_operations(choice: Choice, _: int) -> float:
    points, steps = _ft_points(choice), FT_FIELDS[choice.letter][3]
    log = math.log(points)
    return 1e-6 * points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * steps)


FT: Final = npb_app(
    name="npb-ft",
    description="three-dimensional Fourier transforms of a diffusing field",
    timed="roots and decay tables, initial field, forward transform, steps with their checksums",
    classes="SWABCDE",
    official_pace=270,
    ranks=POWERS,
    refuse=_ft_refuse,
    memory_bytes=lambda choice, ranks: 3.0 * 16 * _ft_points(choice) / ranks,
    operations=_ft_operations,
    expected_s=by_rate(2_000.0, untimed=1.0),
)

NPB: Final = (EP, IS, CG, MG, FT)
