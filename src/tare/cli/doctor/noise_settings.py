"""Check the machine's settings that disturb measurements: power, cores, memory, clock. They are read, never changed.

The list follows pyperf's `system` command (https://pyperf.readthedocs.io/en/latest/system.html) and docs/noise.md.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from tare.cli.doctor.noise_check import Check, KernelFiles, disturbs, note, quiet
from tare.system.topology import parse_list

CPU: Final = "sys/devices/system/cpu"
SLOW_CLOCK_S: Final = 200e-9
"""A reading that takes longer is a system call; through the vDSO and the TSC it takes 20 to 60 ns."""
LONG_WAKE_US: Final = 10
"""C-states that take longer to leave than a short message takes to arrive."""


def governor(machine: KernelFiles) -> Check:
    """Check that the clock frequency of the cores is fixed."""
    texts = [machine.text(path) for path in machine.paths(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor")]
    names = Counter(text for text in texts if text)
    if not names:
        return note(found="this machine does not control the frequency (virtual, or fixed)")
    listed = ", ".join(f"{each} on {count}" if len(names) > 1 else each for each, count in names.items())
    if set(names) == {"performance"}:
        return quiet(found=listed)
    return disturbs(
        found=f"{listed}: the frequency follows the load",
        remedy="cpupower frequency-set --governor performance", rights="root",
    )  # fmt: skip


def turbo(machine: KernelFiles) -> Check:
    """Check that cores cannot run faster while others are idle."""
    no_turbo, boost = machine.number(f"{CPU}/intel_pstate/no_turbo"), machine.number(f"{CPU}/cpufreq/boost")
    if no_turbo is None and boost is None:
        return note(found="this machine does not control it (virtual, or without it)")
    if no_turbo == 1 or (no_turbo is None and boost == 0):
        return quiet(found="off")
    file = f"/{CPU}/cpufreq/boost" if no_turbo is None else f"/{CPU}/intel_pstate/no_turbo"
    return disturbs(
        found="on: the frequency depends on temperature and on what other cores do",
        remedy=f"echo {0 if no_turbo is None else 1} > {file}", rights="root",
    )  # fmt: skip


def smt(machine: KernelFiles) -> Check:
    """Check that no two hardware threads share a core."""
    if not (active := machine.text(f"{CPU}/smt/active")):
        return note(found="the kernel does not tell; a virtual machine's host may use it")
    if active == "0":
        return quiet(found="off, or hidden by the host of a virtual machine")
    return disturbs(
        found="on: two threads of a core slow each other down",
        remedy="bind one rank to each core (binding: disjoint, map_by: core), "
        f"or echo off > /{CPU}/smt/control", rights="user, or root",
    )  # fmt: skip


def isolation(machine: KernelFiles) -> Check:
    """Check whether cores are kept free of other programs and of the timer."""
    isolated = machine.text(f"{CPU}/isolated")
    tickless = machine.text(f"{CPU}/nohz_full").replace("(null)", "")
    ours = os.sched_getaffinity(0)
    if isolated and ours & {*parse_list(isolated)}:
        found = f"isolcpus={isolated}" + (
            f", nohz_full={tickless}" if tickless else ", the timer is not stopped on them"
        )
        return quiet(found=found)
    found = f"isolcpus={isolated}, but tare may not use these cores" if isolated else "none"
    return note(
        found=f"{found}: the kernel may run anything on the cores of ranks",
        remedy="boot with isolcpus=CORES nohz_full=CORES rcu_nocbs=CORES, or leave a core of each socket without ranks",
        rights="root and a reboot",
    )  # fmt: skip


def affinity(machine: KernelFiles) -> Check:
    """Check how many of the machine's cores tare may use."""
    online, ours = parse_list(machine.text(f"{CPU}/online")), sorted(os.sched_getaffinity(0))
    if not online or len(ours) >= len(online):
        return quiet(found=f"all {len(ours)}")
    return note(
        found=f"{len(ours)} of {len(online)}: other jobs may use the rest, and with it caches and memory",
        remedy="ask for whole nodes (Slurm: --exclusive)", rights="user",
    )  # fmt: skip


def huge_pages(machine: KernelFiles) -> Check:
    """Check that the kernel does not move the pages of a program to make huge ones."""
    text = machine.text("sys/kernel/mm/transparent_hugepage/enabled")
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen in ("", "never", "madvise"):
        return quiet(found=chosen or "this kernel has none")
    return disturbs(
        found=f"{chosen}: the kernel copies pages while the program runs, in some launches",
        remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", rights="root",
    )  # fmt: skip


def numa_balancing(machine: KernelFiles) -> Check:
    """Check that the kernel does not migrate pages between NUMA nodes."""
    nodes = len(machine.paths("sys/devices/system/node/node[0-9]*"))
    value = machine.number("proc/sys/kernel/numa_balancing")
    if not value:
        return quiet(found="off" if value == 0 else "this kernel has none")
    if nodes < 2:
        return quiet(found="on, but there is one NUMA node")
    return disturbs(
        found=f"on, with {nodes} NUMA nodes: page faults to learn who uses a page",
        remedy="sysctl kernel.numa_balancing=0, and bind ranks to NUMA nodes", rights="root",
    )  # fmt: skip


def perf_sampling(machine: KernelFiles) -> Check:
    """State the rate at which a profiler may interrupt."""
    rate = machine.number("proc/sys/kernel/perf_event_max_sample_rate")
    if rate is None:
        return note(found="this kernel has none")
    return note(
        found=f"up to {rate:,} interrupts per second, only while a profiler runs",
        remedy="run no profiler beside a study; sysctl kernel.perf_event_max_sample_rate=1 keeps all from it",
        rights="root",
    )  # fmt: skip


def address_randomisation(machine: KernelFiles) -> Check:
    """State whether addresses differ from launch to launch; it is named and never recommended to be changed."""
    value = machine.number("proc/sys/kernel/randomize_va_space")
    words = {0: "off: every launch has the same addresses, and one effect of them stays in all", None: "not told"}
    found = words.get(value, "on: addresses differ between launches, and averaging over launches removes the effect")
    return note(found=found)


def idle_states(machine: KernelFiles) -> Check:
    """Check that an idle core wakes up soon; the measured wake-up stands among the measurements."""
    states = [
        (machine.number(f"{folder}/latency") or 0, machine.text(f"{folder}/name"))
        for folder in machine.paths(f"{CPU}/cpu0/cpuidle/state[0-9]*")
        if machine.number(f"{folder}/disable") != 1
    ]
    driver = machine.text(f"{CPU}/cpuidle/current_driver")
    if not states:
        return note(found="the kernel controls none (virtual, or idle=poll)")
    latency, deepest = max(states)
    found = f"deepest {deepest} takes {latency} us to leave ({driver})"
    if latency <= LONG_WAKE_US:
        return quiet(found=found)
    return disturbs(
        found=f"{found}: a rank that slept while waiting starts late",
        remedy=f"cpupower idle-set --disable-by-latency {LONG_WAKE_US}, or ranks that poll (the default of MPIs)",
        rights="root",
    )  # fmt: skip


def clock_source(machine: KernelFiles) -> Check:
    """Check that a reading of the clock needs no system call, and measure it."""
    folder = "sys/devices/system/clocksource/clocksource0"
    source = machine.text(f"{folder}/current_clocksource") or "not told"
    cost_s = clock_cost_s()
    effect = f"a reading takes {cost_s * 1e9:.0f} ns, Python's call included"
    if cost_s <= SLOW_CLOCK_S:
        return quiet(found=source, effect=effect)
    return disturbs(
        found=f"{source}: each reading is a system call or an exit to the host",
        effect=effect, remedy=f"echo tsc > /{folder}/current_clocksource, where available_clocksource names it",
        rights="root",
    )  # fmt: skip


def clock_cost_s(batches: int = 21, readings: int = 1000) -> float:
    """Return the median cost of a reading of the clock from Python, in seconds; an upper bound of that from C."""
    costs = []
    for _ in range(batches):
        start_ns = time.perf_counter_ns()
        for _ in range(readings):
            time.perf_counter_ns()
        costs.append((time.perf_counter_ns() - start_ns) / readings)
    return sorted(costs)[batches // 2] * 1e-9


def mitigations(machine: KernelFiles) -> Check:
    """State which mitigations of the CPU's flaws make system calls and context switches longer."""
    active, affected = [], []
    for path in machine.paths(f"{CPU}/vulnerabilities/*"):
        text, flaw = machine.text(path), path.rpartition("/")[2]
        if text.startswith("Mitigation"):
            active.append(flaw)
        elif text.startswith("Vulnerable"):
            affected.append(flaw)
    if not active and not affected:
        return note(found="none active")
    found = f"active: {', '.join(active) or 'none'}" + (f"; vulnerable: {', '.join(affected)}" if affected else "")
    return note(
        found=f"{found}. System calls take longer, the same in every environment; kernels "
        "before 5.16 add one for processes under seccomp",
        remedy="compare results only between machines with the same; the report's manifest has them",
        rights="user",
    )  # fmt: skip


SETTINGS: Final[Mapping[str, Callable[[KernelFiles], Check]]] = {
    "CPU governor": governor,
    "turbo": turbo,
    "multithreading (SMT)": smt,
    "isolated cores": isolation,
    "cores for tare": affinity,
    "C-states": idle_states,
    "clock source": clock_source,
    "transparent huge pages": huge_pages,
    "NUMA balancing": numa_balancing,
    "perf sampling": perf_sampling,
    "address randomisation": address_randomisation,
    "mitigations": mitigations,
}
"""Each check by the name that it prints; docs/noise.md describes every one."""
