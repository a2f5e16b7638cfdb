"""Read all counters of a node's hosts, again and again; cumulative ones, so that no burst is missed.

A reading is whole, or only of what several deployments use in turns: the node's network namespace and the CPU times.
Whatever belongs to one deployment alone does not change while it sleeps. See `values.joined`. What all deployments of a
node share comes from `Sources` that their readers share, too: the end of one section is the beginning of the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tare.counters import conntrack, interfaces, memory, qdisc, scheduling, softnet, tcp
from tare.counters.interfaces import PORT_COUNTERS, Counts, port_counters
from tare.counters.sources import Sources
from tare.counters.usage import usage_file
from tare.counters.values import CounterValues, HostWatch, Key, Scope, place_of_machine
from tare.node import Watch, unreadable
from tare.node.cgroups import Group

Count = Callable[[Watch], Counts]
Numbers = dict[str, float]
Parse = Callable[[str], Mapping[str, float]]
OF_GROUP: Final[Mapping[str, Parse]] = {
    "memory.stat": partial(memory.parse, names=memory.OF_GROUP),
    "memory.events": memory.limit_hits,
    "memory.failcnt": memory.limit_hits,
    **{f"{kind}.pressure": partial(scheduling.pressure_in, kind) for kind in scheduling.PRESSURES},
}
"""What is read of a cgroup in a whole reading; throttling is read in every one."""
OF_MACHINE: Final[Mapping[str, Parse]] = {
    "/proc/vmstat": partial(memory.parse, names=memory.OF_MACHINE),
    **{f"/proc/pressure/{kind}": partial(scheduling.pressure_in, kind) for kind in scheduling.PRESSURES},
}


@dataclass(slots=True, kw_only=True)
class _Namespace:
    """A network namespace: a process in it, its watched interfaces, and whether TCP of ranks is there.

    `shared` means that other deployments use it as well; `sources` are those that read it.
    """

    pid: int
    scope: Scope
    sources: Sources
    watches: list[Watch] = field(default_factory=list)
    has_ranks: bool = False
    shared: bool = False

    @property
    def folder(self) -> str:
        return f"/proc/{self.pid or 'self'}/net"


class Reader:
    """Read the counters of one node's hosts, of which there is at least one; files stay open until `close`.

    `count` returns the values of watches that their network counts itself. `shared` reads what the node's deployments
    share; its owner closes it.
    """

    def __init__(self, hosts: Sequence[HostWatch], count: Count | None = None, shared: Sources | None = None) -> None:
        self._hosts = tuple(hosts)
        self._node = self._hosts[0].node
        self._count = count
        self._own = Sources()
        self._shared = shared or self._own
        self._namespaces = self._find_namespaces()
        self._others = tuple(
            watch for host in self._hosts for watch in host.watches if self._counts(watch) or ":" in watch.interface
        )
        self._groups = {
            (self._node.machine, host.place, group.path): _files_of(group)
            for host in self._hosts
            for group in host.groups
            if group.hierarchies
        }
        self._usage = usage_file(self._node.group)
        self._lacking: tuple[str, ...] | None = None

    def read(
        self, *, job_s: float | None = None, whole: bool = True, machine: bool = True, moment: int = 0
    ) -> CounterValues:
        """Return the current values.

        `job_s` is the CPU time of the node's jobs where they have no cgroup. Without `machine`, the counters of the
        machine are left out: another of its nodes reads them. What was read at the same `moment` for another deployment
        is not read again.
        """
        self._own.begin()
        if self._shared is not self._own:
            self._shared.begin(moment)
        found: dict[Key, Counts] = {}
        unread: dict[Key, str] = {}
        growing: dict[Scope, Numbers] = {}
        states: dict[Scope, Numbers] = {}
        for each in self._namespaces:
            if whole or each.shared:
                lost = self._read_interfaces(each, found, unread)
                growing[each.scope], states[each.scope] = _read_namespace(each, lost)
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
        self._own.close()

    def _find_namespaces(self) -> list[_Namespace]:
        """Return the network namespaces of the node, of its hosts and of all watches, each once."""
        node = self._node
        found: dict[str, _Namespace] = {}

        def add(pid: int, place: str, *, shared: bool, sources: Sources = self._own) -> _Namespace:
            ident = _ident(pid)
            scope = (node.machine, place, ident)
            return found.setdefault(ident, _Namespace(pid=pid, scope=scope, shared=shared, sources=sources))

        if node.pid or node.is_machine:
            add(node.pid, node.name, shared=True, sources=self._shared)
        for host in self._hosts:
            if host.pid or node.is_machine:
                add(host.pid, host.place, shared=False).has_ranks = True
            for watch in host.watches:
                if ":" not in watch.interface and not self._counts(watch):
                    namespace = add(watch.pid, host.place, shared=True)
                    namespace.watches.append(watch)
        return list(found.values())

    def _counts(self, watch: Watch) -> bool:
        """Return whether the network of a watch counts it itself."""
        return watch.by_network and self._count is not None

    def _read_interfaces(self, each: _Namespace, found: dict[Key, Counts], unread: dict[Key, str]) -> Numbers:
        """Read the watched interfaces of a network namespace; return what they did not deliver."""
        if not each.watches:
            return {}
        rows = each.sources.parsed(f"{each.folder}/dev", interfaces.rows)
        columns = {name: interfaces.columns_of(rows.get(name, "")) for name in {w.interface for w in each.watches}}
        for watch in each.watches:
            key = (self._node.machine, watch.pid, watch.interface)
            if columns[watch.interface]:
                found[key] = interfaces.counts_of(columns[watch.interface])
            elif not rows and (why := unreadable.of_process(watch.pid)):
                unread[key] = why
        return dict(interfaces.lost(columns, columns))

    def _read_other_watches(self, found: dict[Key, Counts], unread: dict[Key, str]) -> None:
        """Read what networks count themselves, and adapters' ports."""
        for watch in self._others:
            key = (self._node.machine, watch.pid, watch.interface)
            if watch.by_network and self._count is not None:
                found[key] = self._count(watch)
            elif (values := port_counters(watch.interface)) is not None:
                found[key] = values
            elif why := unreadable.of_port(watch.interface, PORT_COUNTERS):
                unread[key] = why

    def _read_groups(self, growing: dict[Scope, Numbers], *, whole: bool) -> float | None:
        """Read the hosts' cgroups; return for how long they were throttled, None if that is not reported."""
        total_s: float | None = None
        for scope, files in self._groups.items():
            parsed = self._own.parsed
            throttled = parsed(files["cpu.stat"], scheduling.throttling_in) if "cpu.stat" in files else {}
            if throttled:
                total_s = (total_s or 0.0) + throttled["throttled_s"]
            numbers = dict(throttled)
            if whole:
                for name, parse in OF_GROUP.items():
                    numbers |= parsed(files[name], parse) if name in files else {}
            growing[scope] = numbers
        return total_s

    def _read_machine(self, growing: dict[Scope, Numbers], *, whole: bool) -> tuple[float, float, float]:
        """Read what is counted for the whole machine; return its busy, steal and softirq times."""
        parsed = self._shared.parsed
        times, switches = parsed("/proc/stat", scheduling.machine_in)
        numbers: Numbers = {
            **switches,
            **parsed("/proc/net/softnet_stat", softnet.parse),
            **parsed("/proc/softirqs", softnet.parse_softirqs),
        }
        if whole:
            for path, parse in OF_MACHINE.items():
                numbers |= parsed(path, parse)
        growing[self._node.machine, place_of_machine(self._node.machine), ""] = numbers
        return times

    def _usage_s(self) -> float:
        """Return the CPU time of the node's cgroup in seconds."""
        path, parse = self._usage
        return self._shared.parsed(path, parse) if path else 0.0

    def _find_lacking(self) -> tuple[str, ...]:
        """Return which sources of counters cannot be read here, and why."""
        found = list(self._shared.lacking())
        if any(each.sources.queues(each.pid) is None for each in self._namespaces):
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


def _read_namespace(each: _Namespace, lost: Numbers) -> tuple[Numbers, Numbers]:
    """Return what grows in a network namespace, and its states: losses, protocols, connection tracking, queues."""
    parsed = each.sources.parsed
    protocols = parsed(f"{each.folder}/snmp", tcp.parse)
    if each.has_ranks:
        numbers = lost | protocols | parsed(f"{each.folder}/netstat", tcp.parse)
    else:
        numbers = lost | tcp.of_path(protocols)
    numbers |= parsed(f"{each.folder}/stat/nf_conntrack", conntrack.parse)
    numbers |= each.sources.queues(each.pid) or {}
    state: Numbers = {name: numbers.pop(name) for name in (conntrack.ENTRIES, qdisc.BACKLOG) if name in numbers}
    return numbers, state


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
    unified = ("cpu.stat", "memory.stat", "memory.events", *(f"{kind}.pressure" for kind in scheduling.PRESSURES))
    found: dict[str, str] = {}
    for hierarchy, folder in zip(group.hierarchies, group.folders, strict=True):
        of_version = [name for controller in hierarchy.controllers for name in wanted.get(controller, ())]
        for name in unified if hierarchy.version == 2 else of_version:
            path = os.path.join(folder, name)
            if os.access(path, os.R_OK):
                found[name] = path
    return found
