"""Serve this machine as a node that its administrator has given to tare: with cgroups, NICs and daemons, as in a lab.

The node's namespaces are those of process 1. A pod with its own network gets a second interface on the control network,
a macvlan with an address that the administrator has set aside.
"""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.daemons import docker
from tare.errors import InfrastructureError, RefusedError
from tare.system.namespaces import index_of, netlink
from tare.system.node import Node, Pod, bridges
from tare.system.node.cgroups import MARK, group
from tare.system.process import find, need, run

FIRST: Final = 1
"""The process in whose namespaces a machine's own processes are."""
SYSTEM_DAEMON: Final = Path("/run/docker.sock")
FORWARD: Final = Path("/proc/sys/net/ipv4/ip_forward")
FILTERS: Final = ("iptables", "ip6tables")
STATE: Final = Path("/run/docker")
TABLES: Final = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
}
"""The tables that Docker writes to, with their chains."""
LEFT: Final = (STATE, Path("/run/docker.pid"), SYSTEM_DAEMON, Path("/run/containerd"))
PODS_OF_A_SLOT: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a node of `nodes` may use: `addresses` is the part of the control subnet (CIDR) set aside for pods."""

    nodes: int
    addresses: str


@contextmanager
def in_groups(name: str, node: Node) -> Iterator[Node]:
    """Keep a cgroup for a site's node and yield the node as its service sees it; all its processes end with it."""
    top = group(name)
    own = top.below(node.name).create(node.cores)
    own.create_leaf()
    try:
        yield replace(node, pid=FIRST, group=own)
    finally:
        top.kill()
        top.remove()


@contextmanager
def connected(terms: Terms, pod: Pod, slot: int) -> Iterator[str]:
    """Give a pod with its own network an interface on the control network, and yield its address there."""
    node = pod.node
    if not pod.own_network:
        yield node.control_address
        return
    address = address_of(terms, slot=slot, place=pod.number * terms.nodes + node.index)
    network = ipaddress.ip_network(terms.addresses)
    with netlink(node.pid) as route:
        parent, prefix, name = _control(route, node.control_address)
        made = f"tc{slot}-{pod.number}"
        route.link("add", ifname=made, kind="macvlan", link=parent, macvlan_mode="bridge", net_ns_pid=pod.pid)
    with netlink(pod.pid) as route:
        route.link("set", index=index_of(route, "lo"), state="up")
        index = index_of(route, made)
        route.link("set", index=index, ifname=name)
        route.addr("add", index=index, address=address, prefixlen=min(prefix, network.prefixlen))
        route.link("set", index=index, state="up")
    yield address


def address_of(terms: Terms, *, slot: int, place: int) -> str:
    """Return the control address of a pod; raise `RefusedError` if there are not enough."""
    network = ipaddress.ip_network(terms.addresses)
    number = slot * PODS_OF_A_SLOT + place + 1
    if place >= PODS_OF_A_SLOT or number >= network.num_addresses - 1:
        raise RefusedError(f"{terms.addresses} has no address for pod {place + 1} of environment {slot + 1}")
    return str(network[number])


@contextmanager
def with_docker(node: Node, log_folder: Path) -> Iterator[Node]:
    """Keep a Docker daemon up on the node and yield the node with its socket; what the daemon changes is undone."""
    if SYSTEM_DAEMON.exists():
        raise InfrastructureError(
            f"a Docker daemon runs on {node.machine or node.name} already, where tare would start one of its own",
            remedy="stop it (systemctl stop docker docker.socket), or leave the host out of daemon_hosts",
        )
    with (
        bridges.as_they_were(),
        _as_it_was(node),
        docker.daemons((node,), log_folder=log_folder, swarm=False, options=docker_options(node)) as (ready,),
    ):
        yield ready


def docker_options(node: Node) -> tuple[str, ...]:
    """Return the options of a daemon whose containers are in the node's cgroup; in a lab the namespace does it."""
    return ("--cgroup-parent", f"/{node.group.hierarchies[0].base}/{MARK}/{node.group.path}/docker".replace("//", "/"))


@contextmanager
def _as_it_was(node: Node) -> Iterator[None]:
    """Restore the packet filter, the forwarding of packets, and the links of a machine after a daemon."""
    filters = {program: run((path,)).stdout for program in FILTERS if (path := find(f"{program}-save"))}
    forward = FORWARD.read_text()
    left = [place for place in LEFT if not place.exists()]
    with netlink(node.pid) as route:
        before = {link.get_attr("IFLA_IFNAME") for link in route.get_links()}
    try:
        yield
    finally:
        with netlink(node.pid) as route:
            for link in route.get_links():
                name = link.get_attr("IFLA_IFNAME")
                if name not in before and name.startswith("docker"):
                    route.link("del", index=link["index"])
        for program, rules in filters.items():
            restore = need(f"{program}-restore", package="iptables")
            run((restore,), stdin=whole(rules), check=False, what=f"restoring the rules of {program}")
        FORWARD.write_text(forward)
        for mounted in sorted(STATE.glob("netns/*")) if STATE in left else ():
            run(("umount", "--lazy", str(mounted)), check=False)
        for place in left:
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):
                place.unlink()


def whole(rules: str) -> str:
    """Return saved rules with an empty table for each of `TABLES` that did not exist: else its new rules would stay."""
    empty = ""
    for table, chains in TABLES.items():
        if f"*{table}\n" not in rules:
            policies = "".join(f":{chain} ACCEPT [0:0]\n" for chain in chains)
            empty += f"*{table}\n{policies}COMMIT\n"
    return rules + empty


def _control(route: object, address: str) -> tuple[int, int, str]:
    """Return index, length of the prefix, and name of the interface with an address."""
    for link in route.get_addr(family=2):  # type: ignore[attr-defined]
        if link.get_attr("IFA_ADDRESS") == address:
            return int(link["index"]), int(link["prefixlen"]), str(link.get_attr("IFA_LABEL"))
    raise InfrastructureError(f"no interface has the address {address}")
