"""In mode l3 each node routes to the pods of the others, because they do not answer ARP."""

from __future__ import annotations

from dataclasses import replace

from tare.networks.ipvlan import routes_to
from tare.node import Endpoint, Nic, Node, Pod, Wired
from tare.node.cgroups import Group


def node(index: int) -> Node:
    nics = tuple(Nic(name=f"data{k}", address=f"10.214.{k}.{index + 1}", prefix=24) for k in range(2))
    group = Group(path=f"lab/n{index}", hierarchies=())
    return Node(
        name=f"n{index}", index=index, cores=(index,), control_address="10.213.0.1", nics=nics, pid=0, group=group,
        boot_id="b",
    )  # fmt: skip


def wired(index: int, number: int = 0) -> Wired:
    at = node(index)
    pod = Pod(name=f"p{index}-{number}", node=at, runtime="bare", pid=1, enter=(), group=at.group, number=number)
    address = f"10.218.1.{index + 1 + 10 * number}"
    # The NIC's address for a second pod differs from the address that the node keeps, which is the gateway.
    nic = replace(at.nics[1], address=f"10.214.1.{index + 1 + 10 * number}")
    return Wired(pod=pod, nic=nic, endpoint=Endpoint(address=address, prefix=24, interface="eth0", mtu=1500))


def test_a_node_gets_a_route_to_every_pod_of_the_others_through_their_node() -> None:
    pods = [wired(0), wired(0, 1), wired(1), wired(1, 1)]
    routes = [(str(route.network), route.gateway, route.interface) for route in routes_to(node(0), pods)]
    assert routes == [("10.218.1.2/32", "10.214.1.2", "data1"), ("10.218.1.12/32", "10.214.1.2", "data1")]


def test_a_node_alone_needs_no_route() -> None:
    assert routes_to(node(0), [wired(0)]) == []
