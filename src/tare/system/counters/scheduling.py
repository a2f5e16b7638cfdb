"""Read how cores were shared and waited for: CPU times, context switches, softirqs of the machine, throttling, PSI."""

from __future__ import annotations

import os
from typing import Final

from tare.system.node.kernel_files import read_text

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PRESSURES: Final = ("cpu", "memory", "io")
"""The resources for which the kernel counts waiting (PSI), in files of the machine and of cgroups."""
US_PER_S: Final = 1e6
TIMES: Final = ("busy_s", "steal_s", "softirq_s")
"""The names of the CPU times of a machine."""
USAGE: Final = "job_s"
"""The name of the CPU time of a cgroup."""
THROTTLED_PER_S: Final = {"throttled_time": 1e9, "throttled_usec": 1e6}
"""Units per second of the throttled time in `cpu.stat`, in cgroup v1 and v2."""
SOFTIRQS: Final = {"softirq_net_tx": 3, "softirq_net_rx": 4}
"""The columns of the line `softirq` of /proc/stat, after their sum (linux/interrupt.h); the kernel only adds others."""


def machine_times() -> tuple[float, float, float]:
    """Return the machine's busy, steal and softirq CPU time, in seconds since boot."""
    return times_in(read_text("/proc/stat"))


def times_in(stat: str) -> tuple[float, float, float]:
    """Return busy, steal and softirq CPU time in seconds, from the text of /proc/stat."""
    values = [int(v) / TICKS_PER_S for v in stat.split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = values
    return user + nice + system + irq + softirq, steal, softirq


def switches_in(stat: str) -> dict[str, int]:
    """Return how often the machine switched between threads, from the text of /proc/stat."""
    _, found, rest = stat.partition("\nctxt ")
    return {"context_switches": int(rest.split("\n", 1)[0])} if found else {}


def softirqs_in(stat: str) -> dict[str, int]:
    """Return how often softirqs sent and received packets, from the text of /proc/stat.

    These are the sums over cores of /proc/softirqs, which is therefore not read.
    """
    values = stat.partition("\nsoftirq ")[2].split("\n", 1)[0].split()
    return {name: int(values[at]) for name, at in SOFTIRQS.items() if at < len(values)}


def machine_in(stat: str) -> dict[str, float]:
    """Return the CPU times, context switches and softirqs in the text of /proc/stat by name."""
    return dict(zip(TIMES, times_in(stat), strict=True)) | switches_in(stat) | softirqs_in(stat)


def nanoseconds_in(usage: str) -> dict[str, float]:
    """Return a cgroup's CPU time in seconds, from the text of its `cpuacct.usage`, 0 if that has none."""
    return {USAGE: int(usage) / 1e9 if usage.strip().isdigit() else 0.0}


def usage_in(stat: str) -> dict[str, float]:
    """Return a cgroup's CPU time in seconds, from the text of its `cpu.stat` (cgroup v2), 0 if that has none."""
    text = stat.partition("usage_usec ")[2].split("\n", 1)[0]
    return {USAGE: int(text) / 1e6 if text.strip().isdigit() else 0.0}


def throttling_in(stat: str) -> dict[str, float]:
    """Return the seconds and the periods for which a quota stopped a cgroup, from the text of its `cpu.stat`.

    Empty if the kernel does not report it. Times are in nanoseconds in cgroup v1, in microseconds in v2.
    """
    found: dict[str, float] = {}
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name in THROTTLED_PER_S and value.isdigit():
            found["throttled_s"] = int(value) / THROTTLED_PER_S[name]
        elif name == "nr_throttled" and value.isdigit():
            found["throttled_periods"] = int(value)
    return found if "throttled_s" in found else {}


def pressure_in(kind: str, text: str) -> dict[str, float]:
    """Return the seconds in which some process waited for a resource, from the text of a pressure file."""
    for line in text.splitlines():
        if line.startswith("some "):
            _, found, total = line.partition("total=")
            if found and total.strip().isdigit():
                return {f"{kind}_pressure_s": int(total) / US_PER_S}
    return {}
