"""Define what a study requires of a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Number of data NICs a node, Docker daemons, and folders of the host that must be visible on the nodes.

    The daemons coordinate through a Swarm (`swarm`) or an etcd (`store`), but not both.
    """

    nics: int = 1
    docker: bool = False
    swarm: bool = False
    store: bool = False
    shown: tuple[str, ...] = ()
