"""Turn a launch that has ended into a trial for the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tare.host.process import Result
from tare.model import (
    InterfaceTraffic,
    Outcome,
    Trial,
    TrialKey,
)
from tare.run.outcome import Ready, startup
from tare.run.ranks import compared
from tare.workloads import Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch that has ended: result, outcome, parsed output, interface traffic, and the machine's state meanwhile."""

    result: Result
    outcome: Outcome
    parsed: Parsed | None
    traffic: tuple[InterfaceTraffic, ...]
    counters: Mapping[str, float]
    noise: Mapping[str, float]
    active_s: float


def trial_of(key: TrialKey, position: int, started_unix_s: float, ready: Ready, launched: Launched) -> Trial:
    """Return the trial of a launch that has ended."""
    parsed = launched.parsed
    return Trial(
        key=key,
        position=position,
        started_unix_s=started_unix_s,
        elapsed_s=launched.active_s,
        outcome=launched.outcome,
        argv=ready.argv,
        startup_s=startup(ready.pods_s, launched.active_s, parsed),
        ranks=compared(parsed.ranks, ready.deployed) if parsed else (),
        traffic=launched.traffic,
        counters=launched.counters,
        mpi_library=parsed.mpi_library if parsed else "",
        noise=launched.noise,
        facts=ready.deployed.facts | ({"transport": ready.chosen.words} if ready.chosen else {}),
    )
