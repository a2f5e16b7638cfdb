"""Say how many allocations of a batch system the rounds of a study come from, because allocations differ too. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

KEY: Final = "allocations"
"""The key of a study's facts: for each allocation its `nodes`, `rounds` and `node hours`."""
FEWEST: Final = 6
"""The smallest number of allocations from which rounds can be said to span them (`tare submit --allocations`)."""


def allocation_caveats(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if the intervals do not cover differences between allocations, or do only in part."""
    rounds = rounds_of(facts)
    count = len(rounds)
    if count == 1:
        yield (
            "One allocation: differences between allocations are not in the intervals "
            f"(`tare submit --allocations {FEWEST}` measures in several)."
        )
    elif any(len(each) > 1 for each in rounds.values()):
        most = max(map(len, rounds.values()))
        yield (
            f"{count} allocations with up to {most} rounds each: rounds of one allocation are alike, so the intervals "
            "cover only part of the differences between allocations."
        )


def rounds_of(facts: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the rounds that each allocation has measured, without those that measured none."""
    found = {name: each.get("rounds") for name, each in _listed(facts)}
    return {name: rounds for name, rounds in found.items() if isinstance(rounds, list) and rounds}


def node_hours(facts: Mapping[str, Any]) -> float:
    """Return the node-hours that a study has used so far, as far as its runs have recorded them."""
    stated = (each.get("node hours") for _, each in _listed(facts))
    return sum(hours for hours in stated if isinstance(hours, int | float))


def _listed(facts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the allocations with what is stated of each; facts are another's words and may have any shape."""
    stated = facts.get(KEY)
    for name, each in (stated if isinstance(stated, Mapping) else {}).items():
        if isinstance(each, Mapping):
            yield str(name), each
