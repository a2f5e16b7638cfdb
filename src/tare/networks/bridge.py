"""`bridge`: a veth into a Linux bridge that holds the data NIC, as in papers/001.

CNI's bridge plug-in makes bridge and veth; putting the NIC into the bridge is ours, for no CNI plug-in does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tare.errors import InfrastructureError
from tare.namespaces import index_of, netlink
from tare.networks.plug import POD_INTERFACE, Wiring, carriers, cni_missing, config, given_away, mtu_of, plugged, silent
from tare.node import Endpoint, Nic, Node, Pod


class Bridge:
    """Wire a pod through a bridge in its node."""

    name = "bridge"
    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = True

    def probe(self) -> str | None:
        return cni_missing("bridge", "static")

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str) -> tuple[str, ...]:
        return ("--network", "none")

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        name = f"tarebr-{nic.name}"[:15]
        node = pod.node
        configuration = config("bridge", nic, bridge=name, isGateway=False, ipMasq=False, mtu=nic.mtu)
        with (
            given_away(node, nic),
            _no_bridge_left(node, name),
            plugged(pod, configuration),
            _enslaved(node, nic, name),
        ):
            yield Endpoint(
                address=nic.address,
                prefix=nic.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers((pod.pid, POD_INTERFACE, "veth of the pod"), (node.pid, nic.name, "data NIC")),
                    *silent(pod.pid),
                ),
            )


@contextmanager
def _enslaved(node: Node, nic: Nic, bridge: str) -> Iterator[None]:
    """Keep the NIC a port of the bridge while the block runs."""
    with netlink(node.pid) as route:
        route.link("set", index=index_of(route, nic.name), master=index_of(route, bridge), state="up")
    try:
        yield
    finally:
        with suppress(InfrastructureError, FileNotFoundError), netlink(node.pid) as route:
            route.link("set", index=index_of(route, nic.name), master=0)


@contextmanager
def _no_bridge_left(node: Node, name: str) -> Iterator[None]:
    """Remove the bridge in the end: CNI's plug-in leaves it."""
    try:
        yield
    finally:
        with suppress(InfrastructureError, FileNotFoundError), netlink(node.pid) as route:
            route.link("del", index=index_of(route, name))
