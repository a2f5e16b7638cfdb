"""Find columns whose launches have several modes, over all environments together."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from tare import stats
from tare.model import Modes
from tare.stats import Block
from tare.summary.rows import Row

SEVERAL: Final = 0.01
"""p of the dip test below which a column has several modes."""


def modes_of(table: Sequence[Row]) -> tuple[Modes, ...]:
    """Return the columns with several modes: their centres as multiples of the cell's typical launch, and shares.

    The log costs of each cell, adjusted for the machine's state, are centred by their mean, and then those of each
    block (a difference between rounds is not a mode). They are pooled over cells, because the ten launches of one cell
    are too few to show modes, and the ninety of nine cells are enough.
    """
    columns: dict[tuple[str, str], list[tuple[Block, float]]] = {}
    for row in table:
        logs = {block: math.log(cost_s) for block, cost_s in row.costs_s.items()}
        if len(logs) > 1:
            columns.setdefault(row.column, []).extend(_centred(logs.items()))
    residuals_of = {column: _centred_by_block(values) for column, values in columns.items()}
    result = []
    for (group, metric), residuals in residuals_of.items():
        p_value = stats.dip_p_value(residuals)
        if p_value is None or p_value >= SEVERAL:
            continue
        centres, shares = stats.split_modes(residuals)
        result.append(
            Modes(
                group=group,
                metric=metric,
                p_value=p_value,
                n=len(residuals),
                centres=tuple(math.exp(centre) for centre in centres),
                shares=shares,
            )
        )
    return tuple(result)


def _centred(logs: Collection[tuple[Block, float]]) -> list[tuple[Block, float]]:
    centre = float(np.mean([value for _, value in logs]))
    return [(block, value - centre) for block, value in logs]


def _centred_by_block(values: Sequence[tuple[Block, float]]) -> list[float]:
    blocks: dict[Block, list[tuple[Block, float]]] = {}
    for block, value in values:
        blocks.setdefault(block, []).append((block, value))
    return [value for of_block in blocks.values() for _, value in _centred(of_block)]
