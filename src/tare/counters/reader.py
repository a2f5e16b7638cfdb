"""Read all counters of a node's hosts, again and again; cumulative ones, so that no burst is missed.

A reading is whole, or only of what several deployments use in turns: the node's network namespace and the CPU times.
Whatever belongs to one deployment alone does not change while it sleeps. See `values.joined`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tare.counters import conntrack, interfaces, memory, netlink, pressure, qdisc, scheduling, softnet, tcp
from tare.counters.files import KernelFiles, why_unread
from tare.counters.interfaces import PORT_COUNTERS, Counts, port_counters
from tare.counters.values import CounterValues, HostWatch, Key, Scope, place_of_machine
from tare.errors import InfrastructureError
from tare.node import Watch, unreadable
from tare.node.cgroups import Group

Count = Callable[[Watch], Counts]
Numbers = dict[str, float]


@dataclass(slots=True, kw_only=True)
class _Namespace:
    """A network namespace: a process in it, the names of its watched interfaces, and whether TCP of ranks is there."""

    pid: int
    scope: Scope
    watches: list[Watch] = field(default_factory=list)
    has_ranks: bool = False
    shared: bool = False
    socket: netlink.Netlink | None = None

    @property
    def folder(self) -> str:
        return f"/proc/{self.pid or 'self'}/net"


class Reader:
    """Read the counters of one node's hosts, of which there is at least one; files stay open until `close`.

    `count` returns the values of watches that their network counts itself.
    """

    def __init__(self, hosts: Sequence[HostWatch], count: Count | None = None) -> None:
        self._hosts = tuple(hosts)
        self._node = self._hosts[0].node
        self._count = count
        self._files = KernelFiles()
        self._namespaces = self._find_namespaces()
        self._groups = {
            (self._node.machine, host.place, group.path): _files_of(group)
            for host in self._hosts
            for group in host.groups
            if group.hierarchies
        }
        self._usage = _usage_file(self._node.group)
        self._lacking: tuple[str, ...] | None = None

    def read(self, *, job_s: float | None = None, whole: bool = True, machine: bool = True) -> CounterValues:
        """Return the current values; a whole reading of two pods takes well below a millisecond.

        `job_s` is the CPU time of the node's jobs where they have no cgroup. Without `machine`, the counters of the
        machine are left out: another of its nodes reads them.
        """
        found: dict[Key, Counts] = {}
        unread: dict[Key, str] = {}
        growing: dict[Scope, Numbers] = {}
        states: dict[Scope, Numbers] = {}
        for each in self._namespaces:
            if whole or each.shared:
                self._read_namespace(each, found, unread, growing, states)
        self._read_other_watches(found, unread)
        throttled_s = self._read_groups(growing, whole=whole)
        times = self._read_machine(growing, whole=whole) if machine else (0.0, 0.0, 0.0)
        if whole and self._lacking is None:
            self._lacking = self._find_lacking()
        return CounterValues(
            interfaces=found,
            unread=unread,
            growing=growing,
            states=states,
            lacking=self._lacking or (),
            machine=self._node.machine,
            busy_s=times[0],
            steal_s=times[1],
            softirq_s=times[2],
            job_s=self._usage_s() if job_s is None else job_s,
            throttled_s=throttled_s,
        )

    def close(self) -> None:
        """Close what is open: it keeps namespaces."""
        self._files.close()
        for each in self._namespaces:
            if each.socket is not None:
                each.socket.close()
                each.socket = None

    def _find_namespaces(self) -> list[_Namespace]:
        """Return the network namespaces of the node, of its hosts and of all watches, each once."""
        node = self._node
        found: dict[str, _Namespace] = {}

        def add(pid: int, place: str, *, shared: bool) -> _Namespace:
            ident = _ident(pid)
            scope = (node.machine, place, ident)
            return found.setdefault(ident, _Namespace(pid=pid, scope=scope, shared=shared))

        if node.pid or node.is_machine:
            add(node.pid, node.name, shared=True)
        for host in self._hosts:
            if host.pid or node.is_machine:
                add(host.pid, host.place, shared=False).has_ranks = True
            for watch in host.watches:
                if ":" not in watch.interface and not (watch.by_network and self._count is not None):
                    namespace = add(watch.pid, host.place, shared=True)
                    namespace.watches.append(watch)
        return list(found.values())

    def _read_namespace(
        self,
        each: _Namespace,
        found: dict[Key, Counts],
        unread: dict[Key, str],
        growing: dict[Scope, Numbers],
        states: dict[Scope, Numbers],
    ) -> None:
        """Read interfaces, protocols, connection tracking and queues of a network namespace."""
        text, machine = self._files.text, self._node.machine
        devices = interfaces.parse(text(f"{each.folder}/dev"))
        for pid in {watch.pid for watch in each.watches}:
            found.update({(machine, pid, name): interfaces.counts_of(own) for name, own in devices.items()})
        if not devices:
            why = {pid: unreadable.of_process(pid) for pid in {watch.pid for watch in each.watches}}
            unread.update({(machine, w.pid, w.interface): why[w.pid] for w in each.watches if why[w.pid]})
        numbers: Numbers = dict(interfaces.lost(devices, {watch.interface for watch in each.watches}))
        numbers |= tcp.parse(text(f"{each.folder}/snmp"), of_path=not each.has_ranks)
        if each.has_ranks:
            numbers |= tcp.parse(text(f"{each.folder}/netstat"))
        numbers |= conntrack.parse(text(f"{each.folder}/stat/nf_conntrack"))
        numbers |= self._queues(each)
        state: Numbers = {name: numbers.pop(name) for name in (conntrack.ENTRIES, qdisc.BACKLOG) if name in numbers}
        growing[each.scope], states[each.scope] = numbers, state

    def _queues(self, each: _Namespace) -> Numbers:
        """Return the counters of a namespace's queues; empty if they cannot be read."""
        try:
            if each.socket is None:
                each.socket = netlink.Netlink(each.pid)
            return dict(qdisc.totals(qdisc.parse(each.socket.dump(netlink.GET_QDISCS))))
        except (OSError, InfrastructureError):
            return {}

    def _read_other_watches(self, found: dict[Key, Counts], unread: dict[Key, str]) -> None:
        """Read what networks count themselves, and adapters' ports."""
        for watch in (watch for host in self._hosts for watch in host.watches):
            key = (self._node.machine, watch.pid, watch.interface)
            if watch.by_network and self._count is not None:
                found[key] = self._count(watch)
            elif ":" in watch.interface:
                if (values := port_counters(watch.interface)) is not None:
                    found[key] = values
                elif why := unreadable.of_port(watch.interface, PORT_COUNTERS):
                    unread[key] = why

    def _read_groups(self, growing: dict[Scope, Numbers], *, whole: bool) -> float | None:
        """Read the hosts' cgroups; return for how long they were throttled, None if that is not reported."""
        total_s: float | None = None
        text = self._files.text
        for scope, files in self._groups.items():
            throttled = scheduling.throttling_in(text(files["cpu.stat"])) if "cpu.stat" in files else {}
            if throttled:
                total_s = (total_s or 0.0) + throttled["throttled_s"]
            numbers = dict(throttled)
            if whole:
                numbers |= memory.parse(text(files.get("memory.stat", "")), memory.OF_GROUP)
                numbers |= memory.limit_hits(
                    text(files.get("memory.events", "")), text(files.get("memory.failcnt", ""))
                )
                for kind in pressure.KINDS:
                    numbers |= pressure.parse(kind, text(files.get(f"{kind}.pressure", "")))
            growing[scope] = numbers
        return total_s

    def _read_machine(self, growing: dict[Scope, Numbers], *, whole: bool) -> tuple[float, float, float]:
        """Read what is counted for the whole machine; return its busy, steal and softirq times."""
        text = self._files.text
        stat = text("/proc/stat")
        numbers: Numbers = {
            **scheduling.switches_in(stat),
            **softnet.parse(text("/proc/net/softnet_stat")),
            **softnet.parse_softirqs(text("/proc/softirqs")),
        }
        if whole:
            numbers |= memory.parse(text("/proc/vmstat"), memory.OF_MACHINE)
            for kind in pressure.KINDS:
                numbers |= pressure.parse(kind, text(f"/proc/pressure/{kind}"))
        growing[self._node.machine, place_of_machine(self._node.machine), ""] = numbers
        return scheduling.times_in(stat)

    def _usage_s(self) -> float:
        """Return the CPU time of the node's cgroup in seconds."""
        path, is_table = self._usage
        text = self._files.text(path) if path else ""
        if is_table:
            text = text.partition("usage_usec ")[2].split("\n", 1)[0]
        return int(text) / (1e6 if is_table else 1e9) if text.strip().isdigit() else 0.0

    def _find_lacking(self) -> tuple[str, ...]:
        """Return which sources of counters cannot be read here, and why."""
        sources = {
            "TCP": "/proc/self/net/netstat",
            "connection tracking": "/proc/self/net/stat/nf_conntrack",
            "softnet": "/proc/net/softnet_stat",
            "softirqs": "/proc/softirqs",
            "page reclaim": "/proc/vmstat",
            "pressure": "/proc/pressure/cpu",
        }
        found = [f"{name} ({why})" for name, path in sources.items() if (why := why_unread(path))]
        if any(each.socket is None for each in self._namespaces):
            found.append("queueing disciplines (a network namespace cannot be entered)")
        if not any("cpu.stat" in files for files in self._groups.values()):
            found.append("throttling (the job has no cgroup of its own)")
        return tuple(found)


def read(places: Sequence[HostWatch], count: Count | None = None, *, job_s: float | None = None) -> CounterValues:
    """Return the current values of all counters of one node's hosts, read once (see `Reader`)."""
    reader = Reader(places, count)
    try:
        return reader.read(job_s=job_s)
    finally:
        reader.close()


def _ident(pid: int) -> str:
    """Return a name of a process's network namespace: its inode number, if that can be read."""
    folder = f"/proc/{pid or 'self'}/ns/net"
    with suppress(OSError):
        return f"net {os.stat(folder).st_ino}"
    return f"net of {pid}"


def _files_of(group: Group) -> dict[str, str]:
    """Return the files of a cgroup that count something, by name."""
    wanted = {
        "cpu": ("cpu.stat",),
        "memory": ("memory.stat", "memory.failcnt"),
    }
    unified = ("cpu.stat", "memory.stat", "memory.events", *(f"{kind}.pressure" for kind in pressure.KINDS))
    found: dict[str, str] = {}
    for hierarchy, folder in zip(group.hierarchies, group.folders, strict=True):
        of_version = [name for controller in hierarchy.controllers for name in wanted.get(controller, ())]
        for name in unified if hierarchy.version == 2 else of_version:
            path = os.path.join(folder, name)
            if os.access(path, os.R_OK):
                found[name] = path
    return found


def _usage_file(group: Group) -> tuple[str, bool]:
    """Return the file with a cgroup's CPU time, "" if there is none, and whether it is a table of microseconds."""
    for folder in group.folders:
        nanoseconds, table = folder / "cpuacct.usage", folder / "cpu.stat"
        if nanoseconds.exists():
            return str(nanoseconds), False
        if table.exists() and "usage_usec" in table.read_text():
            return str(table), True
    return "", False
