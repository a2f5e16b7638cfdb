"""Read all counters of a node's hosts, again and again; cumulative ones, so that no burst is missed.

A reading is whole, or only of what several deployments use in turns: the node's network namespace and the CPU times.
Whatever belongs to one deployment alone does not change while it sleeps. A reading only takes what the sources contain;
`taken` parses it. What all deployments of a node share comes from `Sources` that their readers share, too: the end of
one section is the beginning of the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Final

from tare.system.counters import conntrack, interfaces, memory, qdisc, scheduling, softnet, tcp
from tare.system.counters.interfaces import PORT_COUNTERS, Counts, port_counters
from tare.system.counters.raw_readings import LayoutEntry, RawReading, ReadingLayout, SourceRole
from tare.system.counters.sources import Content, Numbers, Parse, Sources
from tare.system.counters.values import CounterValues, HostWatch, Key, Scope, place_of_machine
from tare.system.node import Watch, unreadable_counters
from tare.system.node.cgroups import Group
from tare.system.node.kernel_files import KernelFile, decoded, read_text

Count = Callable[[Watch], Counts]
ParseText = Callable[[str], Numbers]
OF_GROUP: Final[Mapping[str, ParseText]] = {
    "memory.stat": partial(memory.parse, names=memory.OF_GROUP),
    "memory.events": memory.limit_hits,
    "memory.failcnt": memory.limit_hits,
    **{f"{kind}.pressure": partial(scheduling.pressure_in, kind) for kind in scheduling.PRESSURES},
}
"""What is read of a cgroup in a whole reading; throttling is read in every one."""
OF_MACHINE: Final[Mapping[str, ParseText]] = {
    "/proc/net/softnet_stat": softnet.parse,
}
OF_MACHINE_WHOLE: Final[Mapping[str, ParseText]] = {
    "/proc/vmstat": partial(memory.parse, names=memory.OF_MACHINE),
    **{f"/proc/pressure/{kind}": partial(scheduling.pressure_in, kind) for kind in scheduling.PRESSURES},
}
CPU_TIME: Final = "cpuacct"
"""The controller that counts CPU time in cgroup v1."""


@lru_cache(maxsize=256)
def of_text(parse: ParseText) -> Parse:
    """Return what parses the content of a text file; it is the same function for the same `parse`."""
    return lambda content: parse(decoded(content))


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

    def entries(self) -> Iterator[LayoutEntry]:
        """Yield what is read of it: interfaces, protocols, connection tracking, queues."""

        def file(name: str, parse: ParseText, role: SourceRole = SourceRole.COUNTERS) -> LayoutEntry:
            return LayoutEntry(self.sources.file(f"{self.folder}/{name}"), of_text(parse), self.scope, role)

        if self.watches:
            names = frozenset(watch.interface for watch in self.watches)
            yield file("dev", interfaces.counted(names), SourceRole.INTERFACES)
        yield file("snmp", tcp.parse if self.has_ranks else tcp.parse_path)
        if self.has_ranks:
            yield file("netstat", tcp.parse)
        yield file("stat/nf_conntrack", conntrack.parse)
        yield LayoutEntry(self.sources.queues(self.pid), qdisc.totals, self.scope, SourceRole.QUEUES)


class Reader:
    """Read the counters of one node's hosts, of which there is at least one; files stay open until `close`.

    `count` returns the values of watches that their network counts itself. `shared` reads what the node's deployments
    share, `machine` what all nodes of a machine share; their owners close them.
    """

    def __init__(
        self,
        hosts: Sequence[HostWatch],
        count: Count | None = None,
        shared: Sources | None = None,
        machine: Sources | None = None,
    ) -> None:
        self._hosts = tuple(hosts)
        self._node = self._hosts[0].node
        self._count = count
        self._own = Sources()
        self._shared = shared or self._own
        self._machine = machine or self._shared
        self._may_rest = shared is not None and self._node.pid != 0 and not self._node.machine
        self._namespaces = self._find_namespaces()
        self._others = tuple(
            watch for host in self._hosts for watch in host.watches if self._counts(watch) or ":" in watch.interface
        )
        self._groups = {
            (self._node.machine, host.place, group.path or (str(number) if number else "")): _files_of(group)
            for host in self._hosts
            for number, group in enumerate(each for each in host.groups if each.hierarchies)
        }
        self._layouts: dict[bool, ReadingLayout] = {}
        self._lacking: tuple[str, ...] | None = None

    def take(
        self,
        *,
        job_s: float | None = None,
        whole: bool = True,
        machine: bool = True,
        moment: int = 0,
        since: int = 0,
    ) -> RawReading:
        """Take a reading, which is parsed later.

        `job_s` is the CPU time of the node's jobs where they have no cgroup. Without `machine`, the counters of the
        machine are left out: another of its nodes reads them. What was read at the same `moment` for another deployment
        is not read again. Nor is the network namespace of a lab's node that was read at moment `since` or later: no
        launch has used it after that (see `Moment`). The network of a machine as it is has other users.
        """
        layout = self._layouts.get(machine) or self._lay_out(moment, machine=machine)
        latest = self._shared.latest(moment, since if self._may_rest else 0)
        contents = [source.take(latest) for source in layout.node_sources]
        contents += [source.take(moment) for source in (layout.other_sources if whole else layout.shared_sources)]
        taken = RawReading(layout=layout, contents=contents, given_s=job_s)
        unread = self._unread(layout, contents)
        counts = self._read_other_watches(unread) if self._others else {}
        if whole:
            self._check_whole(taken)
        taken.counts, taken.unread, taken.lacking = counts, unread, self._lacking or ()
        return taken

    def read(
        self, *, job_s: float | None = None, whole: bool = True, machine: bool = True, moment: int = 0
    ) -> CounterValues:
        """Return the current values; see `take`."""
        return self.take(job_s=job_s, whole=whole, machine=machine, moment=moment).values()

    def close(self) -> None:
        """Close what is open: it keeps namespaces."""
        self._own.close()

    def _find_namespaces(self) -> list[_Namespace]:
        """Return the network namespaces of the node, of its hosts and of all watches, each once."""
        node, ident_of = self._node, cache(_ident)
        found: dict[str, _Namespace] = {}

        def add(pid: int, place: str, *, shared: bool, sources: Sources = self._own) -> _Namespace:
            ident = ident_of(pid)
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

    def _lay_out(self, moment: int, *, machine: bool) -> ReadingLayout:
        """Return what is read with or without the counters of the machine; what is shared comes first.

        Of that, the node's network namespace comes before the rest. Queues are only where one could drop packets.
        """
        of_node, shared, own, without_queue = (
            list[LayoutEntry](),
            list[LayoutEntry](),
            list[LayoutEntry](),
            list[LayoutEntry](),
        )
        for each in self._namespaces:
            always = own if not each.shared else of_node if each.sources is self._shared else shared
            for entry in each.entries():
                has_none = each.shared and _has_no_queue(entry, moment)
                (without_queue if has_none else always).append(entry)
        path, parse = usage_file(self._node.group)
        if path:
            name = (self._node.machine, self._node.name, "")
            shared.append(LayoutEntry(self._shared.file(path), of_text(parse), name, SourceRole.USAGE))
        shared = [*of_node, *shared]
        own = [*without_queue, *own]
        for scope, files in self._groups.items():
            if "cpu.stat" in files:
                throttled = of_text(scheduling.throttling_in)
                shared.append(LayoutEntry(self._own.file(files["cpu.stat"]), throttled, scope, SourceRole.THROTTLING))
            parsers = ((files[name], of_text(parse)) for name, parse in OF_GROUP.items() if name in files)
            own += [LayoutEntry(self._own.file(path), parse, scope) for path, parse in parsers]
        if machine:
            scope = (self._node.machine, place_of_machine(self._node.machine), "")
            shared.append(
                LayoutEntry(self._machine.file("/proc/stat"), of_text(scheduling.machine_in), scope, SourceRole.MACHINE)
            )
            shared += [
                LayoutEntry(self._machine.file(path), of_text(parse), scope) for path, parse in OF_MACHINE.items()
            ]
            own += [
                LayoutEntry(self._machine.file(path), of_text(parse), scope) for path, parse in OF_MACHINE_WHOLE.items()
            ]
        watches = {each.scope: tuple(each.watches) for each in self._namespaces}
        layout = ReadingLayout(
            machine=self._node.machine,
            entries=(*shared, *own),
            of_node=len(of_node),
            shared=len(shared),
            without_queue=tuple(range(len(shared), len(shared) + len(without_queue))),
            watches=watches,
        )
        return self._layouts.setdefault(machine, layout)

    def _unread(self, layout: ReadingLayout, contents: Sequence[Content]) -> dict[Key, str]:
        """Return the watched interfaces that may not be read, with the reason."""
        found: dict[Key, str] = {}
        for at in layout.interfaces:
            if at < len(contents) and not contents[at].data:
                for watch in layout.watches[layout.entries[at].scope]:
                    if why := unreadable_counters.of_process(watch.pid):
                        found[self._node.machine, watch.pid, watch.interface] = why
        return found

    def _read_other_watches(self, unread: dict[Key, str]) -> dict[Key, Counts]:
        """Return what networks count themselves, and adapters' ports; add to `unread` what cannot be read."""
        found: dict[Key, Counts] = {}
        for watch in self._others:
            key = (self._node.machine, watch.pid, watch.interface)
            if watch.by_network and self._count is not None:
                found[key] = self._count(watch)
            elif (values := port_counters(watch.interface)) is not None:
                found[key] = values
            elif why := unreadable_counters.of_port(watch.interface, PORT_COUNTERS):
                unread[key] = why
        return found

    def _check_whole(self, taken: RawReading) -> None:
        """Note what cannot be read. Plan anew if a queue was added to a namespace that had none."""
        if self._lacking is None:
            self._lacking = self._find_lacking(taken)
        if any(taken.contents[at].parsed(qdisc.kept_in)[qdisc.KEPT] for at in taken.layout.without_queue):
            self._layouts.clear()

    def _find_lacking(self, taken: RawReading) -> tuple[str, ...]:
        """Return which sources of counters cannot be read here, and why."""
        found = list(self._machine.lacking())
        pairs = tuple(zip(taken.layout.entries, taken.contents, strict=True))
        if any(entry.role is SourceRole.QUEUES and not content.data for entry, content in pairs):
            found.append("queueing disciplines (a network namespace cannot be entered)")
        of_machine = [content.parsed(entry.parse) for entry, content in pairs if entry.role is SourceRole.MACHINE]
        if any(not numbers.keys() & scheduling.SOFTIRQS.keys() for numbers in of_machine):
            found.append("softirqs (not in /proc/stat)")
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


def _has_no_queue(entry: LayoutEntry, moment: int) -> bool:
    """Return whether an entry lists the queues of a namespace, and there is none that can keep or drop packets."""
    return entry.role is SourceRole.QUEUES and not entry.source.take(moment).parsed(qdisc.kept_in)[qdisc.KEPT]


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
    for hierarchy in group.hierarchies:
        of_version = [name for controller in hierarchy.controllers for name in wanted.get(controller, ())]
        for name in unified if hierarchy.version == 2 else of_version:
            path = f"{group.name_in(hierarchy)}/{name}"
            if os.access(path, os.R_OK):
                found[name] = path
    return found


class GroupUsage:
    """The CPU time of a cgroup that exists; its file stays open until `close`."""

    def __init__(self, group: Group) -> None:
        path, self._parse = usage_file(group)
        self._file = KernelFile(path) if path else None

    def seconds(self) -> float:
        """Return the CPU time in seconds, 0 if nothing counts it."""
        return self._parse(decoded(self._file.read()))[scheduling.USAGE] if self._file else 0.0

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def usage_file(group: Group) -> tuple[str, ParseText]:
    """Return the file with a cgroup's CPU time, "" if there is none, and what parses it."""
    for hierarchy in sorted(group.hierarchies, key=lambda each: CPU_TIME not in each.controllers):
        folder = group.name_in(hierarchy)
        nanoseconds, table = f"{folder}/cpuacct.usage", f"{folder}/cpu.stat"
        if os.path.exists(nanoseconds):
            return nanoseconds, scheduling.nanoseconds_in
        if "usage_usec" in read_text(table):
            return table, scheduling.usage_in
    return "", scheduling.usage_in
