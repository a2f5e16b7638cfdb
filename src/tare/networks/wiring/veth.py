"""Create a veth pair, one end in a pod and one in its node, for networks that no CNI plug-in makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare.networks.wiring.plug import POD_INTERFACE
from tare.system.namespaces import index_of, netlink
from tare.system.node import Nic, Pod


@contextmanager
def make_veth(pod: Pod, outer: str, nic: Nic) -> Iterator[None]:
    """Keep a pair: `outer` in the node, and the pod's interface with the address and MTU of `own`.

    Removing one end removes both.
    """
    with netlink(pod.node.pid) as route:
        inner = {"ifname": POD_INTERFACE, "net_ns_pid": pod.pid, "mtu": nic.mtu}
        route.link("add", ifname=outer, kind="veth", mtu=nic.mtu, peer=inner)
        route.link("set", index=index_of(route, outer), state="up")
    with netlink(pod.pid) as route:
        index = index_of(route, POD_INTERFACE)
        route.addr("add", index=index, address=nic.address, prefixlen=nic.prefix)
        route.link("set", index=index, state="up")
    try:
        yield
    finally:
        if Path(f"/proc/{pod.node.pid}").exists():
            with netlink(pod.node.pid) as route:
                for index in route.link_lookup(ifname=outer):
                    route.link("del", index=index)
