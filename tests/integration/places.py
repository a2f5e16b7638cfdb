"""Compare what studies found in several places: in a lab, on hosts by ssh, on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from integration.ssh_hosts import REPOSITORY
from tare.cli.session import summary_of
from tare.model import Comparison, Verdict
from tare.store.writer import read_only

Cells = Mapping[tuple[str, str, str], Comparison]
"""Comparisons by group, metric and environment."""


def kept(name: str) -> Path:
    """Return the folder in which results stay for a look at them."""
    folder = REPOSITORY / "results" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def comparisons(folder: Path) -> Cells:
    """Return the comparisons of a results folder."""
    found = summary_of(read_only(folder)).comparisons
    return {(each.group, each.metric, each.environment): each for each in found}


def contradictions(everywhere: Mapping[str, Cells]) -> list[str]:
    """Return the cells that cost in one place and gain in another."""
    return [
        f"{key}: {one[key].verdict} in {here}, {other[key].verdict} in {there}"
        for (here, one), (there, other) in combinations(everywhere.items(), 2)
        for key in one.keys() & other.keys()
        if {one[key].verdict, other[key].verdict} >= {Verdict.COSTS, Verdict.GAINS}
    ]


def swapped(everywhere: Mapping[str, Cells]) -> list[str]:
    """Return the pairs of environments whose costs do not overlap and have another order in another place."""
    wrong = []
    for (here, one), (there, other) in combinations(everywhere.items(), 2):
        for group, metric in sorted({key[:2] for key in one.keys() & other.keys()}):
            names = [key[2] for key in one if key[:2] == (group, metric) and key in other]
            for first, second in combinations(names, 2):
                orders = [order(place[group, metric, first], place[group, metric, second]) for place in (one, other)]
                if None not in orders and orders[0] != orders[1]:
                    wrong.append(f"{group}, {metric}: {first} and {second} in {here} and {there}")
    return wrong


def order(one: Comparison, other: Comparison) -> bool | None:
    """Return whether the first costs less; None if the intervals overlap or one has none."""
    if one.overhead is None or other.overhead is None:
        return None
    if one.overhead.high < other.overhead.low:
        return True
    return False if other.overhead.high < one.overhead.low else None
