"""Nodes, pods and requests for pods that nobody makes: what tests need of them is their data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.networks.wiring.plug import Wiring
from tare.runtimes import PodRequest
from tare.system.node import Nic, Node, Pod
from tare.system.node.cgroups import Group


def make_node(index: int = 0, **more: Any) -> Node:
    """Return a node as the lab numbers them, with one core, one data NIC and no cgroup."""
    node = Node(
        name=f"n{index}",
        index=index,
        cores=(index,),
        control_address=f"10.213.0.{index + 1}",
        nics=(Nic(name="data0", address=f"10.214.0.{index + 1}", prefix=24),),
        pid=1,
        group=Group(path=f"lab/n{index}", hierarchies=()),
        boot_id=f"b{index}",
    )
    return replace(node, **more)


def make_pod(node: Node, **more: Any) -> Pod:
    """Return the pod of a study on a node, in the node's own cgroup."""
    pod = Pod(name=f"tare-s-{node.name}", node=node, runtime="bare", pid=1, enter=(), group=node.group)
    return replace(pod, **more)


def make_request(node: Node, **more: Any) -> PodRequest:
    """Return what a runtime is asked for: a pod of the study `s` on a network of its own."""
    request = PodRequest(
        name=f"tare-s-{node.name}",
        study="s",
        node=node,
        wiring=Wiring.OWN,
        rootfs=Path("/image/rootfs"),
        session="/run/tare/s-1",
    )
    return replace(request, **more)


def value(argv: tuple[str, ...], option: str) -> str:
    """Return the value of an option that is given once."""
    assert argv.count(option) == 1
    return argv[argv.index(option) + 1]
