"""Read counters of interfaces, TCP and CPU before and after a launch; cumulative ones, so that no burst is missed.

`read` is done on a node. Everything else works on values: `merged` puts those of several nodes together.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.host.devices import CLASSES
from tare.model import InterfaceTraffic
from tare.node import Node, Watch, unreadable
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
"""Units per second of the throttled time in `cpu.stat`, in cgroup v1 and v2."""
READ_BYTES: Final = 65536
PORT_UNIT: Final = 4
"""Bytes per unit of a port's data counters (InfiniBand specification, PortCounters)."""


Counts = tuple[int, int, int, int]
"""Bytes and packets received, bytes and packets sent."""
Key = tuple[str, int, str]
"""An interface: machine, process in its network namespace, name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWatch:
    """The watches of one host (a node, or a pod on it), and a process in the network namespace of its TCP counters."""

    node: Node
    pid: int
    watches: tuple[Watch, ...]
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A watched interface whose counters may not be read, and why."""

    node: str
    interface: str
    role: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterValues:
    """Counter values at one moment, of one node or of several; `machine` is the one that the CPU times are of.

    `unread` has the watched interfaces whose counters may not be read, with the reason.
    """

    interfaces: Mapping[Key, Counts] = field(default_factory=dict)
    unread: Mapping[Key, str] = field(default_factory=dict)
    tcp: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    machine: str = ""
    busy_s: float = 0.0
    steal_s: float = 0.0
    softirq_s: float = 0.0
    job_s: float = 0.0
    ours_s: float = 0.0
    throttled_s: float | None = None


def read(
    places: Sequence[HostWatch], count: Callable[[Watch], Counts] | None = None, *, job_s: float | None = None
) -> CounterValues:
    """Return the current values of all counters of one node's hosts; takes well below a millisecond.

    `count` returns the values of watches that their network counts itself. The node must have at least one host.
    `job_s` is the CPU time of the node's jobs where they have no cgroup.
    """
    node = places[0].node
    interfaces, unread = _read_interfaces(node, [watch for place in places for watch in place.watches], count)
    tcp: dict[tuple[str, int], Mapping[str, int]] = {}
    for place in places:
        if place.pid or node.is_machine:
            tcp[node.machine, place.pid] = tcp_counters(place.pid)
    busy_s, steal_s, softirq_s = machine_times()
    return CounterValues(
        interfaces=interfaces,
        unread=unread,
        tcp=tcp,
        machine=node.machine,
        busy_s=busy_s,
        steal_s=steal_s,
        softirq_s=softirq_s,
        job_s=node.group.usage_s() if job_s is None else job_s,
        throttled_s=throttled_s([node.group]),
    )


def _read_interfaces(
    node: Node, watches: Iterable[Watch], count: Callable[[Watch], Counts] | None
) -> tuple[dict[Key, Counts], dict[Key, str]]:
    """Return the values of all interfaces of a node's watches, and why some may not be read."""
    interfaces: dict[Key, Counts] = {}
    unread: dict[Key, str] = {}
    why_of: dict[int, str] = {}
    for watch in watches:
        why = ""
        if watch.by_network and count is not None:
            interfaces[key_of(node, watch)] = count(watch)
        elif ":" in watch.interface:
            if (values := port_counters(watch.interface)) is not None:
                interfaces[key_of(node, watch)] = values
            else:
                why = unreadable.of_port(watch.interface, PORT_COUNTERS)
        else:
            if watch.pid not in why_of:
                counted = interface_counters(watch.pid)
                interfaces.update({(node.machine, watch.pid, name): values for name, values in counted.items()})
                why_of[watch.pid] = "" if counted else unreadable.of_process(watch.pid)
            why = why_of[watch.pid]
        if why:
            unread[key_of(node, watch)] = why
    return interfaces, unread


def key_of(node: Node, watch: Watch) -> Key:
    """Return the key of a watch's counters among the interfaces of all nodes."""
    return node.machine, watch.pid, watch.interface


def merged(nodes: Sequence[CounterValues], site_s: float = 0.0) -> CounterValues:
    """Return the values of several nodes together; nodes on one machine have its CPU times in common.

    `site_s` is the CPU time of all processes of the study, including the job and its launcher.
    """
    machines = list({each.machine: each for each in nodes}.values())
    job_s = sum(each.job_s for each in nodes)
    throttled = [each.throttled_s for each in nodes if each.throttled_s is not None]
    return CounterValues(
        interfaces={key: values for each in nodes for key, values in each.interfaces.items()},
        unread={key: why for each in nodes for key, why in each.unread.items()},
        tcp={key: values for each in nodes for key, values in each.tcp.items()},
        busy_s=sum(each.busy_s for each in machines),
        steal_s=sum(each.steal_s for each in machines),
        softirq_s=sum(each.softirq_s for each in machines),
        job_s=job_s,
        ours_s=max(site_s, job_s) + time.process_time(),
        throttled_s=sum(throttled) if throttled else None,
    )


def joined(sections: Sequence[tuple[CounterValues, CounterValues]]) -> tuple[CounterValues, CounterValues]:
    """Return two readings whose difference is the growth during all sections, without the time between the sections."""
    first, last = sections[0][0], sections[0][1]
    for before, after in sections[1:]:
        last = CounterValues(
            interfaces={
                key: tuple(_grown(values, before.interfaces[key], after.interfaces[key]))  # type: ignore[misc]
                for key, values in last.interfaces.items()
                if key in before.interfaces and key in after.interfaces
            },
            unread={**last.unread, **before.unread, **after.unread},
            tcp={
                namespace: {
                    name: value + after.tcp[namespace][name] - before.tcp[namespace][name]
                    for name, value in values.items()
                    if name in before.tcp[namespace] and name in after.tcp[namespace]
                }
                for namespace, values in last.tcp.items()
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


def traffic(places: Iterable[HostWatch], before: CounterValues, after: CounterValues) -> tuple[InterfaceTraffic, ...]:
    """Return the traffic of each watched interface between two readings.

    Hosts on one machine may share an adapter's port; its traffic is then divided equally among them.
    """
    places = tuple(places)
    sharing = Counter(key_of(place.node, watch) for place in places for watch in place.watches)
    found = []
    for place in places:
        for watch in place.watches:
            key = key_of(place.node, watch)
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


def unread(places: Iterable[HostWatch], before: CounterValues, after: CounterValues) -> tuple[Unread, ...]:
    """Return the watched interfaces whose counters may not be read before or after a launch."""
    why_of = {**before.unread, **after.unread}
    if not why_of:
        return ()
    return tuple(
        Unread(
            node=place.host or place.node.name,
            interface=watch.interface,
            role=watch.role,
            why=why_of[key_of(place.node, watch)],
        )
        for place in places
        for watch in place.watches
        if key_of(place.node, watch) in why_of
    )


def counters(before: CounterValues, after: CounterValues) -> dict[str, float]:
    """Return the growth of TCP counters, summed over nodes; only those that grew."""
    grown: dict[str, float] = {}
    for namespace, values in after.tcp.items():
        for name, value in values.items():
            growth = value - before.tcp.get(namespace, {}).get(name, value)
            if growth:
                grown[name] = grown.get(name, 0) + growth
    return grown


def noise(before: CounterValues, after: CounterValues) -> dict[str, float]:
    """Return the number of cores and the CPU seconds between two readings: background load, job, steal, softirq.

    Background load excludes the study's processes and tare itself. It also excludes softirq: a kernel that accounts
    interrupt time separately attributes it to no process, and most of it is caused by the job's own messages (with an
    overlay more than without). `throttled_s` is present if the kernel reports how long it throttled containers.
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


def interface_counters(pid: int) -> dict[str, Counts]:
    """Return (rx bytes, rx packets, tx bytes, tx packets) by interface, in a process's network namespace.

    Process 0 is this one.
    """
    found: dict[str, Counts] = {}
    for line in _text(f"/proc/{pid or 'self'}/net/dev").splitlines()[2:]:
        name, _, values = line.partition(":")
        v = values.split()
        found[name.strip()] = (int(v[0]), int(v[1]), int(v[8]), int(v[9]))
    return found


def port_counters(port: str, classes: Path = CLASSES) -> Counts | None:
    """Return the same counters for an adapter's port (`mlx5_0:1`), None if they cannot be read."""
    adapter, _, number = port.partition(":")
    folder = classes / "infiniband" / adapter / "ports" / number / "counters"
    texts = [_text(str(folder / name)).strip() for name in PORT_COUNTERS]
    if not all(text.isdigit() for text in texts):
        return None
    received, packets_in, sent, packets_out = map(int, texts)
    return received * PORT_UNIT, packets_in, sent * PORT_UNIT, packets_out


def tcp_counters(pid: int) -> dict[str, int]:
    """Return the TCP counters that distinguish drops from reordering, by their nstat names.

    Process 0 is this one.
    """
    found: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = _text(f"/proc/{pid or 'self'}/net/{file}").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            prefix = names.partition(":")[0]
            of_prefix = dict(zip(names.split()[1:], values.split()[1:], strict=False))
            for counter in TCP_COUNTERS:
                value = of_prefix.get(counter.removeprefix(prefix)) if counter.startswith(prefix) else None
                if value is not None:
                    found[counter] = int(value)
    return found


def throttled_s(groups: Iterable[Group]) -> float | None:
    """Return how long CPU quotas throttled processes of groups and those below; None if it is not reported."""
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
    """Return the throttled time of a `cpu.stat` in seconds: nanoseconds in cgroup v1, microseconds in v2."""
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
    """Return the text of a kernel file, "" if it cannot be read. Must be fast: a round reads thousands."""
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
