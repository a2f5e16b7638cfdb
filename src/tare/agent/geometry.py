"""Derive from an environment and a placement where pods and containers are, and their addresses and cores. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Final

from tare.errors import RefusedError
from tare.model import Environment, Launching, Placement, Share, Tracking
from tare.model.placement import cores_of_container, place
from tare.model.topology import NodeCores, Topology
from tare.networks import HOST
from tare.runtimes import BARE, RUNTIMES
from tare.runtimes.containers.deployment import Deployment
from tare.system.node import Nic, Node

OUTSIDE: Final = (Launching.DAEMON, Launching.HYBRID, Launching.SRUN)
"""The ways of launching in which what starts ranks is outside of containers."""


def on_daemon_nodes(environment: Environment) -> bool:
    """Return whether an environment runs on the nodes that have a daemon (docs/adr/0004-docker-on-twins.md)."""
    return bool(environment.daemon) or RUNTIMES[environment.runtime].needs_daemon


def bare_side(environment: Environment) -> Environment:
    """Return the bare environment for the other side of an environment that is on one side only."""
    return Environment(
        name=environment.name,
        runtime=BARE,
        network=HOST,
        mpi=environment.mpi,
        transport=environment.transport,
        devices=environment.devices,
        link=replace(environment.link, br_netfilter=None, conntrack=Tracking.AS_IT_IS),
    )


def environment_on(deployment: Deployment, node: Node) -> Environment:
    """Return the environment of a node's ranks: the bare one if they are on the other side."""
    inside = node in deployment.wired_nodes
    return deployment.environment if inside else bare_side(deployment.environment)


def as_launched(environment: Environment, placement: Placement) -> Placement:
    """Return the placement with the actual number of containers: with `launch: hybrid` each rank starts one."""
    if environment.launch is Launching.HYBRID:
        return replace(placement, containers_per_node=placement.ranks_per_node)
    return placement


def enters_containers(environment: Environment, placement: Placement) -> bool:
    """Return whether a host's daemon runs outside of its containers, so that ranks enter them."""
    if pods_per_node(environment, placement) > 1:
        return False
    return placement.containers_per_node > 1 or environment.launch in OUTSIDE


def pods_per_node(environment: Environment, placement: Placement) -> int:
    """Return the number of pods on a node: one, or one a container if the placement shares nothing between them.

    A runtime that makes no containers has one pod: its ranks stay together, as the baseline of the others.
    """
    several = placement.share is Share.NONE and RUNTIMES[environment.runtime].makes_containers
    return placement.containers_per_node if several else 1


def host_name(node: Node, number: int, pods: int) -> str:
    """Return the name of a node's pod of this number as a host of the MPI; `pods` are those of the node."""
    return f"{node.name}c{number}" if pods > 1 else node.name


def nic_of_pod(nic: Nic, number: int, *, hosts: int) -> Nic:
    """Return the NIC with the address of a node's pod of this number.

    The first pod has the NIC's own address; other pods have addresses beyond those of all `hosts` of the cluster.
    """
    if number == 0:
        return nic
    interface = ipaddress.ip_interface(nic.cidr)
    address = interface.ip + number * hosts
    if address not in interface.network or address + 1 not in interface.network:
        raise RefusedError(f"the data subnet {interface.network} has no address for pod {number + 1} of a node")
    return replace(nic, address=str(address))


def container_cores(placement: Placement, places: NodeCores) -> tuple[tuple[int, ...], ...]:
    """Return the cores of each container of a node."""
    slots = place(replace(placement, nodes=1), Topology(nodes=(places,)))
    return tuple(cores_of_container(slots, node=0, container=i) for i in range(placement.containers_per_node))
