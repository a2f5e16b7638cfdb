"""Create a small cluster inside this machine from namespaces.

Each node has net, mnt, uts, ipc, pid and cgroup namespaces, its own cores, hostname, boot_id, /tmp, /run and /dev/shm.
Two more network namespaces hold the control network (its bridge is also the head's interface) and the data switch; the
host's own network is not touched. The data switch has one segment for each NIC index, so that environments that own a
NIC do not receive each other's frames. With two subnets each segment has two bridges, joined by a router.
"""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.clusters.lab_cores import topology
from tare.clusters.lab_links import add_bridge, add_peer, add_port, set_up
from tare.errors import RefusedError
from tare.model import LabSpec
from tare.model.topology import NodeCores
from tare.system.fault import reach
from tare.system.namespaces import (
    bridges_pass_netfilter,
    hold_all,
    index_of,
    is_holder,
    netlink,
    set_network,
)
from tare.system.node import Nic, Node
from tare.system.node.cgroups import Group, file_systems, group
from tare.system.node.process_stat import runs
from tare.system.paths import cache_folder
from tare.system.signals import uninterrupted
from tare.system.waiting import wait_until

MAX_NODES: Final = 200
CONTROL_PREFIX: Final = 16
CONTROL: Final = "10.213"
DATA: Final = "10.214"
LOOPBACK: Final = 1
"""The index of `lo` in every network namespace."""
HEAD_ADDRESS: Final = f"{CONTROL}.255.254"
HALF: Final = 128
"""Number of addresses in each of two data subnets: halves of one, so that an MPI's options can name both as one."""
ROUTER: Final = 126
"""Offset of the router's address in a half: the last usable one."""
NODE_NAMESPACES: Final = ("net", "mnt", "uts", "ipc", "pid", "cgroup")
OWN_FOLDERS: Final = ("/tmp", "/run", "/dev/shm")
"""Folders that every node has to itself, empty."""
END_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab that is up. `head_pid` holds the control network, `switch_pid` the data switch, `router_pid` a router.

    `twins` duplicate the hosts (same cores, own namespaces and addresses), for software that changes a host by being
    installed on it, such as Docker (docs/adr/0004-docker-on-twins.md).
    """

    name: str
    spec: LabSpec
    head_pid: int
    switch_pid: int
    nodes: tuple[Node, ...]
    group: Group
    shares_cores: bool
    twins: tuple[Node, ...] = ()
    router_pid: int = 0

    @property
    def holders(self) -> tuple[int, ...]:
        """Return the processes that hold the lab's namespaces."""
        beside = (self.head_pid, self.switch_pid, *([self.router_pid] if self.router_pid else []))
        return (*beside, *(node.pid for node in (*self.nodes, *self.twins)))

    @property
    def ended(self) -> str:
        """Return what of the lab has ended although it should be up, "" if nothing has."""
        beside = {
            "the control network": self.head_pid,
            "the data switch": self.switch_pid,
            "the router": self.router_pid,
        }
        held = {**beside, **{f"node {node.name}": node.pid for node in (*self.nodes, *self.twins)}}
        return next((f"what holds {what} of the lab" for what, pid in held.items() if pid and not runs(pid)), "")

    @property
    def launchers(self) -> Group:
        """Return the cgroup of processes started on the head, which the cluster creates."""
        return self.group.below("head")

    @property
    def control_subnet(self) -> str:
        """Return the control network's subnet."""
        return f"{CONTROL}.0.0/{CONTROL_PREFIX}"


def up(
    name: str,
    spec: LabSpec,
    *,
    nics: int = 1,
    keep: Sequence[str] = (),
    twins: bool = False,
    counts: Collection[int] = (),
) -> Lab:
    """Create a lab with `nics` data NICs a node; folders in `keep` stay visible on all nodes, and so do tare's own.

    With `twins` each node has a twin. `counts` are the numbers of nodes of placements, for each of which the machine's
    cores are divided; a node may use all cores that it has in any of them. Raises `RefusedError` for an impossible size
    and `InfrastructureError` if the kernel refuses; nothing is left behind then.
    """
    most = MAX_NODES // 2 if twins else MAX_NODES
    if not 1 <= spec.nodes <= most:
        beside = " beside as many with Docker" if twins else ""
        raise RefusedError(f"a lab of {spec.nodes} nodes{beside} is not possible: 1 to {most}")
    if not 1 <= spec.subnets <= min(2, spec.nodes):
        raise RefusedError(f"{spec.nodes} nodes in {spec.subnets} subnets are not possible: 1 or 2, of a node at least")
    if not 1 <= nics <= 250:
        raise RefusedError(f"{nics} data NICs a node are not possible: 1 to 250")
    places, shares = topology(spec, counts)
    top = group(name)
    holders: list[int] = []
    try:
        with uninterrupted():
            kept = (*own_places(), *keep)
            made = _make_nodes(name, places.nodes * (1 + twins), top, kept, holders, nics, spec=spec)
        reach("lab:held")
        head, switch = holders[0], holders[1]
        router = holders[2] if spec.subnets > 1 else 0
        _wire(made, head, switch, spec)
        if router:
            _wire_router(made, switch, router, spec)
    except BaseException:
        with uninterrupted():
            _end(name, holders, top)
        raise
    return Lab(
        name=name,
        spec=spec,
        head_pid=head,
        switch_pid=switch,
        nodes=made[: spec.nodes],
        twins=made[spec.nodes :],
        group=top,
        shares_cores=shares,
        router_pid=router,
    )


def own_places() -> tuple[str, ...]:
    """Return the folders of tare's own that programs on nodes may open: its cache, its sources, its interpreters'.

    Nodes would hide those that are below one of `OWN_FOLDERS`.
    """
    cache = cache_folder()
    with suppress(OSError):  # a read-only one is there already; a node shows only what exists when it is made
        cache.mkdir(parents=True, exist_ok=True)
    return (os.path.abspath(cache), str(Path(__file__).resolve().parents[1]), sys.prefix, sys.base_prefix)


def down(lab: Lab) -> None:
    """Kill every process of the lab; namespaces and links disappear with them. Then remove the cgroups."""
    with uninterrupted():
        _end(lab.name, lab.holders, lab.group)


def mark(lab: str, part: str) -> str:
    """Return the mark of a holder, which is part of its command line."""
    return f"tare:{lab}:{part}"


def _make_nodes(
    name: str,
    places: Sequence[NodeCores],
    top: Group,
    keep: Sequence[str],
    holders: list[int],
    nics: int,
    *,
    spec: LabSpec,
) -> tuple[Node, ...]:
    """Create a node for each entry of `places`; those after the first `spec.nodes` are twins, in the same order."""
    hosts = spec.nodes
    beside = ("head", "switch", *(["router"] if spec.subnets > 1 else []))
    names = [f"n{i}" if i < hosts else f"d{i - hosts}" for i in range(len(places))]
    groups = [top.below(each).create(own.in_any_placement) for each, own in zip(names, places, strict=True)]
    switches = top.below("switch").create()
    specs: list[tuple[str, dict[str, Any]]] = [
        (mark(name, part), {"new": ["net", "uts"], "cgroups": _folders(switches), "hostname": f"tare-{part}"})
        for part in beside
    ]
    boot_ids = [str(uuid.uuid4()) for _ in places]
    for i, own in enumerate(places):
        own_spec = _node_spec(names[i], groups[i], own.in_any_placement, boot_ids[i], keep)
        specs.append((mark(name, names[i]), {**own_spec, "hosts": hosts_file(names)}))
    answers = hold_all(specs)
    holders.extend(answer for answer in answers if isinstance(answer, int))
    for answer in answers:
        if not isinstance(answer, int):
            raise answer
    return tuple(
        Node(
            name=names[i],
            index=i % hosts,
            cores=own.cores,
            layout=own.layout,
            shares=own.shares,
            control_address=control_address(i),
            nics=tuple(data_nic(k, i, spec) for k in range(nics)),
            pid=holders[i + len(beside)],
            group=groups[i],
            boot_id=boot_ids[i],
        )
        for i, own in enumerate(places)
    )


def control_address(place: int) -> str:
    """Return the control address of the node with this number; twins are numbered after the nodes."""
    return f"{CONTROL}.0.{place + 1}"


def hosts_file(names: Sequence[str]) -> str:
    """Return the text of each node's /etc/hosts: programs find their own host and the others, as in a cluster."""
    own = "".join(f"{control_address(i)} {name}\n" for i, name in enumerate(names))
    return f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{own}"


def data_nic(segment: int, place: int, spec: LabSpec) -> Nic:
    """Return a data NIC of the node with this index; twins are numbered after the nodes."""
    name = f"data{segment}"
    if spec.subnets == 1:
        return Nic(name=name, address=f"{DATA}.{segment}.{place + 1}", prefix=24)
    own = spec.subnet_of(place % spec.nodes)
    together = [node for node in range(spec.nodes) if spec.subnet_of(node) == own]
    number = together.index(place % spec.nodes) + place // spec.nodes * len(together)
    return Nic(
        name=name,
        address=f"{DATA}.{segment}.{own * HALF + number + 1}",
        prefix=25,
        gateway=router_address(segment, own),
        beyond=f"{DATA}.{segment}.0/24",
    )


def router_address(segment: int, subnet: int) -> str:
    """Return the router's address in one of two subnets of a segment."""
    return f"{DATA}.{segment}.{subnet * HALF + ROUTER}"


def _folders(of: Group) -> list[str]:
    return [str(folder) for folder in of.folders]


def _node_spec(name: str, of: Group, cores: tuple[int, ...], boot_id: str, keep: Sequence[str]) -> dict[str, Any]:
    leaf = of.create_leaf()
    return {
        "new": list(NODE_NAMESPACES),
        "cgroups": _folders(of),
        "leaf": [] if leaf is of else _folders(leaf),
        "hostname": name,
        "cpus": list(cores),
        "boot_id": boot_id,
        "tmpfs": list(OWN_FOLDERS),
        "keep": [str(path) for path in keep],
        "cgroupfs": [list(entry) for entry in file_systems(of.hierarchies)],
    }


def _end(name: str, holders: Sequence[int], top: Group) -> None:
    if top.hierarchies:
        top.kill()
        top.remove()
        return
    left = {pid for pid in holders if is_holder(pid, name)}
    for pid in left:  # when the first process of a pid namespace ends, the kernel kills all others in it
        os.kill(pid, 9)
    wait_until(lambda: not any(is_holder(pid, name) for pid in left), END_S, pause_s=0.002)


def _wire(nodes: Sequence[Node], head: int, switch: int, spec: LabSpec) -> None:
    nics = len(nodes[0].nics)
    plain_bridges([head, switch, *(node.pid for node in nodes)])
    with netlink(head) as route:
        bridge = add_bridge(route, "ctl0")
        route.addr("add", index=bridge, address=HEAD_ADDRESS, prefixlen=CONTROL_PREFIX)
        set_up(route, LOOPBACK)
        for node in nodes:
            add_port(route, bridge, node.pid, port=node.name, peer="ctl0", spec=None)
    with netlink(switch) as route:
        set_up(route, LOOPBACK)
        for k in range(nics):
            segments = [add_bridge(route, segment_name(k, subnet)) for subnet in range(spec.subnets)]
            for node in nodes:
                segment = segments[spec.subnet_of(node.index)]
                add_port(route, segment, node.pid, port=f"{node.name}data{k}", peer=f"data{k}", spec=spec)
    for node in nodes:
        with netlink(node.pid) as route:
            set_up(route, LOOPBACK)
            indices = {link.get_attr("IFLA_IFNAME"): link["index"] for link in route.get_links()}
            addresses = [("ctl0", node.control_address, CONTROL_PREFIX)]
            addresses += [(nic.name, nic.address, nic.prefix) for nic in node.nics]
            for interface, address, prefix in addresses:
                route.addr("add", index=indices[interface], address=address, prefixlen=prefix)
                set_up(route, indices[interface])


def segment_name(segment: int, subnet: int) -> str:
    """Return the name of a bridge of the data switch."""
    return f"sw{segment}" + ("" if subnet == 0 else "b")


def _wire_router(nodes: Sequence[Node], switch: int, router: int, spec: LabSpec) -> None:
    """Connect the two subnets of every segment, and add each node's route to the other subnet."""
    ports = [(k, subnet) for k in range(len(nodes[0].nics)) for subnet in range(spec.subnets)]
    with netlink(switch) as route:
        for k, subnet in ports:
            segment = index_of(route, segment_name(k, subnet))
            name = f"router{k}-{subnet}"
            add_port(route, segment, router, port=name, peer=name, spec=spec)
    with netlink(router) as route:
        set_up(route, LOOPBACK)
        for k, subnet in ports:
            index = index_of(route, f"router{k}-{subnet}")
            route.addr("add", index=index, address=router_address(k, subnet), prefixlen=25)
            set_up(route, index)
    set_network(router, "ipv4/ip_forward", "1")
    for node in nodes:
        with netlink(node.pid) as route:
            for nic in node.nics:
                route.route("add", dst=nic.beyond, gateway=nic.gateway, oif=index_of(route, nic.name))


def plain_bridges(pids: Sequence[int]) -> None:
    """Exclude bridges from netfilter: else a bridge's cost would depend on whether br_netfilter is loaded."""
    for pid in pids:
        bridges_pass_netfilter(pid, False)


def segment_mtu(lab: Lab, nic: int, mtu: int) -> dict[int, int]:
    """Set the MTU of the switch's ports and bridges for the NICs of a number; return the previous MTUs by index."""
    with netlink(lab.switch_pid) as route:
        links = route.get_links()
        ports = [link for link in links if re.fullmatch(rf"\D+\d+data{nic}", link.get_attr("IFLA_IFNAME"))]
        wanted = {link["index"] for link in ports} | {link.get_attr("IFLA_MASTER") for link in ports}
        before = {link["index"]: int(link.get_attr("IFLA_MTU")) for link in links if link["index"] in wanted}
        for index in sorted(before, key=lambda index: index not in {port["index"] for port in ports}):
            route.link("set", index=index, mtu=mtu)
    return before


def restore_mtu(lab: Lab, before: Mapping[int, int]) -> None:
    """Restore the MTUs of the switch's links."""
    if not before or not os.path.exists(f"/proc/{lab.switch_pid}"):
        return
    with netlink(lab.switch_pid) as route:
        there = {link["index"] for link in route.get_links()}
        for index in there & before.keys():
            route.link("set", index=index, mtu=before[index])


def attach_control(lab: Lab, pid: int, *, name: str, address: str) -> None:
    """Add an interface `ctl0` on the control network to the network namespace of process `pid`."""
    with netlink(lab.head_pid) as route:
        bridge = index_of(route, "ctl0")
        add_peer(route, bridge, pid, port=name, peer="ctl0")
    with netlink(pid) as route:
        set_up(route, index_of(route, "lo"))  # PMIx uses it to reach its daemon
        index = index_of(route, "ctl0")
        route.addr("add", index=index, address=address, prefixlen=CONTROL_PREFIX)
        set_up(route, index)


def detach_control(lab: Lab, name: str) -> None:
    """Remove a pod's interface on the control network, if it is still there."""
    if not os.path.exists(f"/proc/{lab.head_pid}"):
        return
    with netlink(lab.head_pid) as route:
        for index in route.link_lookup(ifname=name):
            route.link("del", index=index)
