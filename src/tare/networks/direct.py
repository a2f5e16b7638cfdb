"""`direct`: the data NIC itself is moved into the pod (CNI host-device) and given back whole, as in papers/001."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tare.node import Endpoint, Nic, Node, Pod
from tare.wiring.plug import POD_INTERFACE, Wiring, carriers, cni_missing, config, given_away, mtu_of, plugged, silent


class Direct:
    """Move a NIC into the pod."""

    name = "direct"
    product = "the data NIC itself, moved by CNI's own host-device plug-in"
    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = True
    pods_share_nic = False

    def probe(self) -> str | None:
        return cni_missing("host-device", "static")

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "none")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        with given_away(pod.node, nic), plugged(pod, config("host-device", nic, device=nic.name)):
            yield Endpoint(
                address=nic.address,
                prefix=nic.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(*carriers((pod.pid, POD_INTERFACE, "data NIC in the pod")), *silent(pod.pid)),
            )
