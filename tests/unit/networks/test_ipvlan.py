"""In mode l3 each node routes to the pods of the others, because they do not answer ARP."""

from __future__ import annotations

from dataclasses import replace

from nodes import make_node, make_pod
from tare.networks.ipvlan import routes_to
from tare.node import Endpoint, Nic, Node, Wired


def node(index: int) -> Node:
    nics = tuple(Nic(name=f"data{k}", address=f"10.214.{k}.{index + 1}", prefix=24) for k in range(2))
    return make_node(index, nics=nics, pid=0)


def wired(index: int, number: int = 0) -> Wired:
    at = node(index)
    pod = make_pod(at, name=f"p{index}-{number}", number=number)
    address = f"10.218.1.{index + 1 + 10 * number}"
    # The NIC's address for a second pod differs from the address that the node keeps, which is the gateway.
    nic = replace(at.nics[1], address=f"10.214.1.{index + 1 + 10 * number}")
    return Wired(pod=pod, nic=nic, endpoint=Endpoint(address=address, prefix=24, interface="eth0", mtu=1500))


def test_a_node_gets_a_route_to_every_pod_of_the_others_if_there_are_any() -> None:
    pods = [wired(0), wired(0, 1), wired(1), wired(1, 1)]
    routes = [(str(route.network), route.gateway, route.interface) for route in routes_to(node(0), pods)]
    assert routes == [("10.218.1.2/32", "10.214.1.2", "data1"), ("10.218.1.12/32", "10.214.1.2", "data1")]
    assert routes_to(node(0), [wired(0)]) == []
