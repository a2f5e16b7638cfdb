"""Routed pods: Calico's data path without Calico. A pod's veth ends in the node itself, which routes to it.

CNI's `ptp` plug-in makes the veth and the /32 route to the pod, as kindnet's pods have it. Between nodes there are
routes to the other nodes' subnets, which Calico's BIRD would announce and which are written here. There is no bridge,
nothing is encapsulated, and there is no policy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from tare.clusters.pods.lab_networks.model import LabNetwork, divided
from tare.daemons.daemons import Daemon
from tare.daemons.kubernetes import KubernetesDaemons
from tare.system.namespaces import index_of, netlink
from tare.system.node import Node

NETWORK: Final = ipaddress.IPv4Network("10.246.0.0/16")


class Routed(LabNetwork):
    """A veth a pod and routes, as in Calico without encapsulation."""

    runtime_class = "routed"
    title = "routed (Calico's data path without Calico: veths by CNI's ptp, static routes between nodes)"
    subnet = str(NETWORK)
    devices: ClassVar[Mapping[str, str]] = {}

    @contextmanager
    def running(self, nodes: Sequence[Node], kubernetes: KubernetesDaemons) -> Iterator[tuple[Daemon, ...]]:
        """Write the routes between the nodes; they end with the nodes."""
        for node in nodes:
            _lead_to_others(node, nodes)
            self.write(node, plugin(node.nics[0].mtu), subnet_of(node))
        yield ()


ROUTED: Final = Routed()


def subnet_of(node: Node) -> str:
    """Return the subnet of a node's pods."""
    return divided(NETWORK, node, whose="routed pods")


def plugin(mtu: int) -> dict[str, Any]:
    """Return the CNI plug-in of a pod."""
    return {"type": "ptp", "mtu": mtu}


def _lead_to_others(node: Node, nodes: Sequence[Node]) -> None:
    with netlink(node.pid) as route:
        index = index_of(route, node.nics[0].name)
        for other in nodes:
            if other.name != node.name:
                route.route("add", dst=subnet_of(other), gateway=other.nics[0].address, oif=index, proto="static")
