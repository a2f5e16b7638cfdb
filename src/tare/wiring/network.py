"""The base class of all networks in `tare.networks`, with the defaults that most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from tare.node import Endpoint, Nic, Node, Pod, Wired
from tare.wiring.plug import Wiring

__all__ = ["Joining", "Network"]


class Network(ABC):
    """A network: a member sets `name`, `product` and what differs from the defaults below, and wires pods in `attach`.

    Its `__init__` does no work, `probe` is read-only, and every context manager undoes its changes on exit. One object
    serves one environment from `prepare` to its end, so it may keep the arguments of `prepare`.
    """

    name: str
    product: str
    """One sentence for reports: which part is the product itself, and which part of its data path is rebuilt."""

    @property
    def wiring(self) -> Wiring:
        """Return who makes the pod's network namespace."""
        return Wiring.OWN

    @property
    def owns_nic(self) -> bool:
        """Return whether the network needs a data NIC of its own."""
        return True

    @property
    def reaches_outside(self) -> bool:
        """Return whether a pod can talk to a bare node."""
        return True

    @property
    def pods_share_nic(self) -> bool:
        """Return whether a node's NIC serves several pods, each with its own address."""
        return True

    @property
    def has_bridge(self) -> bool:
        """Return whether frames pass a bridge on the node, where the packet filter can see them."""
        return True

    @property
    def crosses_subnets(self) -> bool:
        """Return whether pods meet across a router between the nodes' subnets, which knows nodes but no pods."""
        return False

    @property
    def needs_swarm(self) -> bool:
        """Return whether the Docker daemons of the nodes must be joined in a Swarm."""
        return False

    @property
    def needs_store(self) -> bool:
        """Return whether the Docker daemons of the nodes must share a key-value store."""
        return False

    @property
    def is_fake(self) -> bool:
        """Return whether nothing is wired: a fake is combined with other fakes only, in tests."""
        return False

    def probe(self) -> str | None:
        """Return why the network cannot be used here, or None."""
        return None

    def refuse(self, runtime: str, nodes: int) -> str | None:
        """Return why this network cannot serve a runtime on this many nodes, or None."""
        return None

    def prepare(self, nodes: Sequence[Node], study: str) -> AbstractContextManager[None]:
        """Create what all pods of the network share, before there are pods."""
        return nullcontext()

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        """Return the Docker options that connect a node's container of this number to this network."""
        return ("--network", "none")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        """Create what the network's pods on one node share, before the first of them is wired."""
        return nullcontext()

    @abstractmethod
    def attach(self, pod: Pod, nic: Nic) -> AbstractContextManager[Endpoint]:
        """Wire a pod."""


@runtime_checkable
class Joining(Protocol):
    """Hook that runs after all pods are wired, for networks in which pods reach each other only then."""

    def joined(self, pods: Sequence[Wired]) -> tuple[Endpoint, ...]:
        """Wait until wired pods reach each other; return their endpoints, in order, with all proofs of the path."""
