"""Tell from a trial's CPU counters whether others disturbed it. Pure (METHOD.md section 4).

The rule is stated before a study runs and looks at no result: a block in which any trial was disturbed is run again
whole (`repetition.reruns`), and the last attempt counts, whatever it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tare.model import Trial

DISTURBED: Final = 0.15
"""Share of the machine's CPU time that others may use during a trial.

Chosen from 132 trials of 0.3 s on a quiet machine of two cores, whose largest share was .077 (nine in ten below .034),
and from 59 trials of the quick start beside other programs, whose smallest was .326.
"""

MOVED: Final = 0.1
"""Share of a launch's samples from which its cores were moved (`tare.core_watch`); one of twenty may be a hiccup."""

FARTHER: Final = 1.5
"""Times as far apart, or as near, are elsewhere: seen 33 ns (28 to 42) within a chip and 152 ns (118 to 189) across."""

SLOWER: Final = 1.15
"""Times as long for the same arithmetic is slowed: seen 880 ns (850 to 950), and now and then 1,150 to 1,700."""


def share(trial: Trial) -> float | None:
    """Return the share of the machine's CPU time that went to others and to other guests; None if it is not known.

    Not known: nothing was read, or the job itself seems to have used nothing (its cgroup cannot be read, as an ordinary
    user's, or it is a fake).
    """
    noise = trial.noise
    capacity_s = trial.elapsed_s * noise.get("cores", 0.0)
    if capacity_s <= 0.0 or noise.get("job_s", 0.0) <= 0.0:
        return None
    return (noise.get("background_s", 0.0) + noise.get("steal_s", 0.0)) / capacity_s


def is_disturbed(trial: Trial) -> bool:
    """Say whether others used more than `DISTURBED` of the machine while the trial ran, or its cores were unsteady."""
    used = share(trial)
    return (used is not None and used > DISTURBED) or is_unsteady(trial.noise)


def is_moved(noise: Mapping[str, float]) -> bool:
    """Say whether the host moved the machine's cores during a launch: they were farther apart or nearer than usual."""
    return noise.get("cores_elsewhere", 0.0) > MOVED


def is_unsteady(noise: Mapping[str, float]) -> bool:
    """Say whether the cores were moved during a launch, or slowed by another guest on the other half of a core."""
    return is_moved(noise) or noise.get("cores_slowed", 0.0) > MOVED


def moved_between(trials: Iterable[Trial]) -> bool:
    """Say whether cores were unsteady during some of these trials, or at one distance in some and not in others."""
    known = [trial.noise for trial in trials if "core_hand_over_s" in trial.noise]
    distances_s = [noise["core_hand_over_s"] for noise in known]
    return any(map(is_unsteady, known)) or (bool(known) and max(distances_s) > FARTHER * min(distances_s))
