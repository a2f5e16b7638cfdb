"""Define what a study requires of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Number of data NICs a node, Docker daemons, and folders of the host that must be visible on the nodes.

    `writable` are those of them, and files, that programs of images may write to.

    `made` are files and folders of tare's cache that nodes need at the same paths; a cluster may copy them there.
    `programs` are the user's own, which nodes must have at the same paths. `runtime_classes` are the names of those
    that pods of a Kubernetes have.

    `node_counts` are the numbers of nodes of its placements, among which a lab divides the machine's cores.

    `jobs` means that trials are MPIJobs; `longest_s` is the longest time limit of a launch.

    The daemons coordinate through a Swarm (`swarm`) or an etcd (`store`), but not both.
    """

    nics: int = 1
    docker: bool = False
    swarm: bool = False
    store: bool = False
    shown: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    made: tuple[Path, ...] = ()
    programs: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()
    node_counts: frozenset[int] = frozenset()
    jobs: bool = False
    longest_s: float = 0.0
