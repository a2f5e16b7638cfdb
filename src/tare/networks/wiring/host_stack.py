"""Give an environment its own network stack on a node: a separate namespace with one of the node's data NICs.

Routing, encapsulation and filtering change the host that they are installed on: forwarding, routes, netfilter hooks,
connection tracking. In its own stack a product has its usual names and ports, whatever other networks are up, and a
bare job on the same node does not pay for it (docs/adr/0007-host-stacks.md).
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.daemons.daemons import Place
from tare.errors import InfrastructureError
from tare.networks.wiring.plug import restore
from tare.system.namespaces import bridges_pass_netfilter, hold, index_of, inside_network, netlink
from tare.system.node import Nic, Node, Pod

NODE_KINDS: Final = ("net", "mnt", "uts", "ipc", "pid", "cgroup")
CONTROL: Final = "ctl0"
INTERFACE: Final = "store0"
"""Must differ from the node's name: kernels before 6.15 check a new name in the requesting namespace, not in the
target."""
CONTROL_PREFIX: Final = 16
FIRST_OCTET: Final = 128
"""Pods have lower third octets on the control network; the head node has 255."""
MOST_SLOTS: Final = 120
FORWARD: Final = Path("/proc/sys/net/ipv4/ip_forward")


@contextmanager
def host_stack(node: Node, study: str, what: str) -> Iterator[Place]:
    """Keep a namespace on a node that forwards and reaches the control network; it has no data NIC yet."""
    spec = {
        "new": ["net", "mnt"],  # mounts too, because /sys shows the network devices
        "join": node.pid,
        "join_kinds": list(NODE_KINDS),
        "cgroups": [str(folder) for folder in node.group.below("pods").create().folders],
        "cpus": list(node.cores),
    }
    name = f"{what}-{study}"
    pid = hold(f"tare:{study}:{what}-{node.name}", spec)
    place = Place(node=node, pid=pid, folder=f"/run/tare-{name}")
    try:
        place.path().mkdir(parents=True)
        bridges_pass_netfilter(pid, False)
        with inside_network(pid):
            FORWARD.write_text("1")
        _reach_control(place, control_address(node, study))
        yield place
    finally:
        shutil.rmtree(place.path(), ignore_errors=True)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def control_address(node: Node, study: str) -> str:
    """Return a node's address on the control network for the stack of an environment."""
    slot = study.rpartition("-")[2]
    number = int(slot) if slot.isdecimal() else 0
    if number >= MOST_SLOTS:
        raise InfrastructureError(
            f"the control network has addresses for only {MOST_SLOTS} environments at once", remedy="divide the study"
        )
    base = ".".join(node.control_address.split(".")[:2])
    return f"{base}.{FIRST_OCTET + number}.{node.index + 1}"


@contextmanager
def lend_nic(place: Place, nic: Nic) -> Iterator[None]:
    """Move a NIC into a stack with its address, and restore it completely."""
    node = place.node
    _move(nic, node.pid, place.pid)
    try:
        with netlink(place.pid) as route:
            restore(route, nic)
        yield
    finally:
        if Path(f"/proc/{place.pid}").exists() and Path(f"/proc/{node.pid}").exists():
            _move(nic, place.pid, node.pid)
            with netlink(node.pid) as route:
                restore(route, nic)


def in_stack(pod: Pod, place: Place) -> Pod:
    """Return a pod whose node is the stack, so that changes to the node's network are made in the stack."""
    return replace(pod, node=replace(pod.node, pid=place.pid))


def _move(nic: Nic, source: int, target: int) -> None:
    with netlink(source) as route:
        route.link("set", index=index_of(route, nic.name), net_ns_pid=target)


def _reach_control(place: Place, address: str) -> None:
    """Connect a stack to the control network through a macvlan on the node's own interface."""
    with netlink(place.node.pid) as route:
        route.link(
            "add",
            ifname=INTERFACE,
            kind="macvlan",
            macvlan_mode="bridge",
            link=index_of(route, CONTROL),
            net_ns_pid=place.pid,
        )
    with netlink(place.pid) as route:
        route.link("set", index=index_of(route, "lo"), state="up")
        index = index_of(route, INTERFACE)
        route.addr("add", index=index, address=address, prefixlen=CONTROL_PREFIX)
        route.link("set", index=index, state="up")
