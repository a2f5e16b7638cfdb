"""Take out of launches what the machine's state did to them: one coefficient over all environments together.

ln cost = cell + block + coefficient x state + rest. Cells and blocks take out what environments cost and what a round
shares, so that the coefficient comes from launches of a block that met different states. Fixed effects by Frisch,
Waugh and Lovell: all is demeaned by cell and by block, then ordinary least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.model import Estimate
from tare.stats.arrays import FloatArray, t_quantile

LAUNCHES_PER_STATE: Final = 20
"""Degrees of freedom that each state needs: with fewer, its coefficient adds more noise than it takes out."""
SWEEPS: Final = 50
TOLERANCE: Final = 1e-10

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFit:
    """What `k` states do to ln cost, per unit of each: coefficients and their intervals, shape (k,)."""

    coefficients: FloatArray
    estimates: tuple[Estimate, ...]


def fit_states(logs: FloatArray, states: FloatArray, cells: IntArray, blocks: IntArray) -> StateFit | None:
    """Estimate the coefficients of states from launches.

    `logs`: ln cost, shape (n,); `states`: shape (n, k); `cells` and `blocks` say which each launch is of. None where
    the launches are too few for so many states, or the states do not vary within blocks.
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
    rest = y - x @ coefficients
    errors = np.sqrt(np.diag(inverse) * float(rest @ rest) / (freedom - k))
    half = t_quantile(freedom - k + 1, 0.95) * errors
    estimates = tuple(
        Estimate(value=float(c), low=float(c - h), high=float(c + h), n=n)
        for c, h in zip(coefficients, half, strict=True)
    )
    return StateFit(coefficients=coefficients, estimates=estimates)


def demean(values: FloatArray, cells: IntArray, blocks: IntArray) -> FloatArray:
    """Return values of shape (n, k) less their means by cell and by block: swept in turn until nothing moves."""
    left: FloatArray = values - values.mean(axis=0)
    for _ in range(SWEEPS):
        largest = 0.0
        for groups in (cells, blocks):
            counts = np.bincount(groups)
            sums = np.stack([np.bincount(groups, weights=column) for column in left.T], axis=1)
            means: FloatArray = sums.astype(np.float64) / np.maximum(counts, 1)[:, None]
            left = left - means[groups]
            largest = max(largest, float(np.abs(means).max(initial=0.0)))
        if largest < TOLERANCE:
            break
    return left
