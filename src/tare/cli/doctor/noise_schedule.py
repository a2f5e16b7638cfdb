"""Check what the machine's schedulers, cron and systemd, will start soon."""

from __future__ import annotations

import json
import time
from typing import Final

from tare.cli.doctor.noise_check import Check, KernelFiles, NoiseState, quiet
from tare.model.text import printable
from tare.system import process

SOON_S: Final = 3600.0
FEW: Final = 3
LIMIT_S: Final = 5.0
TABLES: Final = ("etc/crontab", "etc/cron.d/*", "var/spool/cron/crontabs/*", "var/spool/cron/*")
NAME: Final = "jobs due soon"


def due_soon(machine: KernelFiles, names: frozenset[str]) -> Check:
    """Check which timers of systemd are due within an hour, and whether a cron daemon has jobs.

    `names` are the programs that run.
    """
    timers = due_timers()
    listed = ", ".join(f"{name} in {left_s / 60:.0f} min" for name, left_s in timers[:FEW])
    jobs, hidden = cron_jobs(machine) if names & {"cron", "crond", "anacron"} else (0, False)
    parts = (listed, f"cron has {jobs} jobs" if jobs else "", "some tables of cron may not be read" if hidden else "")
    found = "; ".join(part for part in parts if part)
    if not found:
        return quiet(found="none: no timer within an hour, and no job of cron")
    state = NoiseState.UNREAD if hidden and not (timers or jobs) else NoiseState.NOTE
    return Check(
        state=state, found=found, rights="root",
        remedy="systemctl stop NAME.timer while a study runs; `systemctl list-timers` and `crontab -l` list all",
    )  # fmt: skip


def due_timers() -> list[tuple[str, float]]:
    """Return systemd's timers that are due within an hour, with the seconds left; the first one first."""
    if (program := process.find("systemctl")) is None:
        return []
    answer = process.run((program, "list-timers", "--output=json"), check=False, timeout_s=LIMIT_S)
    return parse_timers(answer.stdout, time.time()) if answer.status == 0 else []


def parse_timers(text: str, now_s: float) -> list[tuple[str, float]]:
    """Parse the JSON of `systemctl list-timers`: objects with `unit` and `next`, in microseconds since 1970."""
    try:
        entries = json.loads(text)
    except ValueError:
        return []
    due = []
    for entry in entries if isinstance(entries, list) else ():
        at_us, unit = (entry.get("next"), entry.get("unit")) if isinstance(entry, dict) else (None, None)
        if isinstance(at_us, int) and isinstance(unit, str) and 0 <= at_us * 1e-6 - now_s <= SOON_S:
            due.append((printable(unit), at_us * 1e-6 - now_s))
    return sorted(due, key=lambda each: each[1])


def cron_jobs(machine: KernelFiles) -> tuple[int, bool]:
    """Return the number of jobs in cron's tables, and whether some table may not be read."""
    jobs, hidden = 0, False
    for path in (path for pattern in TABLES for path in machine.paths(pattern)):
        try:
            lines = machine.text(path).splitlines()
        except PermissionError:
            hidden = True
            continue
        jobs += sum(is_job(line) for line in lines)
    return jobs, hidden


def is_job(line: str) -> bool:
    """Tell whether a line of a cron table starts something: it begins with a time or with `@daily`."""
    return line.strip()[:1] in {*"0123456789*@"} and len(line.split()) > 1
