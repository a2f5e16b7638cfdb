"""The machine's state during a launch, as covariates: its effect on each column is removed, and reported.

A virtual machine's cores are threads of its host. Whether two of them share a cache changes the cost of a message by a
third and may last for seconds. This is not a property of an environment, and the launch is still valid. So no launch is
left out or repeated for it; costs are adjusted, with one coefficient over all environments of a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tare import stats
from tare.model import Estimate, StateEffect
from tare.stats import Block
from tare.summary import disturbance
from tare.summary.series import LaunchFigure, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
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
    State(name="vCPU speed", read=_log_of("core_counting_s"), per="10 % slower vCPUs", unit=math.log(1.1), least=0.02),
    State(
        name="vCPU distance",
        read=_log_of("core_hand_over_s"),
        per="doubling of the distance",
        unit=math.log(2.0),
        least=0.05,
    ),
    State(name="background load", read=_taken, per="tenth of the machine", unit=0.1, least=0.01),
    State(name="throttling", read=_throttled, per="tenth of a launch", unit=0.1, least=0.01),
)
"""In order of priority: with too few launches for all of them, the last are dropped (`stats.LAUNCHES_PER_STATE`)."""


LARGEST_SHIFT: Final = 50.0
"""No state makes a launch e^50 times as long. A fit with such a result is wrong; the limit prevents an overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """The adjustment of the launches of one column: `coefficients` of `states`, relative to the mean state."""

    states: tuple[State, ...] = ()
    coefficients: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    effects: tuple[StateEffect, ...] = ()

    def cost_s(self, reading: LaunchFigure) -> float:
        """Return the typical cost of a launch as it would be in the column's mean state."""
        if not self.states:
            return reading.metric.typical_s
        shift = 0.0
        for state, coefficient, mean in zip(self.states, self.coefficients, self.means, strict=True):
            value = state.read(reading)
            shift += coefficient * ((mean if value is None else value) - mean)
        return reading.metric.typical_s * math.exp(-max(-LARGEST_SHIFT, min(LARGEST_SHIFT, shift)))

    def differences(self, environment: Series, baseline: Series) -> Mapping[str, stats.FloatArray]:
        """Return for each state its difference between environment and baseline, one value per round."""
        differences = {}
        for state in self.states:
            common = sorted(environment.counted.keys() & baseline.counted.keys())
            pairs = [
                (block, one, other)
                for block in common
                if (one := state.read(environment.counted[block])) is not None
                and (other := state.read(baseline.counted[block])) is not None
            ]
            values = [one - other for _, one, other in pairs]
            differences[state.name] = stats.round_means([block[0] for block, _, _ in pairs], values)[1]
        return differences


NOTHING: Final = Adjustment()


@dataclass(slots=True)
class _Launches:
    """The launches of a column, collected for the fit."""

    logs: list[float] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    readings: list[LaunchFigure] = field(default_factory=list)


def adjustment_of(group: str, metric: str, column: Sequence[Series]) -> Adjustment:
    """Return the effect of the machine's state on one metric, over all cells of its group; NOTHING if unknown."""
    launches, numbers = _Launches(), dict[Block, int]()
    for cell, series in enumerate(column):
        for block, readings in series.every.items():
            for reading in readings:
                launches.logs.append(math.log(reading.metric.typical_s))
                launches.cells.append(cell)
                launches.blocks.append(numbers.setdefault(block, len(numbers)))
                launches.readings.append(reading)
    states = _usable(launches)
    while states:
        values = [[state.read(reading) for state in states] for reading in launches.readings]
        columns = np.array(values, dtype=np.float64)
        cells, blocks = (np.asarray(ids, dtype=np.intp) for ids in (launches.cells, launches.blocks))
        fit = stats.fit_states(np.asarray(launches.logs), columns, cells, blocks)
        if fit is not None:
            return Adjustment(
                states=states,
                coefficients=tuple(float(value) for value in fit.coefficients),
                means=tuple(float(value) for value in columns.mean(axis=0)),
                effects=tuple(
                    StateEffect(group=group, metric=metric, state=state.name, effect=_growth(e, state), per=state.per)
                    for state, e in zip(states, fit.estimates, strict=True)
                ),
            )
        states = states[:-1]
    return NOTHING


def _usable(launches: _Launches) -> tuple[State, ...]:
    """Return the states that vary and are known for every launch."""
    usable = []
    for state in STATES:
        values = [state.read(reading) for reading in launches.readings]
        known = [value for value in values if value is not None]
        if values and len(known) == len(values) and float(np.std(known)) > state.least:
            usable.append(state)
    return tuple(usable)


def _growth(coefficient: Estimate, state: State) -> Estimate:
    low, value, high = (
        math.expm1(min(bound * state.unit, 700.0)) for bound in (coefficient.low, coefficient.value, coefficient.high)
    )
    return Estimate(value=value, low=low, high=high, n=coefficient.n)
