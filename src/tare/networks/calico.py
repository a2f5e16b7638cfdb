"""`calico`: Calico's data path, rebuilt: the node routes to pods without a bridge, and BGP distributes the routes.

It is not the product. A pod has a veth with a /32 address and a default route via 169.254.1.1, for which the node
answers (proxy ARP). The node has a /32 route to the pod and forwards; BIRD 2 advertises it to the other nodes. Wiring,
addresses and BGP are those of Calico (its Felix, and its confd templates); there is no Kubernetes, no store and no
policy. A node's part is entirely in its own stack (host_stack.py), with one of the node's data NICs.

`calico-ipip` encapsulates packets between nodes in IP-in-IP, as IPIPMode "Always"; `calico-ipip-cross` only those
between subnets ("CrossSubnet").
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.errors import InfrastructureError
from tare.networks.wiring import bird, ipip
from tare.networks.wiring.host_stack import lend_nic
from tare.networks.wiring.plug import POD_INTERFACE, endpoint
from tare.networks.wiring.stacked import StackedNetwork
from tare.system.counters.interfaces import Counts
from tare.system.namespaces import index_of, netlink, set_network
from tare.system.node import Endpoint, Nic, Node, Pod, Watch, Wired
from tare.system.packages import install
from tare.system.process import find
from tare.system.user_namespace import is_real_root

POOLS: Final = "10.216"
GATEWAY: Final = "169.254.1.1"
NODE_SIDE_ADDRESS: Final = "ee:ee:ee:ee:ee:ee"
"""Calico's MAC address for the node's side of every pod's veth, so that a pod's neighbour entry never changes."""


class Wrapping(StrEnum):
    """When packets between nodes are encapsulated in IP-in-IP."""

    NEVER = "never"
    ALWAYS = "always"
    CROSS_SUBNET = "between subnets"


PRODUCT: Final = "Calico's data path rebuilt: veths, proxy ARP and tare's /32 routes, spread by BIRD 2 itself over BGP"
WRAPPED: Final = {
    Wrapping.NEVER: "",
    Wrapping.ALWAYS: ", in IP-in-IP",
    Wrapping.CROSS_SUBNET: ", in IP-in-IP between subnets",
}


class Calico(StackedNetwork):
    """Route to pods over the data NIC."""

    needs_root = True
    reaches_outside = False

    def __init__(self, name: str, wrapping: Wrapping = Wrapping.NEVER) -> None:
        self.name = name
        self.product = PRODUCT + WRAPPED[wrapping]
        self.crosses_subnets = wrapping is not Wrapping.NEVER
        self.without_encapsulation = "calico" if self.crosses_subnets else ""
        self._wrapping = wrapping
        self._tunnels = ipip.NO_TUNNELS
        self._bird: Daemon | None = None

    def probe(self) -> str | None:
        if not is_real_root():
            return f"{self.name} changes forwarding and routes on its nodes, which needs root"
        if find("nsenter") is None:
            return f"nsenter is not installed: {install('util-linux')}"
        return bird.probe() or (None if self._wrapping is Wrapping.NEVER else ipip.probe())

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        place = self.place
        others = [other for other in self._nodes if other.name != node.name]
        with ExitStack() as stack:
            stack.enter_context(lend_nic(place, nic))
            _lead_to_gateway(place, nic)
            far = [
                ipip.Peer(index=other.index, address=find_same_nic(nic, other).address)
                for other in others
                if self._wraps(nic, find_same_nic(nic, other))
            ]
            if far:
                self._tunnels = stack.enter_context(ipip.tunnels(place, nic, far))
            if others:
                sessions = list_sessions(nic, others, self._tunnels)
                place.path(bird.CONFIG).write_text(bird.config(node.control_address, pool_of(nic), sessions))
                argv = bird.command(bird.program() or "bird", place.folder)
                self._bird = stack.enter_context(run_daemon(place, "bird", argv))
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        place = self.place
        address = pod_address(nic)
        mtu = nic.mtu - (0 if self._wrapping is Wrapping.NEVER else ipip.HEADER_BYTES)
        with _cable(pod, place, port_name(nic, pod.number), address, mtu):
            yield endpoint(pod, address, 24, "veth of the pod", (place.pid, nic.name, "data NIC"))

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        """Wait until the node has the routes to all pods; add the proof of encapsulation where there is any.

        The proof accounts for every byte of a node's NIC. It is left out if the node has several pods, or if packets to
        only some of the other nodes are encapsulated.
        """
        place, own = self.place, [each for each in pods if each.pod.node.name == node.name]
        for each in pods:
            ipip.add_route(self._tunnels, each.endpoint.address, each.nic.address)
        wanted = route_interfaces(node.name, own[0].nic, pods, self._tunnels)
        if self._bird is not None and wanted:
            came = partial(bird.has_routes, place.pid, wanted)
            self._bird.wait_for(came, f"the routes to {', '.join(wanted)}", limit_s=bird.ROUTES_S)
        proof = len(own) == 1 and self._all_wrapped(own[0])
        yield tuple(_proven(each.endpoint, self._tunnels, proof=proof) for each in own)

    def counted(self, watch: Watch) -> Counts:
        return ipip.read_counters(self._tunnels.counters)

    def _wraps(self, nic: Nic, other: Nic) -> bool:
        across = ipaddress.ip_interface(nic.cidr).network != ipaddress.ip_interface(other.cidr).network
        return self._wrapping is Wrapping.ALWAYS or (self._wrapping is Wrapping.CROSS_SUBNET and across)

    def _all_wrapped(self, wired: Wired) -> bool:
        others = (other for other in self._nodes if other.name != wired.pod.node.name)
        return all(self._wraps(wired.nic, find_same_nic(wired.nic, other)) for other in others)


def find_same_nic(nic: Nic, node: Node) -> Nic:
    """Return another node's NIC on the same segment."""
    return next(other for other in node.nics if other.name == nic.name)


def list_sessions(nic: Nic, others: Sequence[Node], tunnels: ipip.Tunnels) -> tuple[bird.BgpSession, ...]:
    """Return the BGP sessions of a NIC's node with all other nodes."""
    return tuple(
        bird.BgpSession(
            name=other.name,
            own=nic.address,
            other=find_same_nic(nic, other).address,
            interface=tunnels.interfaces.get(other.index, ""),
        )
        for other in others
    )


def route_interfaces(node: str, nic: Nic, pods: Sequence[Wired], tunnels: ipip.Tunnels) -> dict[str, str]:
    """Return the interface of the route to every pod on other nodes."""
    return {
        wired.endpoint.address: tunnels.interfaces.get(wired.pod.node.index, nic.name)
        for wired in pods
        if wired.pod.node.name != node
    }


def pool_of(nic: Nic) -> str:
    """Return the subnet of the pods over a NIC; pods over different NICs belong to different environments."""
    return f"{POOLS}.{nic.address.split('.')[2]}.0/24"


def pod_address(nic: Nic) -> str:
    """Return the address of the pod that would have this NIC address on another network."""
    return ".".join([POOLS, *nic.address.split(".")[2:]])


def port_name(nic: Nic, number: int) -> str:
    """Return the name of the node's side of a pod's veth."""
    return f"tarec{nic.name.removeprefix('data')}-{number}"[:15]


def _proven(endpoint: Endpoint, tunnels: ipip.Tunnels, *, proof: bool) -> Endpoint:
    watches = (*endpoint.watches, *(tunnels.watches if proof else ()))
    return replace(endpoint, watches=watches, facts={**endpoint.facts, "IP-in-IP": tunnels.means})


@contextmanager
def _cable(pod: Pod, place: Place, port: str, address: str, mtu: int) -> Iterator[None]:
    """Keep a pod wired as Calico does: a veth, routes on both sides, and proxy ARP for the gateway on the node."""
    try:
        with netlink(place.pid) as route:
            peer = {"ifname": POD_INTERFACE, "net_ns_pid": pod.pid}
            route.link("add", ifname=port, kind="veth", mtu=mtu, address=NODE_SIDE_ADDRESS, peer=peer)
            index = index_of(route, port)
            set_network(place.pid, f"ipv4/conf/{port}/proxy_arp", "1")
            set_network(place.pid, f"ipv4/neigh/{port}/proxy_delay", "0")
            route.link("set", index=index, state="up")
            route.route("add", dst=f"{address}/32", oif=index, scope="link", proto="static")
        with netlink(pod.pid) as route:
            index = index_of(route, POD_INTERFACE)
            route.addr("add", index=index, address=address, prefixlen=32)
            route.link("set", index=index, mtu=mtu, state="up")
            route.route("add", dst=f"{GATEWAY}/32", oif=index, scope="link", proto="static")
            route.route("add", dst="0.0.0.0/0", gateway=GATEWAY, oif=index, proto="static")
        yield
    finally:
        if Path(f"/proc/{place.pid}").exists():
            with suppress(FileNotFoundError, InfrastructureError), netlink(place.pid) as route:
                for index in route.link_lookup(ifname=port):
                    route.link("del", index=index)


def _lead_to_gateway(place: Place, nic: Nic) -> None:
    """Give a stack a route to the pods' gateway: the kernel answers ARP only for what it would forward.

    On a real site, the nodes' default route has this effect.
    """
    with netlink(place.pid) as route:
        route.route("add", dst=f"{GATEWAY}/32", oif=index_of(route, nic.name), scope="link", proto="static")
