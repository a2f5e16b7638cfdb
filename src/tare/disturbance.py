"""Decide from the machine's state during a launch whether the launch is repeated. Pure (docs/adr/0016).

The rule is fixed before a study runs, looks at no result, and is the same for every environment. Most of the machine's
state is only recorded, and the summary adjusts for it. A launch is repeated for what nothing can adjust for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from tare.model import Interrupted, Trial

DISTURBED: Final = 0.15
"""Share of the machine's CPU time that other programs and other guests may use during a launch.

Chosen from 132 trials of 0.3 s on a quiet machine of two cores, whose largest share was .077 (nine in ten below .034),
and from 59 trials of the quick start beside other programs, whose smallest was .326.
"""

MIGRATED: Final = (0.2, 0.8)
"""A launch's samples are elsewhere in a share between these if its vCPUs migrated in the middle: it has two states."""

FARTHER: Final = 1.5
"""Times as far apart, or as near, are elsewhere: seen 33 ns (28 to 42) within a chip and 152 ns (118 to 189) across."""

LONGEST_REPEATED_S: Final = 2.0
"""A longer launch is never repeated: it averages over the machine's states, and repeating it costs too much time."""

REPEATED_SHARE: Final = 0.25
"""Repeats of a study are at most this share of its launches, so that a busy machine cannot make it endless."""

MOST_TIMES: Final = 1e6
"""A share above it is a misreading (a clock that was set, a damaged file), and unknown; a launch of a millisecond may
have several times its length, as the kernel counts in ticks."""


def share(trial: Trial) -> float | None:
    """Return the share of the machine's CPU time that went to other programs and guests; None if it is unknown.

    Unknown: nothing was read, or the job itself seems to have used nothing (an ordinary user cannot read its cgroup, or
    it is a fake).
    """
    noise = trial.noise
    if noise.get("job_s", 0.0) <= 0.0:
        return None
    taken_s = noise.get("background_s", 0.0) + noise.get("steal_s", 0.0)
    return share_of(taken_s, trial.elapsed_s * noise.get("cores", 0.0))


def share_of(part_s: float, whole_s: float) -> float | None:
    """Return a part of a time as a share; None where the whole is none, or the part so many times the whole."""
    if whole_s <= 0.0:
        return None
    share = part_s / whole_s
    return share if abs(share) <= MOST_TIMES else None


def is_disturbed(trial: Trial) -> bool:
    """Say whether other programs and guests used more than `DISTURBED` of the machine while the trial ran."""
    used = share(trial)
    return used is not None and used > DISTURBED


def migrated_within(noise: Mapping[str, float]) -> bool:
    """Say whether the host migrated the vCPUs in the middle of a launch, so that it has no single distance."""
    low, high = MIGRATED
    return low <= noise.get("cores_elsewhere", 0.0) <= high


def wants_repeat(trial: Trial) -> bool:
    """Say whether the machine's state during a launch calls for a repeat: the trial's outcome is not looked at."""
    if trial.elapsed_s > LONGEST_REPEATED_S:
        return False
    return is_disturbed(trial) or migrated_within(trial.noise)


def repeats_left(trials: Iterable[Trial], planned: int) -> int:
    """Return how many more launches may be repeated, of a study with so many `planned` launches.

    Repeats are at most `REPEATED_SHARE` of the launches made so far, so that those of a bad start leave some for later,
    and of the planned ones. Launches of earlier runs and of interrupted blocks count.
    """
    launches = [trial.key for trial in trials if not isinstance(trial.outcome, Interrupted)]
    repeated = sum(key.repeat > 0 for key in launches)
    allowed = min(math.ceil(REPEATED_SHARE * (len(launches) - repeated)), math.floor(REPEATED_SHARE * planned))
    return max(0, allowed - repeated)
