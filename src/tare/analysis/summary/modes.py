"""Find columns whose launches have several modes, over all environments together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tare.analysis import stats
from tare.analysis.stats import Block
from tare.analysis.summary.rows import Row
from tare.analysis.summary.series import LaunchFigure
from tare.analysis.summary.state import STATES
from tare.model import Modes

SEVERAL: Final = 0.01
"""Adjusted p of the dip test below which a column has several modes."""
SEPARATES: Final = 0.8
"""Part of the pairs of launches of both modes that a covariate must order, to be named as what separates them."""


class _Residual(NamedTuple):
    """One launch: its block, its log cost around its cell's, and its readings."""

    block: Block
    value: float
    reading: LaunchFigure


def modes_of(table: Sequence[Row]) -> tuple[Modes, ...]:
    """Return the columns with several modes: their centres as multiples of the cell's typical launch, and shares.

    The log costs of each cell, adjusted for the machine's state, are centred by their mean, and then those of each
    block (a difference between rounds is not a mode). They are pooled over cells, because the ten launches of one cell
    are too few to show modes, and the ninety of nine cells are enough. Columns are tested together (Holm).
    """
    columns: dict[tuple[str, str], list[_Residual]] = {}
    for row in table:
        logs = [_Residual(block, math.log(cost_s), row.series.counted[block]) for block, cost_s in row.costs_s.items()]
        if len(logs) > 1:
            columns.setdefault(row.column, []).extend(_centred(logs))
    residuals_of = {column: _centred_by_block(values) for column, values in columns.items()}
    tested = [
        (column, residuals, p_value)
        for column, residuals in residuals_of.items()
        if (p_value := stats.dip_p_value([one.value for one in residuals])) is not None
    ]
    adjusted = stats.holm([p_value for _, _, p_value in tested])
    result = []
    for ((group, metric), residuals, _), p_value in zip(tested, adjusted, strict=True):
        if p_value < SEVERAL:
            centres, shares = stats.split_modes([one.value for one in residuals])
            result.append(
                Modes(
                    group=group,
                    metric=metric,
                    p_value=p_value,
                    n=len(residuals),
                    centres=tuple(math.exp(centre) for centre in centres),
                    shares=shares,
                    separated_by=_separating(residuals, shares[0]),
                )
            )
    return tuple(result)


def _separating(residuals: Sequence[_Residual], share: float) -> str:
    """Return the covariate that separates the launches of the lower mode best from the others; "" if none does.

    Candidates are the machine's states, and all that was recorded as noise. One separates if a launch of one mode has
    a larger value than one of the other in more than SEPARATES of all pairs, significantly (Mann & Whitney, adjusted).
    """
    order = sorted(range(len(residuals)), key=lambda index: residuals[index].value)
    low = np.zeros(len(residuals), dtype=np.bool_)
    low[order[: round(share * len(residuals))]] = True
    readings = [one.reading for one in residuals]
    names = dict.fromkeys(name for reading in readings for name in reading.trial.noise)
    candidates = {
        **{state.name: [state.read(reading) for reading in readings] for state in STATES},
        **{name.replace("_", " "): [reading.trial.noise.get(name) for reading in readings] for name in names},
    }
    found = {
        name: stats.separation([math.nan if value is None else value for value in values], low)
        for name, values in candidates.items()
    }
    best = max(found, key=lambda name: found[name].part, default="")
    if not best or found[best].part < SEPARATES or found[best].p_value * len(found) >= SEVERAL:
        return ""
    return best


def _centred(logs: Sequence[_Residual]) -> list[_Residual]:
    centre = float(np.mean([one.value for one in logs]))
    return [_Residual(block, value - centre, reading) for block, value, reading in logs]


def _centred_by_block(values: Sequence[_Residual]) -> list[_Residual]:
    blocks: dict[Block, list[_Residual]] = {}
    for one in values:
        blocks.setdefault(one.block, []).append(one)
    return [one for of_block in blocks.values() for one in _centred(of_block)]
