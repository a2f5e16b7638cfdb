"""What a study needs of a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Data NICs a node, daemons of Docker, and folders of the host that must be visible on the nodes.

    The daemons agree in a Swarm (`swarm`) or through an etcd (`store`), and not in both.
    """

    nics: int = 1
    docker: bool = False
    swarm: bool = False
    store: bool = False
    shown: tuple[str, ...] = ()
