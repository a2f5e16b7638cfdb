"""Claims on the modes of a launch's iterations: two modes, their shares and their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from factory_judged import claim, judged, results
from tare.claims import Verdict
from tare.claims.figures import Measured
from tare.claims.modes import number_of
from tare.model import Trial

Floats = NDArray[np.float64]


def iterations(seed: int, *, upper: float = 2.0, share: float = 0.5, scale: float = 1e-5, n: int = 4000) -> Floats:
    """Return times of which a share is around `scale` and the others around `upper` times that."""
    rng = np.random.default_rng(seed)
    centre = np.where(rng.random(n) < share, scale, upper * scale)
    return centre * np.exp(rng.normal(0.0, 0.05, n))


def with_samples(measured: Measured, samples: Mapping[str, Floats]) -> Measured:
    """Return results whose launches have these iterations by environment."""

    def read(trial: Trial) -> Mapping[str, Floats]:
        return {"latency:8/max_s": samples["slow" if "slow" in trial.key.cell else "plain"]}

    return replace(measured, samples=read)


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return results(tmp_path)


def verdict(folder: Path, test: str, measured: Measured) -> Verdict:
    (made,) = judged(folder, claim(1, f"test: {{study: made-up, {test}}}"), measured)
    return made.verdict


DIP = "{of: {environment: plain, metric: 'dip:latency*'}, below: 0.05}"
SHARE = "{of: {environment: plain, metric: 'share:latency*'}, above: 0.4, below: 0.6}"
NEAR = "{of: slow, against: plain, within: 2%}"
SO, NOT_SO = Verdict.REPRODUCED, Verdict.CONTRADICTED


@pytest.mark.parametrize(
    ("test", "two", "one"),
    [
        (f"count: {DIP}", SO, NOT_SO),
        (f"count: {SHARE}", SO, SO),
        (f"metric: 'upper:latency*', cost: {NEAR}", NOT_SO, NOT_SO),
        (f"metric: 'lower:latency*', cost: {NEAR}", SO, NOT_SO),
        (f"metric: 'lower:latency*', count: {DIP}, costs: [{NEAR}]", SO, NOT_SO),
        (f"metric: 'upper:latency*', count: {DIP}, costs: [{NEAR}]", NOT_SO, NOT_SO),
    ],
)
def test_two_modes_are_told_from_one(tmp_path: Path, measured: Measured, test: str, two: Verdict, one: Verdict) -> None:
    slow = iterations(2, upper=3.0)
    assert verdict(tmp_path, test, with_samples(measured, {"plain": iterations(1), "slow": slow})) is two
    alone = with_samples(measured, {"plain": iterations(1, upper=1.0), "slow": slow})
    assert verdict(tmp_path, test, alone) is one


def test_the_share_is_that_of_the_faster_mode(measured: Measured) -> None:
    samples = {"latency:8/max_s": iterations(3, share=0.8)}
    assert number_of(measured.trials[0], samples, "latency:8", "share:") == pytest.approx(0.8, abs=0.02)


def test_a_machine_that_is_slower_in_some_turns_gives_no_modes(measured: Measured) -> None:
    drifting = np.concatenate([iterations(turn, upper=1.0, scale=(1 + turn % 2) * 1e-5, n=400) for turn in range(10)])
    samples = {"latency:8/max_s": drifting}
    (trial, *_) = measured.trials
    in_turns = replace(trial, counters={**trial.counters, "turns": 10})
    whole, parts = (number_of(each, samples, "latency:8", "dip:") for each in (trial, in_turns))
    assert whole is not None
    assert parts is not None
    assert whole < 0.001
    assert parts > 0.2


def test_launches_without_samples_or_with_few_decide_nothing(tmp_path: Path, measured: Measured) -> None:
    test = "count: {of: {environment: plain, metric: 'dip:latency*'}, below: 0.05}"
    assert verdict(tmp_path, test, measured) is Verdict.UNDECIDED
    few = iterations(1, n=10)
    assert verdict(tmp_path, test, with_samples(measured, {"plain": few, "slow": few})) is Verdict.UNDECIDED
