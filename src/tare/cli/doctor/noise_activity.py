"""Check what ran on the machine while the probe measured: by differences of the kernel's cumulative counters.

Samples, such as those of `ps`, miss short bursts; cumulative counters do not (METHOD.md section 4).
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tare.cli.doctor.noise_check import Check, KernelFiles, NoiseState, disturbs, note, quiet
from tare.cli.doctor.quiet import QUIET
from tare.model.text import printable
from tare.system.counters.scheduling import throttling_in, times_in
from tare.system.node.process_stat import LAST_FIELD, TICKS_PER_S, fields_of

FEW: Final = 4
MANY_INTERRUPTS_PER_S: Final = 100
MANY_TICKS_PER_S: Final = 20
"""A core whose timer is stopped has one tick a second; with an ordinary kernel it has 100 to 1,000."""
DAEMONS: Final = (
    "dockerd", "containerd", "containerd-shim", "docker-proxy", "conmon", "crio", "kubelet", "kube-proxy",
    "kube-apiserver", "etcd", "flanneld", "calico-node", "calico-felix", "bird", "weaver", "ovs-vswitchd",
    "cri-dockerd",
)  # fmt: skip
"""Programs that serve containers, by the first 15 characters that the kernel keeps of a name."""
_KERNEL_THREAD: Final = re.compile(r"^(kworker|ksoftirqd|migration|kswapd|kcompactd|rcu_\w+|irq)[/:0-9].*|^irq/.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The machine's counters at one moment: CPU times in seconds, processes by their ID and start."""

    at_s: float
    busy_s: float = 0.0
    steal_s: float = 0.0
    own_s: float = 0.0
    processes: Mapping[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    interrupts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    vmstat: Mapping[str, int] = field(default_factory=dict)
    throttled_s: float = 0.0
    hot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Two readings of the counters of a machine, the cores that the probe used, and the machine's files."""

    machine: KernelFiles
    before: Counters
    after: Counters
    cores: tuple[int, ...]

    @property
    def elapsed_s(self) -> float:
        """Return the time between the readings."""
        return max(self.after.at_s - self.before.at_s, 1e-9)

    def grown(self, name: str) -> int:
        """Return the growth of a counter of /proc/vmstat."""
        return self.after.vmstat.get(name, 0) - self.before.vmstat.get(name, 0)

    def used(self) -> Counter[str]:
        """Return the CPU time in seconds that other processes used, by their names."""
        used: Counter[str] = Counter()
        for key, (name, total_s) in self.after.processes.items():
            if key[0] != os.getpid():
                used[name] += total_s - self.before.processes.get(key, ("", 0.0))[1]  # type: ignore[assignment]
        return Counter({name: value for name, value in used.items() if value > 0})


def read(machine: KernelFiles) -> Counters:
    """Return the counters of this moment; takes a millisecond for a hundred processes."""
    busy_s, steal_s, _ = times_in(machine.text("proc/stat"))
    interrupts, devices = _interrupts(machine.text("proc/interrupts"))
    hot = sum(
        machine.number(path) or 0 for path in machine.paths("sys/devices/system/cpu/cpu*/thermal_throttle/*_count")
    )
    return Counters(
        at_s=time.monotonic(),
        busy_s=busy_s,
        steal_s=steal_s,
        own_s=sum(os.times()[:4]),
        processes=_processes(machine),
        interrupts=interrupts,
        devices=devices,
        vmstat=machine.table("proc/vmstat"),
        throttled_s=throttling_in(machine.text(f"{_own_group(machine)}/cpu.stat")).get("throttled_s", 0.0),
        hot=hot,
    )


def _processes(machine: KernelFiles) -> dict[tuple[int, int], tuple[str, float]]:
    """Return each process's name and CPU time, by its ID and start: IDs are used again."""
    found = {}
    for entry in os.scandir(machine.root / "proc"):
        if entry.name.isdigit():
            try:
                text = machine.text(f"proc/{entry.name}/stat")
            except PermissionError:  # hidepid
                continue
            if fields := fields_of(text):
                name = text.partition("(")[2].rpartition(")")[0]
                used_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
                found[int(entry.name), int(fields[LAST_FIELD])] = (_name_of(name), used_s)
    return found


def _name_of(command: str) -> str:
    kernel = _KERNEL_THREAD.match(command)
    return printable((kernel[1] or "irq") if kernel else command)


def _interrupts(text: str) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the counts per core of each line of /proc/interrupts, and the lines' descriptions."""
    first, *lines = text.splitlines() or [""]
    cores, counts, devices = len(first.split()), {}, {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) >= cores and all(word.isdigit() for word in words[:cores]):
            counts[name.strip()] = tuple(map(int, words[:cores]))
            devices[name.strip()] = printable(" ".join(words[cores:]))
    return counts, devices


def _own_group(machine: KernelFiles) -> str:
    """Return the folder of the cgroup that may throttle us."""
    for line in machine.text("proc/self/cgroup").splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "cpu" in controllers.split(","):
            return f"sys/fs/cgroup/{controllers}{path}"
        if number == "0" and (machine.root / f"sys/fs/cgroup{path}/cpu.stat").exists():
            return f"sys/fs/cgroup{path}"
    return "sys/fs/cgroup"


def other_programs(span: Span) -> Check:
    """Check the CPU time of all other programs, and name those that used the most."""
    after, before = span.after, span.before
    others = max(0.0, after.busy_s - before.busy_s - (after.own_s - before.own_s)) / span.elapsed_s
    shares = [(each, value / span.elapsed_s) for each, value in span.used().most_common(FEW)]
    rest = others - sum(value for _, value in shares)
    if shares and rest > QUIET / 10:
        shares.append(("the rest, with programs that have ended and interrupts", rest))
    listed = ", ".join(f"{each} {value:.1%}" for each, value in shares)
    found = f"{others:.1%} of a core" + (f": {listed}" if listed else "")
    if others <= QUIET:
        return quiet(found=found)
    effect = f"{others / len(span.cores):.1%} of the cores' time"
    return disturbs(
        found=found, effect=effect, remedy="end or stop them while a study runs",
        rights="user for your own programs, else root",
    )  # fmt: skip


def container_daemons(span: Span) -> Check:
    """Check the CPU time of daemons that serve containers: a cost of the environment while a job runs, else noise."""
    running = Counter(each for each, _ in span.after.processes.values())
    known = {each[:15] for each in DAEMONS}
    found = [each for each in running if each in known]
    if not found:
        return quiet(found="none run")
    used = span.used()
    share = sum(used[each] for each in found) / span.elapsed_s
    listed = ", ".join(
        f"{each} {used[each] / span.elapsed_s:.1%}" for each in sorted(found, key=lambda each: -used[each])
    )
    if share <= QUIET:
        return quiet(found=f"{listed} of a core")
    return disturbs(
        found=f"{listed} of a core, though no study of tare runs", effect="",
        remedy="stop containers that are not part of the study; on a Kubernetes node, drain it (kubectl drain)",
        rights="root",
    )  # fmt: skip


def steal(span: Span) -> Check:
    """Check the time that the host of a virtual machine gave to others."""
    share = (span.after.steal_s - span.before.steal_s) / span.elapsed_s / len(span.cores)
    if share <= QUIET / 10:
        return quiet(found=f"{share:.2%} of the cores' time; a host may hide more")
    return Check(
        state=NoiseState.DISTURBS if share > QUIET else NoiseState.NOTE, found="the host runs others on these cores",
        effect=f"{share:.1%} of the cores' time", remedy="a virtual machine with dedicated cores",
        rights="the host's administrator",
    )  # fmt: skip


def quota(span: Span) -> Check:
    """Check that no cgroup limits the CPU time of tare's own processes."""
    folder = _own_group(span.machine)
    cores = _quota_cores(span.machine, folder)
    throttled_s = span.after.throttled_s - span.before.throttled_s
    if cores is None and throttled_s <= 0:
        return quiet(found="none")
    found = "a cgroup above this one" if cores is None else f"{cores:g} cores for all processes of this cgroup"
    return disturbs(
        found=found,
        effect=f"stopped for {throttled_s / span.elapsed_s:.1%} of the time",
        remedy="start tare outside of the container or slice that limits it", rights="user, or root",
    )  # fmt: skip


def _quota_cores(machine: KernelFiles, folder: str) -> float | None:
    """Return the CPU quota of a cgroup in cores, v2 or v1; None without one."""
    quota, _, period = machine.text(f"{folder}/cpu.max").partition(" ")
    if not quota:
        quota, period = (machine.text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def timer(span: Span) -> Check:
    """Check how often the kernel's timer interrupts a core that works."""
    config = span.machine.kernel_config()
    rate, mode = config.get("CONFIG_HZ", ""), "NO_HZ_FULL" if config.get("CONFIG_NO_HZ_FULL") == "y" else ""
    per_s = max(_grown_per_core(span, "LOC"), default=0.0)
    found = f"CONFIG_HZ={rate or 'not told'}" + (f", {mode} is built in" if mode else "")
    effect = f"{per_s:,.0f} timer interrupts per second on the core with the most"
    if per_s <= MANY_TICKS_PER_S:
        return quiet(found=found, effect=effect)
    return note(
        found=found, effect=effect,
        remedy="boot with nohz_full=CORES (a kernel with NO_HZ_FULL)", rights="root and a reboot",
    )  # fmt: skip


def device_interrupts(span: Span) -> Check:
    """Check how often devices interrupt the cores that ranks run on."""
    lines = filter(str.isdigit, span.after.interrupts)
    rates = Counter({line: round(sum(_grown_per_core(span, line))) for line in lines})
    total = sum(rates.values())
    listed = ", ".join(
        f"{span.after.devices[line].split()[-1] if span.after.devices[line] else line} {rate:,}"
        for line, rate in rates.most_common(2) if rate
    )  # fmt: skip
    found = f"{total:,} per second on these cores" + (f" ({listed})" if listed else "")
    if total <= MANY_INTERRUPTS_PER_S * len(span.cores):
        return quiet(found=found)
    return disturbs(
        found=found,
        remedy="move them to cores without ranks: /proc/irq/NUMBER/smp_affinity_list; irqbalance with banned CPUs",
        rights="root",
    )  # fmt: skip


def swap(span: Span) -> Check:
    """Check that no memory is swapped."""
    used_kib = sum(
        int(line.split()[3]) for line in span.machine.text("proc/swaps").splitlines()[1:] if len(line.split()) > 3
    )
    moved = span.grown("pswpin") + span.grown("pswpout")
    if not used_kib and not moved:
        return quiet(found="none in use")
    return Check(
        state=NoiseState.DISTURBS if moved else NoiseState.NOTE, found=f"{used_kib / 1024:,.0f} MiB in use",
        effect=f"{moved / span.elapsed_s:,.0f} pages per second read or written", remedy="free memory, then swapoff -a",
        rights="root",
    )  # fmt: skip


def page_cache(span: Span) -> Check:
    """Check that the kernel did not have to free pages while the probe ran."""
    stalls = sum(
        span.grown(each) for each in ("allocstall_normal", "allocstall_movable", "allocstall_dma32", "compact_stall")
    )
    scanned = span.grown("pgscan_kswapd") + span.grown("pgscan_direct")
    if not stalls and not scanned:
        return quiet(found="no page had to be freed")
    return Check(
        state=NoiseState.DISTURBS if stalls else NoiseState.NOTE, found="the kernel frees pages of the page cache",
        effect=f"{scanned / span.elapsed_s:,.0f} pages scanned per second, {stalls} allocations had to wait",
        remedy="end programs that read or write large files; sync; echo 1 > /proc/sys/vm/drop_caches", rights="root",
    )  # fmt: skip


def overheating(span: Span) -> Check:
    """Check that no core was slowed because it was hot."""
    if not span.machine.paths("sys/devices/system/cpu/cpu*/thermal_throttle/*_count"):
        return note(found="the kernel does not count it here")
    grown = span.after.hot - span.before.hot
    if not grown:
        return quiet(found="no core was slowed because it was hot")
    return disturbs(
        found="cores were slowed because they were hot", effect=f"{grown} times",
        remedy="a fixed, lower frequency (CPU governor), or better cooling", rights="root",
    )  # fmt: skip


def _grown_per_core(span: Span, line: str) -> list[float]:
    """Return the interrupts per second of a line on each core that the probe used."""
    after = span.after.interrupts.get(line, ())
    pairs = enumerate(zip(span.before.interrupts.get(line, after), after, strict=False))
    return [(last - first) / span.elapsed_s for core, (first, last) in pairs if core in span.cores]


ACTIVITIES: Final[Mapping[str, Callable[[Span], Check]]] = {
    "other programs": other_programs,
    "container daemons": container_daemons,
    "steal": steal,
    "CPU quota on tare": quota,
    "timer": timer,
    "device interrupts": device_interrupts,
    "swap": swap,
    "memory pressure": page_cache,
    "temperature": overheating,
}
"""Each check by the name that it prints; docs/noise.md describes every one."""
