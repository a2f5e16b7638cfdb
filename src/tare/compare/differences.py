"""List what differs between results folders, and refuse differences that nobody declared (rule of metrics 9). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tare.compare.facts import Fact
from tare.compare.kinds import ALL, KINDS
from tare.compare.reading import ComparedResults
from tare.errors import RefusedError, UsageError

LISTED: Final = 12
"""Differences that the message of a refusal names."""
SHOWN: Final = 60
"""Characters of a value in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDifference:
    """A fact that differs between results. `values` has one text per result, None where it is not recorded.

    `environments` are those that it concerns; empty: all.
    """

    kind: str
    name: str
    values: tuple[str | None, ...]
    environments: frozenset[str] = field(default_factory=frozenset)

    def between(self, first: int, second: int) -> bool:
        """Tell whether two of the results differ in it, as far as both recorded it."""
        one, other = self.values[first], self.values[second]
        return one is not None and other is not None and one != other

    @property
    def short(self) -> tuple[str, ...]:
        """Return the values for a list; of long ones only the words that differ."""
        if max(len(value or "") for value in self.values) <= SHOWN:
            return tuple(value or "not recorded" for value in self.values)
        common = set.intersection(*(set(value.split()) for value in self.values if value is not None))
        return tuple(_distinct(value, common) for value in self.values)


def _distinct(value: str | None, common: Collection[str]) -> str:
    if value is None:
        return "not recorded"
    words = " ".join(word for word in value.split() if word not in common) or "(the same words in another order)"
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


def differences(readings: Sequence[ComparedResults]) -> tuple[FactDifference, ...]:
    """Return the facts in which results differ, in the order of the kinds; those that one lacks are no difference.

    Facts of environments, placements and workloads count if all results have them; of launches, those of common cells.
    """
    facts = [*_recorded(readings), *_launched(readings)]
    order = {kind: number for number, kind in enumerate(KINDS)}
    return tuple(sorted(facts, key=lambda each: order[each.kind]))


def _recorded(readings: Sequence[ComparedResults]) -> Iterator[FactDifference]:
    for name in dict.fromkeys(name for reading in readings for name in reading.facts):
        yield from _difference(name, [reading.facts.get(name) for reading in readings])


def _difference(name: str, facts: Sequence[Fact | None]) -> Iterator[FactDifference]:
    known = [fact for fact in facts if fact is not None]
    if len({fact.text for fact in known}) > 1:
        yield FactDifference(
            kind=known[0].kind,
            name=name,
            values=tuple(None if fact is None else fact.text for fact in facts),
            environments=frozenset().union(*(fact.environments for fact in known)),
        )


def _launched(readings: Sequence[ComparedResults]) -> Iterator[FactDifference]:
    """Yield the differences in what launches recorded, for each environment over the cells that all results have."""
    common = set.intersection(*(set(reading.launched) for reading in readings))
    for environment in sorted({environment for _, environment in common}):
        groups = sorted(group for group, each in common if each == environment)
        keys = dict.fromkeys(
            key for group in groups for reading in readings for key in reading.launched[group, environment]
        )
        for kind, name in keys:
            texts = [
                " or ".join(
                    sorted(frozenset().union(*(r.launched[g, environment].get((kind, name), ()) for g in groups)))
                )
                for r in readings
            ]
            facts = [
                Fact(kind=kind, text=text, environments=frozenset({environment})) if text else None for text in texts
            ]
            yield from _difference(f"launches of {environment}: {name}", facts)


def check_kinds(expected: Iterable[str]) -> frozenset[str]:
    """Return the kinds of difference that were declared; raise `UsageError` for a name that is none."""
    named = frozenset(expected)
    if unknown := sorted(named - {ALL, *KINDS}):
        raise UsageError(
            f"--expect {unknown[0]}: this is not a kind of difference",
            remedy=f"the kinds are {', '.join(KINDS)}; `{ALL}` stands for every kind",
        )
    return frozenset(KINDS) if ALL in named else named


def refuse_undeclared(
    found: Sequence[FactDifference], expected: Collection[str], labels: Sequence[str], paths: Sequence[str]
) -> None:
    """Raise `RefusedError` if results differ in a kind that was not declared, with the options that declare it."""
    undeclared = [difference for difference in found if difference.kind not in expected]
    if not undeclared:
        return
    kinds = list(dict.fromkeys(difference.kind for difference in undeclared))
    lines = [f"{each.kind}: {each.name}: {in_line(each, labels)}" for each in undeclared[:LISTED]]
    if len(undeclared) > LISTED:
        lines.append(f"and {len(undeclared) - LISTED} more")
    named = ", ".join(f"{label} ({path})" for label, path in zip(labels, paths, strict=True))
    options = " ".join(f"--expect {kind}" for kind in kinds)
    listed = "\n    ".join(lines)
    raise RefusedError(
        f"{named} differ in facts that were not declared:\n    {listed}",
        remedy=f"if these differences are intended, declare them: `{options}`, or `--expect {ALL}`",
    )


def in_line(difference: FactDifference, labels: Sequence[str]) -> str:
    """Return the values of a difference in one line."""
    return ", ".join(f"{label} {value}" for label, value in zip(labels, difference.short, strict=True))
