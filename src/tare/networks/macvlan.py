"""`macvlan`: a second address on the data NIC, by MAC, in bridge mode (CNI macvlan)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tare.node import Endpoint, Nic, Node, Pod
from tare.wiring.plug import POD_INTERFACE, Wiring, carriers, cni_missing, config, given_away, mtu_of, plugged, silent


class Macvlan:
    """Give the pod a macvlan interface on the data NIC."""

    name = "macvlan"
    product = "Linux's macvlan itself, made by CNI's own macvlan plug-in"
    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = True
    pods_share_nic = True

    def probe(self) -> str | None:
        return cni_missing("macvlan", "static")

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "none")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return given_away(node, nic)

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        with plugged(pod, config("macvlan", nic, master=nic.name, mode="bridge")):
            yield Endpoint(
                address=nic.address,
                prefix=nic.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers((pod.pid, POD_INTERFACE, "macvlan"), (pod.node.pid, nic.name, "data NIC")),
                    *silent(pod.pid),
                ),
            )
