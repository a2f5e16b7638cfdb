"""`direct`: the data NIC itself is moved into the pod (CNI host-device) and fully restored, as in papers/001."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import config, endpoint, probe_cni, wire_by_cni, without_address
from tare.system.node import Endpoint, Nic, Pod


class Direct(Network):
    """Move a NIC into the pod."""

    name = "direct"
    product = "the data NIC itself, moved by CNI's own host-device plug-in"
    pods_share_nic = False
    has_bridge = False
    passes_node = False

    def probe(self) -> str | None:
        return probe_cni("host-device", "static")

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        with without_address(pod.node, nic), wire_by_cni(pod, config("host-device", nic, device=nic.name)):
            yield endpoint(pod, nic.address, nic.prefix, "data NIC in the pod")
