"""The modes of a launch's iterations, from its samples. Pure.

Launches in turns (docs/adr/0017-turns.md) have a part of their iterations in each turn, seconds apart. What a number
here says is that of the typical part (the median over parts): a machine that was slower in some turns gives no modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.analysis import stats
from tare.model import Trial

Floats = NDArray[np.float64]

COLUMNS: Final = ("max_s", "mean_s")
"""The columns of samples that a metric is of: the maximum over ranks, or the mean where operations are back to back."""


NUMBERS: Final[Mapping[str, Callable[[Floats], float | None]]] = {
    "dip:": stats.dip_p_value,
    "share:": lambda logs: stats.split_modes(logs)[1][0],
}
"""p of Hartigan's dip test of unimodality, and the share of iterations in the faster of two modes."""
CENTRES: Final[Mapping[str, Callable[[Floats], float | None]]] = {
    "lower:": lambda logs: stats.split_modes(logs)[0][0],
    "upper:": lambda logs: stats.split_modes(logs)[0][1],
}
"""The logarithm of the centre (median) of the faster and of the slower mode."""

SAID: Final = {
    "dip": "p of one mode in the iterations",
    "share": "share of iterations in the faster mode",
    "lower": "faster mode",
    "upper": "slower mode",
}


def number_of(trial: Trial, samples: Mapping[str, Floats], key: str, kind: str) -> float | None:
    """Return a number of `NUMBERS` or `CENTRES` of a metric in a launch; None without enough samples above zero."""
    columns = (samples.get(f"{key}/{column}") for column in COLUMNS)
    values = next((each for each in columns if each is not None), np.empty(0))
    parts = stats.shares_of_turns(values, max(1, round(trial.counters.get("turns", 1))))
    if min(part.size for part in parts) < stats.LEAST_IN_A_TURN or values.min() <= 0:
        return None
    read = {**NUMBERS, **CENTRES}[kind]
    found = [read(np.log(part)) for part in parts]
    known = [each for each in found if each is not None]
    return float(np.median(known)) if known else None
