"""Clusters: where nodes come from. One file a member, one entry in `CLUSTERS`."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from tare.cluster.fake import FakeCluster
from tare.cluster.lab_site import LabCluster
from tare.cluster.needs import Needs
from tare.model import LabSpec
from tare.model.placement import Topology
from tare.node import Node, Pod

__all__ = ["CLUSTERS", "Cluster", "Needs", "Site"]


class Site(Protocol):
    """A cluster that is up, with the head (where launchers start) and the control network that stays up."""

    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def daemon_nodes(self) -> tuple[Node, ...]:
        """Return the hosts that run daemons, in the order of `nodes`; others where a daemon changes a host's cost."""
        ...

    @property
    def head(self) -> tuple[str, ...]:
        """Return the argv prefix that brings a launcher to the head."""
        ...

    @property
    def control_subnet(self) -> str: ...
    @property
    def folder(self) -> Path:
        """Return the folder for launch maps and logs of this run."""
        ...

    def connect(self, pod: Pod, slot: int) -> AbstractContextManager[str]:
        """Put a pod with a network of its own into the control network, and tell its address there.

        `slot` tells its environment. A pod on its node's network is there already.
        """

    def listen(self) -> socket.socket | None:
        """Return a socket bound to an address of the head that all pods reach, None where there is none."""

    def adopt(self, pid: int) -> None:
        """Count a launcher, and what it starts from now on, among what the cluster runs for the study."""

    def pids(self) -> set[int]:
        """Return all that the cluster runs for the study, its own processes among it; empty if it is not known."""

    def usage_s(self) -> float:
        """Return the CPU time of all that the cluster runs for the study, daemons included; 0 if it is not known."""

    def carries(self, nic: int, mtu: int) -> AbstractContextManager[None]:
        """Let the network between the nodes' NICs of this number carry frames of an MTU."""

    def settle(self) -> None:
        """Bring the nodes into the state that trials expect, after pods were made and before the first trial."""


class Cluster(Protocol):
    """What every cluster offers. `probe` is read-only; `open` undoes everything when it is left."""

    @property
    def name(self) -> str: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def is_fake(self) -> bool: ...

    def probe(self) -> str | None:
        """Return why the cluster cannot be used here, or None."""

    def topology(self, spec: LabSpec) -> Topology:
        """Return the cores of each node, without making any."""

    def open(self, study: str, spec: LabSpec, needs: Needs) -> AbstractContextManager[Site]:
        """Bring the cluster up for a study."""


CLUSTERS: Final[Mapping[str, Cluster]] = {
    "lab": LabCluster(),
    "fake": FakeCluster(),
}
