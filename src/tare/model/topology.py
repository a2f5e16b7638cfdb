"""Describe the CPUs of nodes: which core, NUMA node and socket each belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareThread:
    """The location of a logical CPU: its core (named by its lowest CPU), NUMA node and socket."""

    cpu: int
    core: int
    numa: int = 0
    socket: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCores:
    """The CPUs of one node, as the kernel numbers them, in the order of allocation.

    `layout` holds the locations of CPUs, possibly also of other nodes' CPUs; a CPU without a location counts as a
    separate core. `note` is the end of a sentence about too few of them. `shares` are its CPUs in placements, by their
    numbers of nodes, where these differ.
    """

    cores: tuple[int, ...]
    layout: tuple[HardwareThread, ...] = ()
    name: str = ""
    note: str = ""
    shares: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def in_any_placement(self) -> tuple[int, ...]:
        """Return the CPUs that the node has in any placement."""
        return tuple(sorted({*self.cores, *(cpu for _, cpus in self.shares for cpu in cpus)}))

    @property
    def whole_cores(self) -> tuple[tuple[HardwareThread, ...], ...]:
        """Return the hardware threads of the node, core by core, in the node's order."""
        known = {thread.cpu: thread for thread in self.layout}
        threads_of: dict[int, list[HardwareThread]] = {}
        for cpu in self.cores:
            thread = known.get(cpu, HardwareThread(cpu=cpu, core=cpu))
            threads_of.setdefault(thread.core, []).append(thread)
        return tuple(tuple(threads) for threads in threads_of.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes that a placement can use, in order. Core numbers are per node."""

    nodes: tuple[NodeCores, ...]
