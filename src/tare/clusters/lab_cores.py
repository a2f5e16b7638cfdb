"""Divide the machine's cores among the nodes of a lab."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

from tare.errors import RefusedError
from tare.model import LabSpec
from tare.model.placement import order_by_core
from tare.model.topology import NodeCores, Topology
from tare.system.topology import read_topology


def topology(spec: LabSpec, counts: Collection[int] = ()) -> tuple[Topology, bool]:
    """Return the cores of each node of a lab, and whether nodes have to share some.

    `counts` are the numbers of nodes of placements, for each of which the machine is divided again.
    """
    cpus = os.sched_getaffinity(0)
    layout = read_topology(cpus)
    available = order_by_core(cpus, layout)
    divided, shares = divide_cores(available, spec)
    again = {count: divide_cores(available, replace(spec, nodes=count))[0] for count in counts if count <= spec.nodes}
    note = f": this machine's cores are divided among {spec.nodes} nodes" if spec.nodes > 1 else ""
    note = f": cores_per_node is {spec.cores_per_node}" if spec.cores_per_node else note
    nodes = (
        NodeCores(
            cores=own,
            layout=layout,
            name=f"n{number}",
            note=note,
            shares=tuple((count, cores[number]) for count, cores in again.items() if number < count),
        )
        for number, own in enumerate(divided)
    )
    return Topology(nodes=tuple(nodes)), shares


def divide_cores(available: Sequence[int], spec: LabSpec) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """Return the cores of each node, and whether nodes have to share some.

    `available` is ordered by the machine's physical cores, so that a node gets whole ones if possible. Without
    `cores_per_node` cores are distributed evenly, and nodes share cores only if there are too few. Each node then
    begins at another core, so that placements with few ranks on a node still have cores of their own.
    """
    each = spec.cores_per_node or max(1, len(available) // spec.nodes)
    if each > len(available):
        raise RefusedError(f"nodes of {each} cores are not possible: this machine has {len(available)}")
    shared = each * spec.nodes > len(available)
    step = max(1, len(available) // spec.nodes) if shared else each
    chosen = tuple(
        tuple(available[(node * step + core) % len(available)] for core in range(each)) for node in range(spec.nodes)
    )
    return chosen, shared
