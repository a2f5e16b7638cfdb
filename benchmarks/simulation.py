"""Simulate the costs of studies whose truth is known, and give rates with their intervals (for benchmarks/coverage.py).

A simulated launch costs exp(base + truth + round + interaction + block + launch): `round` and `block` are shared by
all environments of a round or block (they cancel in pairs), `interaction` is what one environment's pods do for a
whole round (it does not cancel and more blocks do not average it out: the reason why the round is the unit), `launch`
is independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tare.analysis import stats

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95
BASE_S = 10e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated; deviations are of the logarithm. `slow` is the share of launches that are 30 % slower."""

    name: str
    rounds: int = 10
    blocks: int = 1
    truth: float = 0.0
    round_sd: float = 0.05
    interaction_sd: float = 0.02
    block_sd: float = 0.03
    launch_sd: float = 0.02
    slow: float = 0.0


ONE_BLOCK = Scenario(name="10 rounds x 1 block", truth=math.log(1.05))
SEVERAL_BLOCKS = Scenario(name="10 rounds x 4 blocks", blocks=4, truth=math.log(1.05))
FEW_ROUNDS = Scenario(name="6 rounds x 3 blocks", rounds=6, blocks=3, truth=math.log(1.05))
LARGE_COST = Scenario(name="10 rounds, 4 blocks, x1.6", blocks=4, truth=math.log(1.6))
NOISY = Scenario(name="10 rounds x 2, noise 15 %", blocks=2, truth=math.log(1.2), launch_sd=0.15)
SLOW_LAUNCHES = Scenario(name="1 launch in 20 is 30 % slower", rounds=20, truth=math.log(1.05), slow=0.05)
HARDEST_STOP = Scenario(
    name="spread that stops at any look", round_sd=0.05, interaction_sd=0.014, launch_sd=0.0, block_sd=0.03
)
SCENARIOS = (ONE_BLOCK, SEVERAL_BLOCKS, FEW_ROUNDS, LARGE_COST, NOISY, SLOW_LAUNCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened, with its exact (Clopper-Pearson) 95 % interval."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        return self.hits / self.n

    def bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        tail = (1.0 - confidence) / 2.0
        low = float(special.betaincinv(self.hits, self.n - self.hits + 1, tail)) if self.hits else 0.0
        high = float(special.betaincinv(self.hits + 1, self.n - self.hits, 1.0 - tail)) if self.hits < self.n else 1.0
        return low, high

    def __str__(self) -> str:
        low, high = self.bounds()
        return f"{self.value:6.3f}  [{low:.3f}, {high:.3f}]  n = {self.n}"


def rate(hits: Sequence[bool]) -> Rate:
    return Rate(hits=sum(hits), n=len(hits))


def simulate(rng: np.random.Generator, scenario: Scenario, truths: Sequence[float]) -> FloatArray:
    """Return costs in seconds of one study, shape (1 + environments, rounds, blocks); row 0 is the baseline."""
    shape = (1 + len(truths), scenario.rounds, scenario.blocks)
    logs = np.full(shape, math.log(BASE_S))
    logs += np.asarray([0.0, *truths])[:, None, None]
    logs += rng.normal(0.0, scenario.round_sd, shape[1])[None, :, None]
    logs += rng.normal(0.0, scenario.interaction_sd, shape[:2])[:, :, None]
    logs += rng.normal(0.0, scenario.block_sd, shape[1:])[None]
    logs += rng.normal(0.0, scenario.launch_sd, shape)
    logs += math.log(1.3) * (rng.random(shape) < scenario.slow)
    costs: FloatArray = np.exp(logs)
    return costs


def round_ratios(environment: FloatArray, baseline: FloatArray) -> FloatArray:
    """Return d of shape (rounds,) from costs of shape (rounds, blocks)."""
    ratios = stats.log_ratios(environment.ravel(), baseline.ravel()).reshape(environment.shape)
    means: FloatArray = ratios.mean(axis=1)
    return means
