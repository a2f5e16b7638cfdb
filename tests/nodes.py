"""Nodes, pods and requests for pods that nobody makes: what tests need of them is their data."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tare.model import Environment, Placement
from tare.networks.wiring.plug import Wiring
from tare.runtimes import PodRequest
from tare.runtimes.containers.deployment import Deployment, Files
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
    deployment = Deployment(
        study="s",
        slot=0,
        environment=Environment(name="e", runtime="docker", network="bridge", image="debian"),
        placement=Placement(),
        nodes=(node,),
        nic=0,
        hosts=2,
        files=Files(host_prefix=Path("/kernels"), rootfs=Path("/image/rootfs")),
    )
    request = PodRequest(deployment=deployment, node=node, host=node.name, wiring=Wiring.OWN, session="/run/tare/s-1")
    return change_request(request, **more)


def change_request(request: PodRequest, **more: Any) -> PodRequest:
    """Return a request with other values of its own, its deployment, its environment or its files.

    `packed` is the image of the request's own runtime, `gpus` are devices of its environment.
    """
    deployment = request.deployment
    if "packed" in more:
        more["packed"] = ((deployment.environment.runtime, more["packed"]),)

    def own(value: Any) -> dict[str, Any]:
        return {each.name: more.pop(each.name) for each in fields(value) if each.name in more}

    request = replace(request, **own(request))
    environment = replace(deployment.environment, **({"devices": more.pop("gpus")} if "gpus" in more else {}))
    deployment = replace(
        deployment,
        files=replace(deployment.files, **own(deployment.files)),
        environment=replace(environment, **own(environment)),
    )
    return replace(request, deployment=replace(deployment, **more))


def value(argv: tuple[str, ...], option: str) -> str:
    """Return the value of an option that is given once."""
    assert argv.count(option) == 1
    return argv[argv.index(option) + 1]
