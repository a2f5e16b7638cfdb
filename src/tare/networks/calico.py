"""`calico`: Calico's data path, rebuilt: pods are routed to, without a bridge, and BGP spreads the routes.

It is not the product. A pod has a veth with a /32 address and a default route through 169.254.1.1, for which the node
answers (proxy ARP); the node has a /32 route to the pod and forwards; BIRD 2 tells the other nodes. Wiring, addresses
and BGP are those of Calico (its Felix, and its confd templates); there is no Kubernetes, no store and no policy.

`calico-ipip` wraps packets between nodes in IP-in-IP, as its IPIPMode "Always"; `calico-ipip-cross` only those between
subnets ("CrossSubnet").
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.namespaces import index_of, netlink, set_network
from tare.networks import bird, ipip
from tare.networks.plug import POD_INTERFACE, Wiring, carriers, mtu_of, silent
from tare.node import Endpoint, Nic, Node, Pod, Wired
from tare.process import find, need, run
from tare.user_namespace import is_real_root

POOLS: Final = "10.216"
GATEWAY: Final = "169.254.1.1"
NODE_SIDE_ADDRESS: Final = "ee:ee:ee:ee:ee:ee"
"""What Calico gives the node's side of every pod's veth, so that a pod's neighbour never changes."""
GATEWAY_METRIC: Final = 1000
"""Environments of a node have a route to the gateway each, told apart by this and the number of their NIC."""


class Wrapping(StrEnum):
    """When packets between nodes are wrapped in IP-in-IP."""

    NEVER = "never"
    ALWAYS = "always"
    CROSS_SUBNET = "between subnets"


PRODUCT: Final = "Calico's data path rebuilt: veths, proxy ARP and /32 routes of ours, spread by BIRD 2 itself over BGP"
WRAPPED: Final = {
    Wrapping.NEVER: "",
    Wrapping.ALWAYS: ", in IP-in-IP",
    Wrapping.CROSS_SUBNET: ", in IP-in-IP between subnets",
}


class Calico:
    """Route to pods over the data NIC."""

    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = False
    pods_share_nic = True

    def __init__(self, name: str, wrapping: Wrapping = Wrapping.NEVER) -> None:
        self.name = name
        self.product = PRODUCT + WRAPPED[wrapping]
        self._wrapping = wrapping

    def probe(self) -> str | None:
        if not is_real_root():
            return f"{self.name} sets up its nodes' forwarding and routes: that needs root"
        if find("nsenter") is None:
            return "nsenter is not installed: apt-get install util-linux"
        return bird.missing() or (None if self._wrapping is Wrapping.NEVER else ipip.missing())

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "none")

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        with _forwarding(node), _gateway(node, nic), _accepted(node, nic):
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        address = pod_address(nic)
        mtu = nic.mtu - (0 if self._wrapping is Wrapping.NEVER else ipip.HEADER_BYTES)
        with _cable(pod, port_name(nic, pod.number), address, mtu):
            yield Endpoint(
                address=address,
                prefix=24,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers((pod.pid, POD_INTERFACE, "veth of the pod"), (pod.node.pid, nic.name, "data NIC")),
                    *silent(pod.pid),
                ),
            )

    @contextmanager
    def joined(self, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        """Spread the routes to all pods; yield the endpoints, with the proof that packets are wrapped where they are.

        The proof needs every byte of a node's NIC: where nodes have several pods, or only some of the other nodes are
        wrapped for, it is left out.
        """
        places = [tuple(group) for _, group in groupby(pods, key=lambda wired: wired.pod.node.name)]
        if len(places) == 1:
            yield tuple(wired.endpoint for wired in pods)
            return
        with ExitStack() as stack:
            up = [self._tunnels(stack, place, places) for place in places]
            for place, tunnels in zip(places, up, strict=True):
                first = place[0]
                config = bird.sessions_config(pool_of(first.nic), sessions_of(place, places, tunnels))
                stack.enter_context(bird.speaking(first.pod.node, first.nic.name, config))
            bird.wait_for_routes(
                [(place[0].pod.node, ways(place, places, tunnels)) for place, tunnels in zip(places, up, strict=True)]
            )
            yield tuple(
                _proven(wired, tunnels, proof=len(place) == 1 and self._all_wrapped(place, places))
                for place, tunnels in zip(places, up, strict=True)
                for wired in place
            )

    def _tunnels(self, stack: ExitStack, place: Sequence[Wired], places: Sequence[Sequence[Wired]]) -> ipip.Tunnels:
        far = [
            ipip.Far(index=number, address=other[0].nic.address, pods=tuple(each.endpoint.address for each in other))
            for number, other in enumerate(places)
            if other is not place and self._wraps(place[0].nic, other[0].nic)
        ]
        if not far:
            return ipip.Tunnels(means="none", watches=())
        return stack.enter_context(ipip.tunnels(place[0].pod.node, place[0].nic, far))

    def _wraps(self, one: Nic, other: Nic) -> bool:
        across = ipaddress.ip_interface(one.cidr).network != ipaddress.ip_interface(other.cidr).network
        return self._wrapping is Wrapping.ALWAYS or (self._wrapping is Wrapping.CROSS_SUBNET and across)

    def _all_wrapped(self, place: Sequence[Wired], places: Sequence[Sequence[Wired]]) -> bool:
        return all(self._wraps(place[0].nic, other[0].nic) for other in places if other is not place)


def sessions_of(
    place: Sequence[Wired], places: Sequence[Sequence[Wired]], tunnels: ipip.Tunnels
) -> tuple[bird.Session, ...]:
    """Return the sessions of the node of one place with those of all others."""
    own = place[0].nic
    return tuple(
        bird.Session(
            name=f"{own.name}_{other[0].pod.node.name}",
            own=own.address,
            other=other[0].nic.address,
            interface=tunnels.interfaces.get(number, ""),
        )
        for number, other in enumerate(places)
        if other is not place
    )


def ways(place: Sequence[Wired], places: Sequence[Sequence[Wired]], tunnels: ipip.Tunnels) -> dict[str, str]:
    """Return the interface of the route to every pod of another node."""
    return {
        each.endpoint.address: tunnels.interfaces.get(number, place[0].nic.name)
        for number, other in enumerate(places)
        if other is not place
        for each in other
    }


def pool_of(nic: Nic) -> str:
    """Return the subnet of the pods over a NIC; pods over different NICs are those of different environments."""
    return f"{POOLS}.{nic.address.split('.')[2]}.0/24"


def pod_address(nic: Nic) -> str:
    """Return the address of the pod that has this address of a NIC, or would have it on another network."""
    return ".".join([POOLS, *nic.address.split(".")[2:]])


def port_name(nic: Nic, number: int | str) -> str:
    """Return the name of the node's side of a pod's veth."""
    return f"tarec{nic.name.removeprefix('data')}-{number}"[:15]


def _proven(wired: Wired, tunnels: ipip.Tunnels, *, proof: bool) -> Endpoint:
    endpoint = wired.endpoint
    watches = (*endpoint.watches, *(tunnels.watches if proof else ()))
    return replace(endpoint, watches=watches, facts={**endpoint.facts, "IP-in-IP": tunnels.means})


@contextmanager
def _cable(pod: Pod, port: str, address: str, mtu: int) -> Iterator[None]:
    """Keep a pod wired as Calico does: a veth, routes on both sides, and a node that answers for the gateway."""
    node = pod.node
    try:
        with netlink(node.pid) as route:
            peer = {"ifname": POD_INTERFACE, "net_ns_pid": pod.pid}
            route.link("add", ifname=port, kind="veth", mtu=mtu, address=NODE_SIDE_ADDRESS, peer=peer)
            index = index_of(route, port)
            set_network(node.pid, f"ipv4/conf/{port}/proxy_arp", "1")
            set_network(node.pid, f"ipv4/neigh/{port}/proxy_delay", "0")
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
        if Path(f"/proc/{node.pid}").exists():
            with suppress(FileNotFoundError, InfrastructureError), netlink(node.pid) as route:
                for index in route.link_lookup(ifname=port):
                    route.link("del", index=index)


@contextmanager
def _forwarding(node: Node) -> Iterator[None]:
    """Let a node forward packets for as long as it has pods that are routed to."""
    before = set_network(node.pid, "ipv4/ip_forward", "1")
    try:
        yield
    finally:
        with suppress(InfrastructureError, FileNotFoundError):
            set_network(node.pid, "ipv4/ip_forward", before)


@contextmanager
def _gateway(node: Node, nic: Nic) -> Iterator[None]:
    """Keep a route to the pods' gateway: the kernel answers ARP for what it would itself send elsewhere.

    A site's nodes have a default route, which does; nodes of a lab have none.
    """
    number = int(nic.address.split(".")[2])
    what = {"dst": f"{GATEWAY}/32", "scope": "link", "priority": GATEWAY_METRIC + number, "proto": "static"}
    with netlink(node.pid) as route:
        route.route("add", oif=index_of(route, nic.name), **what)
    try:
        yield
    finally:
        if Path(f"/proc/{node.pid}").exists():
            with suppress(FileNotFoundError, InfrastructureError), netlink(node.pid) as route:
                route.route("del", oif=index_of(route, nic.name), **what)


@contextmanager
def _accepted(node: Node, nic: Nic) -> Iterator[None]:
    """Let what is forwarded to and from pods through where Docker forbids all that is not its own.

    Calico does so too: its chains are asked first, and accept what goes to or comes from a pod.
    """
    rules = accept_rules(nic) if node.docker_socket else ()
    enter = ("nsenter", f"--net=/proc/{node.pid}/ns/net", f"--mount=/proc/{node.pid}/ns/mnt", "--")
    made: list[tuple[str, ...]] = []
    try:
        for rule in rules:
            what = f"letting packets of pods through on {node.name}"
            iptables = need("iptables", package="iptables")
            run((*enter, iptables, "-w", "-I", *rule), timeout_s=20, what=what)
            made.append(rule)
        yield
    finally:
        if Path(f"/proc/{node.pid}").exists():
            for rule in made:
                run((*enter, "iptables", "-w", "-D", *rule), timeout_s=20, check=False)


def accept_rules(nic: Nic) -> tuple[tuple[str, ...], ...]:
    """Return the rules that accept what comes from the pods over a NIC, and what goes to them."""
    pods = port_name(nic, "+")
    comment = ("-m", "comment", "--comment", "tare", "-j", "ACCEPT")
    return ("FORWARD", "-i", pods, *comment), ("FORWARD", "-o", pods, *comment)
