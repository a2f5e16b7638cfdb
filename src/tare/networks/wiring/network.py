"""The base class of all networks in `tare.networks`, with the defaults that most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tare.networks.wiring.plug import Wiring
from tare.system.counters.interfaces import Counts
from tare.system.node import Endpoint, Nic, Node, Pod, Watch, Wired


class Network(ABC):
    """A network: a member sets `name`, `product` and what differs from the defaults below, and wires pods in `attach`.

    Its `__init__` does no work, `probe` is read-only, and every context manager undoes its changes on exit. One object
    serves one environment on one node, from `prepare` to its end, so it may keep the arguments of `prepare`. All nodes
    complete `prepare`, `share`, `on_node` with `attach`, and `join`, each before the next.
    """

    name: str
    product: str
    """One sentence for reports: which part is the product itself, and which part of its data path is rebuilt."""
    wiring: Wiring = Wiring.OWN
    """Who makes the pod's network namespace."""
    owns_nic: bool = True
    """Whether the network needs a data NIC of its own."""
    by_cluster: bool = False
    """Whether a cluster itself gives it to the pods that it makes, so that it exists there only."""

    @property
    def reaches_outside(self) -> bool:
        """Return whether a pod can talk to a bare node."""
        return True

    @property
    def pods_share_nic(self) -> bool:
        """Return whether a node's NIC serves several pods, each with its own address."""
        return True

    has_bridge: bool = True
    """Whether frames pass a bridge on the node, where the packet filter can see them."""
    passes_node: bool = True
    """Whether packets of its pods pass the packet filter and the connection tracking of the node's network namespace.

    Frames on a bridge do so only with br_netfilter, whatever is stated here.
    """
    crosses_subnets: bool = False
    """Whether pods meet across a router between the nodes' subnets, which knows nodes but no pods."""
    without_encapsulation: str = ""
    """A network whose path differs only in that it puts no packet into another; "" if this one does not."""
    needs_swarm: bool = False
    """Whether the Docker daemons of the nodes must be joined in a Swarm."""
    needs_store: bool = False
    """Whether the Docker daemons of the nodes must share a key-value store."""

    @property
    def needs_root(self) -> bool:
        """Return whether an ordinary user cannot use it in a lab."""
        return self.wiring is Wiring.DOCKER

    is_fake: bool = False
    """Whether nothing is wired: a fake is combined with other fakes only, in tests."""

    def probe(self) -> str | None:
        """Return why the network cannot be used here, or None."""
        return None

    def probe_machine(self) -> str | None:
        """Return why the network cannot be used by this user on this machine as a node itself, or None."""
        if self.wiring is Wiring.NODE:
            return self.probe()
        return f"{self.name} changes the network of its node: use host or pasta, or cluster: lab"

    def refuse(self, nodes: int) -> str | None:
        """Return why this network cannot connect this many nodes, or None."""
        return None

    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> AbstractContextManager[None]:
        """Create on a node what must exist before anything is shared; `nodes` are all nodes of the network."""
        return nullcontext()

    def share(self, nodes: Sequence[Node], study: str) -> AbstractContextManager[None]:
        """Create on the first node what all nodes share; every node is prepared, and there are no pods."""
        return nullcontext()

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        """Return the Docker options that connect a node's container of this number to this network."""
        return ("--network", "none")

    def name_in_docker(self, study: str) -> str:
        """Return the name by which Docker knows the network of a study, "" if Docker does not make it."""
        return ""

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        """Create what the network's pods on one node share, before the first of them is wired."""
        return nullcontext()

    @abstractmethod
    def attach(self, pod: Pod, nic: Nic) -> AbstractContextManager[Endpoint]:
        """Wire a pod."""

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        """Make a node's pods reach all `pods`, which are wired; yield the endpoints of its own, in order."""
        yield tuple(each.endpoint for each in pods if each.pod.node.name == node.name)

    def counted(self, watch: Watch) -> Counts:
        """Return the counters of a watch that says `by_network`."""
        raise LookupError(f"{self.name} counts nothing itself")
