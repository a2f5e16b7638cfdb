"""The machine's state during a launch, as covariates: its effect on each column is removed, and reported.

A virtual machine's cores are threads of its host. Whether two of them share a cache changes the cost of a message by a
third and may last for seconds. This is not a property of an environment, and the launch is still valid. So no launch is
left out or repeated for it; costs are adjusted, with one coefficient over all environments of a column.

A coefficient comes from launches of the same block, and serves between them only: each is adjusted to the mean state of
its block. Launches in turns share the state nearly, so that their coefficients are uncertain; between blocks, whose
states differ much more, they would multiply costs by anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.analysis import stats
from tare.analysis.stats import Block
from tare.analysis.summary import disturbance
from tare.analysis.summary.series import LaunchFigure, Series
from tare.model import Estimate, StateEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariate:
    """One covariate: how to read it from a launch (None if unknown), and how to state its effect.

    `unit` is the increase of the covariate that `per` names. A covariate whose standard deviation in a column is at
    most `least` is not adjusted for.
    """

    name: str
    read: Callable[[LaunchFigure], float | None]
    per: str
    unit: float
    least: float


def _log_of(key: str) -> Callable[[LaunchFigure], float | None]:
    """Return a reader of the logarithm of a time: during the metric if that is known, else during the whole launch."""

    def read(reading: LaunchFigure) -> float | None:
        seconds = reading.metric.noise.get(key) or reading.trial.noise.get(key, 0.0)
        return math.log(seconds) if seconds > 0 else None

    return read


def _taken(reading: LaunchFigure) -> float | None:
    """Return the share of the cores' time that other guests and other programs took."""
    return disturbance.share(reading.trial)


def _throttled(reading: LaunchFigure) -> float | None:
    trial = reading.trial
    if "throttled_s" not in trial.noise:
        return None
    return disturbance.share_of(trial.noise["throttled_s"], trial.elapsed_s)


STATES: Final = (
    Covariate(
        name="vCPU speed", read=_log_of("core_counting_s"), per="10 % slower vCPUs", unit=math.log(1.1), least=0.02
    ),
    Covariate(
        name="vCPU distance",
        read=_log_of("core_hand_over_s"),
        per="doubling of the distance",
        unit=math.log(2.0),
        least=0.05,
    ),
    Covariate(name="background load", read=_taken, per="tenth of the machine", unit=0.1, least=0.01),
    Covariate(name="throttling", read=_throttled, per="tenth of a launch", unit=0.1, least=0.01),
)
"""In order of priority: with too few launches for all of them, the last are dropped (`stats.LAUNCHES_PER_STATE`)."""


LARGEST_SHIFT: Final = 50.0
"""No state makes a launch e^50 times as long. A fit with such a result is wrong; the limit prevents an overflow."""


Values = Mapping[str, Mapping[Block, float]]
"""The values of states by name and block, as far as they are known."""

Cost = Callable[[Block, LaunchFigure], float]
"""The typical cost of a launch in a block, in seconds: adjusted for the machine's state, or as measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """The adjustment of the launches of one column: `coefficients` of `states`, relative to the `means` of blocks."""

    states: tuple[Covariate, ...] = ()
    coefficients: tuple[float, ...] = ()
    means: Mapping[Block, tuple[float, ...]] = field(default_factory=dict)
    effects: tuple[StateEffect, ...] = ()

    def costs_s(self, series: Series) -> dict[Block, float]:
        """Return `cost_s` of the launches that count, by block."""
        return {block: self.cost_s(block, reading) for block, reading in series.counted.items()}

    def cost_s(self, block: Block, reading: LaunchFigure) -> float:
        """Return the typical cost of a launch as it would be in the mean state of its block."""
        if not self.states:
            return reading.metric.typical_s
        shift = 0.0
        for state, coefficient, mean in zip(self.states, self.coefficients, self.means[block], strict=True):
            value = state.read(reading)
            shift += coefficient * ((mean if value is None else value) - mean)
        return reading.metric.typical_s * math.exp(-max(-LARGEST_SHIFT, min(LARGEST_SHIFT, shift)))

    def values(self, series: Series) -> Values:
        """Return for each state its values during the launches that count."""
        counted = series.counted.items()
        return {
            state.name: {block: value for block, one in counted if (value := state.read(one)) is not None}
            for state in self.states
        }


def difference(environment: Mapping[Block, float], baseline: Mapping[Block, float]) -> stats.FloatArray:
    """Return the difference of a state between environment and baseline, one value per round."""
    common = sorted(block for block in environment if block in baseline)
    return stats.round_means([block[0] for block in common], [environment[b] - baseline[b] for b in common])[1]


NOTHING: Final = Adjustment()


StatesOfTrials = dict[int, tuple[float | None, ...]]
"""The values of STATES during trials, by the identity of each."""


def adjustment_of(group: str, metric: str, column: Sequence[Series], read: StatesOfTrials) -> Adjustment:
    """Return the effect of the machine's state on one metric, over all cells of its group; NOTHING if unknown.

    `read` remembers the states of trials for the other metrics of the same group.
    """
    launches = [
        (cell, block, reading)
        for cell, series in enumerate(column)
        for block, readings in series.every.items()
        for reading in readings
    ]
    known = _usable([_states(reading, read) for _, _, reading in launches])
    if not known:
        return NOTHING
    numbers: dict[Block, int] = {}
    logs = np.asarray([math.log(reading.metric.typical_s) for _, _, reading in launches])
    cells = np.asarray([cell for cell, _, _ in launches], dtype=np.intp)
    blocks = np.asarray([numbers.setdefault(block, len(numbers)) for _, block, _ in launches], dtype=np.intp)
    while known:
        states = tuple(known)
        columns = np.stack(tuple(known.values()), axis=1)
        fit = stats.fit_states(logs, columns, cells, blocks)
        weakest = len(states) - 1 if fit is None else fit.weakest([state.unit for state in states])
        if fit is not None and weakest is None:
            return Adjustment(
                states=states,
                coefficients=tuple(float(value) for value in fit.coefficients),
                means=dict(zip(numbers, _block_means(columns, blocks), strict=True)),
                effects=tuple(
                    StateEffect(group=group, metric=metric, state=state.name, effect=_growth(e, state), per=state.per)
                    for state, e in zip(states, fit.estimates, strict=True)
                ),
            )
        del known[states[weakest or 0]]
    return NOTHING


def _block_means(columns: stats.FloatArray, blocks: NDArray[np.intp]) -> list[tuple[float, ...]]:
    """Return the means of columns of shape (n, k) by block, in order of the blocks' numbers, shape (n,)."""
    counts = np.bincount(blocks)
    means = np.stack([np.bincount(blocks, weights=column) / counts for column in columns.T], axis=1)
    return [tuple(row) for row in means.tolist()]


def _states(reading: LaunchFigure, read: StatesOfTrials) -> tuple[float | None, ...]:
    """Return the values of STATES during a launch; those of a metric without its own are its trial's."""
    trial = id(reading.trial)
    if trial in read and not reading.metric.noise:
        return read[trial]
    values = tuple([state.read(reading) for state in STATES])
    if not reading.metric.noise:
        read[trial] = values
    return values


def _usable(launches: Sequence[tuple[float | None, ...]]) -> dict[Covariate, stats.FloatArray]:
    """Return the states that vary and are known for every launch, in order, with their values, shape (launches,)."""
    usable = {}
    for state, values in zip(STATES, zip(*launches, strict=True), strict=False):
        if None not in values:
            known = np.asarray(values, dtype=np.float64)
            if float(np.std(known)) > state.least:
                usable[state] = known
    return usable


def _growth(coefficient: Estimate, state: Covariate) -> Estimate:
    return coefficient.map(lambda bound: math.expm1(min(bound * state.unit, 700.0)))
