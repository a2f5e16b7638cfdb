"""Estimate the effect of the machine's state on launches: one coefficient over all environments together.

ln cost = cell + block + coefficient x state + residual. Cell and block effects absorb the costs of environments and
what the launches of a block share, so that the coefficient is estimated from launches of a block in different states.
Fixed effects by Frisch, Waugh and Lovell: all terms are demeaned by cell and by block, then ordinary least squares.

A coefficient that is hardly known adds more than it removes. A state therefore counts only if it is estimated and
helps: see `StateFit`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.analysis.stats.arrays import FloatArray, t_quantile
from tare.model import Estimate

LAUNCHES_PER_STATE: Final = 20
"""Degrees of freedom that each state needs: with fewer, its coefficient adds more noise than it removes."""
WIDEST: Final = math.log(2.0)
"""Largest half-width of the interval of an effect on ln cost: a factor of two in either direction."""
SWEEPS: Final = 50
TOLERANCE: Final = 1e-10

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFit:
    """The effects of `k` states on ln cost, per unit of each: coefficients of shape (k,) and their intervals.

    `helps`: blocks are predicted better with the states than without, by coefficients from the other blocks; and the
    median spread of the log ratios of the cells to the first one is not larger after the adjustment.
    """

    coefficients: FloatArray
    estimates: tuple[Estimate, ...]
    helps: bool

    def weakest(self, units: Sequence[float]) -> int | None:
        """Return the index of the state to leave out first; None if all are estimated and help.

        A state is estimated if its interval excludes no effect and its half-width, per unit of it, is at most `WIDEST`.
        `units`: the increase of each state to which its effect refers.
        """
        unsure = [
            index
            for index, (one, unit) in enumerate(zip(self.estimates, units, strict=True))
            if one.low <= 0.0 <= one.high or (one.high - one.low) * unit / 2.0 > WIDEST
        ]
        if self.helps and not unsure:
            return None
        estimates = self.estimates
        return min(unsure or range(len(estimates)), key=lambda at: abs(estimates[at].value) / _width(estimates[at]))


def fit_states(logs: FloatArray, states: FloatArray, cells: IntArray, blocks: IntArray) -> StateFit | None:
    """Estimate the coefficients of states from launches.

    `logs`: ln cost, shape (n,); `states`: shape (n, k); `cells` and `blocks`: the cell and block of each launch, shape
    (n,). None if there are too few launches for `k` states, or the states do not vary within blocks.
    """
    n, k = states.shape
    freedom = n - np.unique(cells).size - np.unique(blocks).size + 1
    if k == 0 or freedom < LAUNCHES_PER_STATE * k:
        return None
    y = demean(logs[:, None], cells, blocks)[:, 0]
    x = demean(states, cells, blocks)
    cross = x.T @ x
    if np.linalg.matrix_rank(cross) < k:
        return None
    inverse = np.linalg.inv(cross)
    coefficients: FloatArray = inverse @ (x.T @ y)
    residuals = y - x @ coefficients
    errors = np.sqrt(np.diag(inverse) * float(residuals @ residuals) / (freedom - k))
    half = t_quantile(freedom - k + 1, 0.95) * errors
    estimates = tuple(
        Estimate(value=float(c), low=float(c - h), high=float(c + h), n=n)
        for c, h in zip(coefficients, half, strict=True)
    )
    helps = _predicts(y, x, coefficients, blocks) and _narrows(logs, states @ coefficients, cells, blocks)
    return StateFit(coefficients=coefficients, estimates=estimates, helps=helps)


def _width(estimate: Estimate) -> float:
    return max(estimate.high - estimate.low, TOLERANCE)


def _predicts(y: FloatArray, x: FloatArray, coefficients: FloatArray, blocks: IntArray) -> bool:
    """Tell whether coefficients from all other blocks predict a block better than no effect does, over all blocks.

    `y` and `x` are demeaned. Without block b the coefficients are less (X'X - Xb'Xb)^-1 Xb'eb, with eb its residuals.
    """
    k = x.shape[1]
    residuals = y - x @ coefficients
    count = int(blocks.max()) + 1
    squares, products = np.zeros((count, k, k)), np.zeros((count, k))
    np.add.at(squares, blocks, x[:, :, None] * x[:, None, :])
    np.add.at(products, blocks, x * residuals[:, None])
    others = squares.sum(axis=0) - squares
    if np.linalg.matrix_rank(others).min() < k:
        return False  # one block alone tells of a state
    without = coefficients - np.linalg.solve(others, products[:, :, None])[:, :, 0]
    left = y - np.einsum("nk,nk->n", x, without[blocks])
    return float(left @ left) < float(y @ y)


def _narrows(logs: FloatArray, shifts: FloatArray, cells: IntArray, blocks: IntArray) -> bool:
    """Tell whether log ratios to cell 0 vary no more, at the median over the other cells, without the shifts."""
    before, after = (_median_spread(values, cells, blocks) for values in (logs, logs - shifts))
    return after <= before


def _median_spread(values: FloatArray, cells: IntArray, blocks: IntArray) -> float:
    """Return the median over cells of the standard deviation of their differences from cell 0, paired by block."""
    shape = int(cells.max()) + 1, int(blocks.max()) + 1
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (cells, blocks), values)
    np.add.at(counts, (cells, blocks), 1.0)
    means = sums / np.where(counts > 0, counts, np.nan)
    differences = means[1:] - means[0]
    spreads = [float(np.std(row[known], ddof=1)) for row in differences if (known := np.isfinite(row)).sum() > 1]
    return float(np.median(spreads)) if spreads else 0.0


def demean(values: FloatArray, cells: IntArray, blocks: IntArray) -> FloatArray:
    """Subtract from values of shape (n, k) their means by cell and by block, alternately until they converge."""
    residuals: FloatArray = values - values.mean(axis=0)
    for _ in range(SWEEPS):
        largest = 0.0
        for groups in (cells, blocks):
            counts = np.bincount(groups)
            sums = np.stack([np.bincount(groups, weights=column) for column in residuals.T], axis=1)
            means: FloatArray = sums.astype(np.float64) / np.maximum(counts, 1)[:, None]
            residuals = residuals - means[groups]
            largest = max(largest, float(np.abs(means).max(initial=0.0)))
        if largest < TOLERANCE:
            break
    return residuals
