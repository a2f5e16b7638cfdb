"""Divide a cost among its suspects, so that the shares and what is left are its whole. Pure.

What each suspect takes by itself overlaps: without a tunnel the path is shorter, too. If all were removed together as
well, what that takes is divided in the proportion of what each takes by itself; otherwise the parts are added, and
divided in proportion if they are more than the cost. docs/method.md says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tare.analysis import stats
from tare.analysis.explain.cause import Change, Suspect
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.shares import ChangeEffect, CostShare, ResultsIndex, effect_of
from tare.analysis.stats import MIN_ROUNDS, FloatArray
from tare.model import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The shares of a cost by the names of suspects, within 0 and 1, and `rest`, which none of them explains.

    `alone` has what each takes by itself, which may be below 0 or above 1. `refuted` are the suspects that were
    measured and cannot be it: the cell costs less than its control, or more without the factor. They have no share.
    """

    shares: Mapping[str, CostShare] = field(default_factory=dict)
    alone: Mapping[str, CostShare] = field(default_factory=dict)
    refuted: Mapping[str, CostShare] = field(default_factory=dict)
    rest: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JointChange:
    """The change that removes several suspects at once, and their names."""

    change: Change
    names: frozenset[str]


def divide(
    evidence: Evidence,
    suspects: Iterable[Suspect],
    together: JointChange | None,
    places: Sequence[ResultsIndex],
    confidence: float,
) -> Division:
    """Return how a cost divides in the results that have most of its suspects; `together` removes several of them."""
    measured = [_effects(evidence, suspects, place) for place in places]
    effects = max(measured, key=len, default={})
    if not effects:
        return Division()
    place = places[measured.index(effects)]
    joint = effect_of(evidence, together.change, place) if together is not None else None
    refuted = {name: effect for name, effect in effects.items() if effect.is_refuted(confidence)}
    kept = {name: effect for name, effect in effects.items() if name not in refuted}
    shares, rest = _divided(kept, joint, together.names if together is not None else frozenset())
    return Division(
        shares=shares,
        alone={name: effect.by_itself() for name, effect in kept.items()},
        refuted={name: effect.by_itself() for name, effect in refuted.items()},
        rest=rest,
    )


def _effects(evidence: Evidence, suspects: Iterable[Suspect], place: ResultsIndex) -> dict[str, ChangeEffect]:
    return {
        suspect.name: effect
        for suspect in suspects
        if suspect.change is not None and (effect := effect_of(evidence, suspect.change, place)) is not None
    }


def _divided(
    effects: Mapping[str, ChangeEffect], joint: ChangeEffect | None, removed: Collection[str]
) -> tuple[dict[str, CostShare], Estimate | None]:
    """Return the shares and the rest; `joint` is the effect of the suspects `removed`, all at once."""
    if not effects:
        return {}, None
    every = (*effects.values(), joint) if joint is not None else tuple(effects.values())
    rounds = sorted(set[int].intersection(*(set(each.cost) for each in every)))
    if len(rounds) < MIN_ROUNDS:  # no rounds have all of them: each by itself, and no rest
        return {name: _within(effect.by_itself()) for name, effect in effects.items()}, None
    cost = _series(every[0].cost, rounds)
    parts = {name: _series(effect.explained, rounds) for name, effect in effects.items()}
    some = {name: part for name, part in parts.items() if joint is not None and name in removed}
    taken = _sum_of((part for name, part in parts.items() if name not in some), cost)
    if joint is not None and some:
        at_once = _series(joint.explained, rounds)
        parts |= _scaled(some, at_once)
        taken = taken + _sum_of((at_once,), cost)
    rest = cost - taken
    if rest.mean() < 0:
        parts = _scaled(parts, cost)
    shares = {
        name: replace(effect.by_itself(), share=_clipped(stats.share_of_cost(parts[name], cost)))
        for name, effect in effects.items()
    }
    return shares, _clipped(stats.share_of_cost(rest, cost))


def _scaled(parts: Mapping[str, FloatArray], total: FloatArray) -> dict[str, FloatArray]:
    """Return parts, of shape (rounds,), scaled so that those whose means are above zero add up to a mean of `total`.

    If there are none, each has the same part: what none takes alone, they take together.
    """
    whole = sum(mean for part in parts.values() if (mean := float(part.mean())) > 0)
    if whole <= 0:
        return {name: total / len(parts) for name in parts}
    scale = max(0.0, float(total.mean()) / whole)
    return {name: part * scale for name, part in parts.items()}


def _sum_of(parts: Iterable[FloatArray], like: FloatArray) -> FloatArray:
    """Return the sum of the parts whose means are above zero."""
    return sum((part for part in parts if part.mean() > 0), np.zeros_like(like))


def _series(logs: Mapping[int, float], rounds: Sequence[int]) -> FloatArray:
    return np.array([logs[number] for number in rounds])


def _within(share: CostShare) -> CostShare:
    return replace(share, share=_clipped(share.share))


def _clipped(share: Estimate | None) -> Estimate | None:
    """Return a share within 0 and 1."""
    return None if share is None else share.map(lambda value: min(1.0, max(0.0, value)))
