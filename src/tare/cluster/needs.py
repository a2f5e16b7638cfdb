"""What a study needs of a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Data NICs a node, daemons, a Swarm over them, and folders of the host that must be visible on the nodes."""

    nics: int = 1
    docker: bool = False
    swarm: bool = False
    shown: tuple[str, ...] = ()
