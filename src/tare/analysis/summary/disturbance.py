"""Decide from the machine's state during a launch whether the launch is repeated. Pure (docs/adr/0016).

The rule is fixed before a study runs, looks at no result, and is the same for every environment. Most of the machine's
state is only recorded, and the summary adjusts for it. A launch is repeated only if no adjustment is possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tare.model import Trial

DISTURBED: Final = 0.15
"""Share of the machine's CPU time above which other programs and other guests disturb a launch.

Chosen from 132 trials of 0.3 s on a quiet machine with two cores, whose largest share was .077 (nine in ten below
.034), and from 59 trials of the quick start with other programs running, whose smallest share was .326.
"""

MIGRATED: Final = (0.2, 0.8)
"""If the share of samples elsewhere lies between these, the vCPUs migrated during the launch: it has two states."""

FARTHER: Final = 1.5
"""A sample is elsewhere if its hand-over takes this many times longer or shorter than usual. Seen: 33 ns (28 to 42)
within a chip, 152 ns (118 to 189) across."""

LONGEST_REPEATED_S: Final = 2.0
"""Longer launches are never repeated: they average over the machine's states, and a repeat would take too long."""

REPEATED_SHARE: Final = 0.25
"""Repeats of a study are at most this share of its launches, so that a busy machine cannot make it endless."""

MOST_TIMES: Final = 1e6
"""A larger share is a misreading (the clock was set, a file is damaged) and counts as unknown. Shares above 1 are
valid: the kernel counts in ticks, so a launch of a millisecond can show several times its length."""


def share(trial: Trial) -> float | None:
    """Return the share of the machine's CPU time that went to other programs and guests; None if it is unknown.

    It is unknown if nothing was read, or if the job seems to have used no CPU time (an ordinary user cannot read its
    cgroup, or the runtime is fake).
    """
    noise = trial.noise
    if noise.get("job_s", 0.0) <= 0.0:
        return None
    taken_s = noise.get("background_s", 0.0) + noise.get("steal_s", 0.0)
    return share_of(taken_s, trial.elapsed_s * noise.get("cores", 0.0))


def share_of(part_s: float, whole_s: float) -> float | None:
    """Return part / whole; None if the whole is not positive or the share is larger than `MOST_TIMES`."""
    if whole_s <= 0.0:
        return None
    share = part_s / whole_s
    return share if abs(share) <= MOST_TIMES else None


def is_disturbed(trial: Trial) -> bool:
    """Tell whether other programs and guests used more than `DISTURBED` of the machine while the trial ran."""
    used = share(trial)
    return used is not None and used > DISTURBED


def migrated_within(noise: Mapping[str, float]) -> bool:
    """Tell whether the host migrated the vCPUs during a launch, so that their distance changed in the middle."""
    low, high = MIGRATED
    return low <= noise.get("cores_elsewhere", 0.0) <= high


def wants_repeat(trial: Trial) -> bool:
    """Tell whether the machine's state during a launch requires a repeat; the trial's outcome is not considered."""
    if trial.elapsed_s > LONGEST_REPEATED_S:
        return False
    return is_disturbed(trial) or migrated_within(trial.noise)


def repeats_left(launches: int, repeated: int, planned: int) -> int:
    """Return how many more launches of a study with `planned` launches may be repeated.

    Repeats are limited to `REPEATED_SHARE` of the planned launches, and of the launches made so far: a busy start does
    not use up all repeats. `launches` and `repeated` include those of earlier runs and of interrupted blocks.
    """
    allowed = min(math.ceil(REPEATED_SHARE * (launches - repeated)), math.floor(REPEATED_SHARE * planned))
    return max(0, allowed - repeated)
