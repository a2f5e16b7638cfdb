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
    stated = facts.get(KEY)
    listed = stated if isinstance(stated, Mapping) else {}
    found = {str(name): list(each.get("rounds", ())) for name, each in listed.items() if isinstance(each, Mapping)}
    return {name: rounds for name, rounds in found.items() if rounds}


def node_hours(facts: Mapping[str, Any]) -> float:
    """Return the node-hours that a study has used so far, as far as its runs have recorded them."""
    stated = facts.get(KEY)
    listed = stated if isinstance(stated, Mapping) else {}
    return sum(float(each.get("node hours", 0.0)) for each in listed.values() if isinstance(each, Mapping))
