"""What a possible cause of a cost is: its clues, the change that would prove it, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import TimeKind
from tare.model import Environment
from tare.runtimes import RUNTIMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """Something that was seen and speaks for a cause (`weight` above 0) or against it (below 0).

    Weights are logarithms of likelihood ratios, roughly: 1 is a hint, 3 is what hardly anything else would show.
    """

    text: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One factor that is changed to prove a cause: the cell's environment without it, or the baseline's with it.

    `words` say what is changed. With `adds` it is the baseline with the factor; otherwise the cell without it.
    """

    words: str
    environment: Environment
    adds: bool = False


def changed(evidence: Evidence, words: str, **changed: Any) -> Change:
    """Return the change of the cell's environment to other values of some of its keys."""
    return Change(words=words, environment=replace(evidence.here.environment, **changed))


def with_link(evidence: Evidence, words: str, **settings: Any) -> Change:
    """Return the change of the cell's environment to other settings of its link."""
    return changed(evidence, words, link=replace(evidence.here.environment.link, **settings))


def with_placement(evidence: Evidence, words: str, **settings: Any) -> Change:
    """Return the change of the cell's environment to other settings of its placement."""
    return changed(evidence, words, placement=replace(evidence.here.environment.placement, **settings))


def without_container(evidence: Evidence) -> Change:
    """Return the change to the baseline's runtime: the same image, network and daemon, but no container."""
    environment, base = evidence.here.environment, evidence.base.environment
    daemon = environment.runtime if RUNTIMES[environment.runtime].needs_daemon else environment.daemon
    words = "the same image and network without the container"
    return changed(evidence, words, runtime=base.runtime, launch=base.launch, daemon=daemon)


def baseline_variables(evidence: Evidence) -> Change | None:
    """Return the change to the baseline's variables; None if they are the same, or the runtime differs as well."""
    environment, base = evidence.here.environment, evidence.base.environment
    if environment.runtime != base.runtime or environment.env == base.env:
        return None
    return changed(evidence, "the baseline's variables", env=base.env)


class CausePlugin(Protocol):
    """A possible cause. One file of `tare.analysis.explain.causes` for each, and one entry in its `CAUSES`."""

    name: str
    words: str
    """The cause in at most five words."""
    takes: frozenset[TimeKind]
    """The kinds of time that it can take; a cost of another kind has another cause."""

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        """Yield what speaks for and against the cause; nothing if it cannot be the cause."""

    def change(self, evidence: Evidence) -> Change | None:
        """Return the change of one factor that proves the cause, None if there is none."""

    def remedy(self, evidence: Evidence) -> str:
        """Return the command or the key of a study that removes the cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A cause that may explain a cost, with its clues; `weight` is their sum."""

    name: str
    words: str
    clues: tuple[Clue, ...]
    change: Change | None
    remedy: str

    @property
    def weight(self) -> float:
        """Return how much speaks for the cause."""
        return sum(clue.weight for clue in self.clues)
