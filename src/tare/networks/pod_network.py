"""`pod-network`: the network that a cluster gives to the pods that it makes, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import carriers
from tare.system.node import Endpoint, Nic, Pod


class PodNetwork(Network):
    """Use the interface that the cluster's network has put into the pod; the service in the pod sees it as a NIC."""

    name = "pod-network"
    product = "the network of the cluster's pods itself: nothing is made"
    by_cluster = True
    owns_nic = False
    reaches_outside = False
    has_bridge = False

    def probe_machine(self) -> str | None:
        return f"{self.name} is given to pods by a cluster that makes them: use host"

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        yield Endpoint(
            address=nic.address,
            prefix=nic.prefix,
            interface=nic.name,
            mtu=nic.mtu,
            watches=carriers((pod.node.pid, nic.name, "pod's interface")),
        )
