"""Read counters before and after a launch: interfaces, TCP, CPU. Cumulative ones, so that no burst is missed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.host.devices import CLASSES
from tare.model import InterfaceTraffic
from tare.node import Node, Watch
from tare.node.cgroups import Group

TCP_COUNTERS: Final = (
    "TcpRetransSegs",
    "TcpExtTCPTimeouts",
    "TcpExtTCPLostRetransmit",
    "TcpExtTCPSACKReorder",
    "TcpExtTCPDSACKRecv",
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPRcvQDrop",
)
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PORT_COUNTERS: Final = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")
THROTTLED_PER_S: Final = {"throttled_time": 1e9, "throttled_usec": 1e6}
"""Units a second of what `cpu.stat` tells in cgroup v1 and v2."""
READ_BYTES: Final = 65536
PORT_UNIT: Final = 4
"""Bytes that a port counts its data in (InfiniBand specification, PortCounters)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The watches of one host (a node, or a pod on it) and the process in whose network its TCP counters are read."""

    node: Node
    pid: int
    watches: tuple[Watch, ...]
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters at one moment."""

    interfaces: Mapping[tuple[int, str], tuple[int, int, int, int]] = field(default_factory=dict)
    tcp: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    busy_s: float = 0.0
    steal_s: float = 0.0
    softirq_s: float = 0.0
    job_s: float = 0.0
    ours_s: float = 0.0
    throttled_s: float | None = None


def read(places: Sequence[Place], site_s: float = 0.0) -> Reading:
    """Return all counters now; costs well below a millisecond for two nodes.

    `site_s` is the CPU time of all that the cluster runs for the study, the job and its launcher among it.
    """
    interfaces: dict[tuple[int, str], tuple[int, int, int, int]] = {}
    tcp: dict[int, Mapping[str, int]] = {}
    seen: set[int] = set()
    for place in places:
        for watch in place.watches:
            if watch.read is not None:
                interfaces[watch.pid, watch.interface] = watch.read()
            elif ":" in watch.interface:
                interfaces.update(port_counters(watch))
            elif watch.pid not in seen:
                seen.add(watch.pid)
                interfaces.update({(watch.pid, name): v for name, v in interface_counters(watch.pid).items()})
        tcp[place.pid] = tcp_counters(place.pid)
    nodes = {place.node.group.path: place.node for place in places}
    job_s = sum(node.group.usage_s() for node in nodes.values())
    busy_s, steal_s, softirq_s = machine_times()
    ours_s = max(site_s, job_s) + time.process_time()
    return Reading(
        interfaces=interfaces,
        tcp=tcp,
        busy_s=busy_s,
        steal_s=steal_s,
        softirq_s=softirq_s,
        job_s=job_s,
        ours_s=ours_s,
        throttled_s=throttled_s(node.group for node in nodes.values()),
    )


def joined(sections: Sequence[tuple[Reading, Reading]]) -> tuple[Reading, Reading]:
    """Return two readings between which counters grew as in all sections together, without what was between these."""
    first, last = sections[0][0], sections[0][1]
    for before, after in sections[1:]:
        last = Reading(
            interfaces={
                key: tuple(_grown(values, before.interfaces[key], after.interfaces[key]))  # type: ignore[misc]
                for key, values in last.interfaces.items()
                if key in before.interfaces and key in after.interfaces
            },
            tcp={
                pid: {
                    name: value + after.tcp[pid][name] - before.tcp[pid][name]
                    for name, value in values.items()
                    if name in before.tcp[pid] and name in after.tcp[pid]
                }
                for pid, values in last.tcp.items()
            },
            busy_s=last.busy_s + after.busy_s - before.busy_s,
            steal_s=last.steal_s + after.steal_s - before.steal_s,
            softirq_s=last.softirq_s + after.softirq_s - before.softirq_s,
            job_s=last.job_s + after.job_s - before.job_s,
            ours_s=last.ours_s + after.ours_s - before.ours_s,
            throttled_s=None
            if last.throttled_s is None or before.throttled_s is None or after.throttled_s is None
            else last.throttled_s + after.throttled_s - before.throttled_s,
        )
    return first, last


def _grown(values: Iterable[int], before: Iterable[int], after: Iterable[int]) -> list[int]:
    return [value + a - b for value, b, a in zip(values, before, after, strict=True)]


def traffic(places: Iterable[Place], before: Reading, after: Reading) -> tuple[InterfaceTraffic, ...]:
    """Return what each watched interface carried between two readings.

    Hosts on one machine may share an adapter's port: what it carried is then shared out among them.
    """
    places = tuple(places)
    sharing = Counter((watch.pid, watch.interface) for place in places for watch in place.watches)
    found = []
    for place in places:
        for watch in place.watches:
            key = (watch.pid, watch.interface)
            if key not in before.interfaces or key not in after.interfaces:
                continue
            pairs = zip(before.interfaces[key], after.interfaces[key], strict=True)
            values = [(b - a) // sharing[key] for a, b in pairs]
            found.append(
                InterfaceTraffic(
                    node=place.host or place.node.name,
                    interface=watch.interface,
                    role=watch.role,
                    rx_bytes=values[0],
                    rx_packets=values[1],
                    tx_bytes=values[2],
                    tx_packets=values[3],
                )
            )
    return tuple(found)


def counters(before: Reading, after: Reading) -> dict[str, float]:
    """Return the TCP counters' growth, summed over nodes; only those that grew."""
    grown: dict[str, float] = {}
    for pid, values in after.tcp.items():
        for name, value in values.items():
            growth = value - before.tcp.get(pid, {}).get(name, value)
            if growth:
                grown[name] = grown.get(name, 0) + growth
    return grown


def noise(before: Reading, after: Reading) -> dict[str, float]:
    """Return the machine's cores and the CPU seconds used between two readings: by others, the job, steal, softirq.

    Others are all but what the cluster runs for the study and this program itself. Softirq is not counted as theirs:
    where the kernel accounts interrupts by time no process has it, and the job's own messages cause most of it (an
    overlay more than others). `throttled_s` is there where the kernel tells how long it held containers back.
    """
    job_s, ours_s = after.job_s - before.job_s, after.ours_s - before.ours_s
    softirq_s = after.softirq_s - before.softirq_s
    found = {
        "cores": float(os.cpu_count() or 0),
        "background_s": max(0.0, after.busy_s - before.busy_s - softirq_s - ours_s),
        "job_s": job_s,
        "steal_s": after.steal_s - before.steal_s,
        "softirq_s": softirq_s,
    }
    if before.throttled_s is not None and after.throttled_s is not None:
        found["throttled_s"] = after.throttled_s - before.throttled_s
    return found


def interface_counters(pid: int) -> dict[str, tuple[int, int, int, int]]:
    """Return (rx bytes, rx packets, tx bytes, tx packets) by interface, in a process's network namespace."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for line in _text(f"/proc/{pid}/net/dev").splitlines()[2:]:
        name, _, values = line.partition(":")
        v = values.split()
        found[name.strip()] = (int(v[0]), int(v[1]), int(v[8]), int(v[9]))
    return found


def port_counters(watch: Watch, classes: Path = CLASSES) -> dict[tuple[int, str], tuple[int, int, int, int]]:
    """Return the same of an adapter's port, nothing where it cannot be read."""
    adapter, _, number = watch.interface.partition(":")
    folder = classes / "infiniband" / adapter / "ports" / number / "counters"
    texts = [_text(str(folder / name)).strip() for name in PORT_COUNTERS]
    if not all(text.isdigit() for text in texts):
        return {}
    received, packets_in, sent, packets_out = map(int, texts)
    key = (watch.pid, watch.interface)
    return {key: (received * PORT_UNIT, packets_in, sent * PORT_UNIT, packets_out)}


def tcp_counters(pid: int) -> dict[str, int]:
    """Return the TCP counters that tell drops from reordering, by their nstat names."""
    found: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = _text(f"/proc/{pid}/net/{file}").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            prefix = names.partition(":")[0]
            of_prefix = dict(zip(names.split()[1:], values.split()[1:], strict=False))
            for counter in TCP_COUNTERS:
                value = of_prefix.get(counter.removeprefix(prefix)) if counter.startswith(prefix) else None
                if value is not None:
                    found[counter] = int(value)
    return found


def throttled_s(groups: Iterable[Group]) -> float | None:
    """Return how long CPU quotas have held back the processes of groups and those below; None if nothing tells."""
    total_s, known = 0.0, False
    for group in groups:
        tops = zip(group.hierarchies, group.folders, strict=True)
        for top in (top for each, top in tops if "cpu" in each.controllers or each.version == 2):
            for folder, _, files in os.walk(top):
                own_s = throttled_in(_text(f"{folder}/cpu.stat")) if "cpu.stat" in files else None
                if own_s is not None:
                    total_s, known = total_s + own_s, True
    return total_s if known else None


def throttled_in(stat: str) -> float | None:
    """Return the throttled time of a `cpu.stat`: nanoseconds in cgroup v1, microseconds in v2."""
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name in THROTTLED_PER_S and value.isdigit():
            return int(value) / THROTTLED_PER_S[name]
    return None


def machine_times() -> tuple[float, float, float]:
    """Return the machine's busy, steal and softirq CPU time, in seconds since boot."""
    values = [int(v) / TICKS_PER_S for v in _text("/proc/stat").split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = values
    return user + nice + system + irq + softirq, steal, softirq


def _text(path: str) -> str:
    """Return what a file of the kernel tells, nothing where it cannot be read. Thousands are read in a round."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return b"".join(iter(lambda: os.read(file, READ_BYTES), b"")).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)
