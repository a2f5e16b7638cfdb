"""Find columns whose launches have several modes, over all environments together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tare import stats
from tare.model import Modes
from tare.summary.rows import Row

SEVERAL: Final = 0.01
"""p of the dip test below which a column has several modes."""


def modes_of(table: Sequence[Row]) -> tuple[Modes, ...]:
    """Return the columns with several modes: their centres as multiples of the cell's typical launch, and shares.

    Every cell's log costs, adjusted for the machine's state, are centred by their median and pooled: ten launches of
    one cell tell nothing of modes, ninety of nine cells do.
    """
    columns: dict[tuple[str, str], list[float]] = {}
    for row in table:
        logs = [math.log(row.adjustment.cost_s(reading)) for reading in row.series.counted.values()]
        if len(logs) > 1:
            centre = float(np.median(logs))
            columns.setdefault(row.column, []).extend(value - centre for value in logs)
    found = []
    for (group, metric), residuals in columns.items():
        p_value = stats.dip_p_value(residuals)
        if p_value is None or p_value >= SEVERAL:
            continue
        centres, shares = stats.split_modes(residuals)
        found.append(
            Modes(
                group=group,
                metric=metric,
                p_value=p_value,
                n=len(residuals),
                centres=tuple(math.exp(centre) for centre in centres),
                shares=shares,
            )
        )
    return tuple(found)
