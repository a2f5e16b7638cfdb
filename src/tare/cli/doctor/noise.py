"""Run `tare doctor --noise`: what disturbs measurements on this machine, what that costs here, and what changes it.

Nothing is changed. Settings are read; activity is counted while a probe measures every core
(`tare.cli.doctor.noise_effect`). docs/noise.md says what each line means.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from tare.cli.doctor import noise_activity, noise_schedule
from tare.cli.doctor.noise_activity import ACTIVITIES, Span
from tare.cli.doctor.noise_check import Check, KernelFiles, NoiseState
from tare.cli.doctor.noise_effect import MOST_CORES, CoreNoise, Effect, as_ranks, measure
from tare.cli.doctor.noise_settings import SETTINGS
from tare.errors import EXIT_DONE
from tare.model import Estimate
from tare.model.text import three_digits
from tare.run.core_watch import is_virtual
from tare.system.topology import in_words, read_topology

NAMES: Final = (*SETTINGS, *ACTIVITIES, noise_schedule.NAME)
"""The names of all checks, in the order of the output."""
FEW: Final = 8
MARKS: Final = {
    NoiseState.QUIET: "ok",
    NoiseState.DISTURBS: "NOISE",
    NoiseState.NOTE: "note",
    NoiseState.UNREAD: "unread",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The whole finding: the machine in words, how long it was watched, the checks, and the measured effect."""

    machine: str
    watched_s: float
    checks: tuple[Check, ...]
    measured: Effect


def show_noise(*, as_json: bool) -> int:
    """Print what disturbs and what it costs; return 0."""
    found = examine()
    print(json.dumps(asdict(found), indent=2, ensure_ascii=False) if as_json else "\n".join(as_text(found)))
    return EXIT_DONE


def examine() -> Noise:
    """Check and measure this machine; takes about ten seconds. Raises `CommandFailed` if the probe cannot run."""
    machine, cores = KernelFiles(), sorted(os.sched_getaffinity(0))[:MOST_CORES]
    checks = [guarded(name, lambda check=check: check(machine)) for name, check in SETTINGS.items()]  # type: ignore[misc]
    before = noise_activity.read(machine)
    effect = measure(cores)
    span = Span(machine=machine, before=before, after=noise_activity.read(machine), cores=tuple(cores))
    checks += [guarded(name, lambda check=check: check(span)) for name, check in ACTIVITIES.items()]  # type: ignore[misc]
    names = frozenset(name for name, _ in span.after.processes.values())
    checks.append(guarded(noise_schedule.NAME, lambda: noise_schedule.due_soon(machine, names)))
    kind = "a virtual machine" if is_virtual() else "no virtual machine"
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    return Noise(
        machine=f"{in_words(read_topology(cores))}, Linux {os.uname().release}, {kind}, {user}",
        watched_s=span.elapsed_s,
        checks=tuple(checks),
        measured=effect,
    )


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """Return what a check found, with its name, or that the user may not read what it needs."""
    try:
        return replace(check(), name=name)
    except PermissionError as error:
        return Check(name=name, state=NoiseState.UNREAD, found=f"{error.filename} may not be read", rights="root")


def as_text(found: Noise) -> list[str]:
    """Return the lines to print."""
    disturbing = [check.name for check in found.checks if check.state is NoiseState.DISTURBS]
    lines = [f"machine: {found.machine}", "", f"what disturbs (counted for {found.watched_s:.0f} s)"]
    for check in found.checks:
        effect = f"; here: {check.effect}" if check.effect else ""
        lines.append(f"  {MARKS[check.state]:7} {check.name}: {check.found}{effect}")
        if check.remedy and check.state is not NoiseState.QUIET:
            lines.append(f"          change: {check.remedy} ({check.rights})")
    lines += [
        "",
        "what it costs here (a fixed quantum of work on every core at the same time)",
        *_measured(found.measured),
    ]
    listed = f": {', '.join(disturbing)}" if disturbing else ""
    summary = f"{len(disturbing)} of {len(found.checks)} checks found something that disturbs{listed}"
    return [*lines, "", f"{summary}. Nothing was changed."]


def _measured(effect: Effect) -> list[str]:
    worst = sorted(effect.cores, key=lambda core: -core.lost.value)[:FEW]
    lines = [_core_line(core) for core in sorted(worst, key=lambda core: core.core)]
    if len(effect.cores) > FEW:
        lines.append(f"  the {FEW} cores that lost the most of {len(effect.cores)}; --json has all")
    shares = as_ranks(effect)
    lines.append(
        f"  costs here: {shares['lost']:.1%} of a core's time, {shares['detours']:.1%} by detours, "
        f"{shares['pace']:.1%} by a slower pace (mean of {len(effect.cores)} cores)"
    )
    if effect.synchronised is not None:
        lines.append(
            f"  costs here: {_share(effect.synchronised)} for ranks on these cores that wait for each other after "
            f"every {effect.grain_s * 1e3:g} ms of work ({effect.steps:,} steps)"
        )
    lines.append(_wake_line(effect))
    if effect.hand_over_s is None or effect.hand_over_range_s is None:
        return [*lines, f"  core to core: not measured: {effect.no_hand_over}"]
    low, high = (value * 1e9 for value in effect.hand_over_range_s)
    lines.append(
        f"  core to core: a cache line takes {effect.hand_over_s * 1e9:.0f} ns (90 % of {effect.hand_overs} samples: "
        f"{low:.0f} to {high:.0f}; a host that migrates vCPUs shows up as a wide range)"
    )
    return lines


def _core_line(core: CoreNoise) -> str:
    return (
        f"  core {core.core}: lost {_share(core.lost)} of {core.quanta:,} quanta of {_time(core.quantum_s)}; "
        f"{core.detours:,} detours, {core.detours_per_s:,.0f} per second: median {_time(core.detour_median_s)}, "
        f"p99 {_time(core.detour_p99_s)}, max {_time(core.detour_max_s)}"
    )


def _wake_line(effect: Effect) -> str:
    slowest = max(effect.cores, key=lambda core: core.wake_median_s)
    return (
        f"  wake-up from sleep: late by {_time(slowest.wake_median_s)} (median), {_time(slowest.wake_p99_s)} (p99), "
        f"{_time(slowest.wake_max_s)} (max) on core {slowest.core}, the slowest (n = {slowest.wakes:,})"
    )


def _share(value: Estimate) -> str:
    return f"{value.value:.1%} [{value.low:.1%}, {value.high:.1%}] (95 %, n = {value.n} parts)"


def _time(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{three_digits(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"
