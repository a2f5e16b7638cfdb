"""Estimate the effect of the machine's state on launches: one coefficient over all environments together.

ln cost = cell + block + coefficient x state + residual. Cell and block effects absorb the costs of environments and
what the launches of a block share, so that the coefficient is estimated from launches of a block in different states.
Fixed effects by Frisch, Waugh and Lovell: all terms are demeaned by cell and by block, then ordinary least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.model import Estimate
from tare.stats.arrays import FloatArray, t_quantile

LAUNCHES_PER_STATE: Final = 20
"""Degrees of freedom that each state needs: with fewer, its coefficient adds more noise than it removes."""
SWEEPS: Final = 50
TOLERANCE: Final = 1e-10

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFit:
    """The effects of `k` states on ln cost, per unit of each: coefficients of shape (k,) and their intervals."""

    coefficients: FloatArray
    estimates: tuple[Estimate, ...]


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
    return StateFit(coefficients=coefficients, estimates=estimates)


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
