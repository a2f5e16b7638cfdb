"""Compose environments: runtime x network x image.

Plug-ins do not depend on each other. This module decides which combinations are supported, with a reason for each that
is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tare.agent.geometry import OUTSIDE, enters_containers, pods_per_node
from tare.clusters import Cluster
from tare.errors import RefusedError
from tare.images import is_known, with_mpi
from tare.images.registry.reference import is_reference
from tare.model import Control, Environment, LabSpec, Launching, Placement, RankOrder, Sides
from tare.mpi import MPIS
from tare.mpi.defaults import with_transport
from tare.mpi.launch.ways import way_of
from tare.networks import NETWORKS, Wiring, find
from tare.networks.wiring import transports
from tare.runtimes import RUNTIMES
from tare.system import devices
from tare.system.node.limits import limited


def refuse(environment: Environment, placement: Placement) -> str | None:
    """Return why an environment's parts cannot run in a placement; nothing is read from disk."""
    network = find(environment.network)
    runtime, mpi = RUNTIMES[environment.runtime], MPIS[environment.mpi]
    if len({runtime.is_fake, network.is_fake, mpi.is_fake}) > 1:
        return "the fake runtime, networks and MPI can only be combined with each other"
    if reason := _refuse_wiring(environment) or network.refuse(placement.nodes * pods_per_node(environment, placement)):
        return reason
    if is_reference(environment.image) and not runtime.by_cluster:
        return f"{environment.image} is pulled by the nodes of a cluster alone: name a recipe, or the path of an image"
    if reason := _refuse_daemon(environment) or _refuse_launch(environment, placement) or _refuse_gpus(environment):
        return reason
    if reason := _refuse_mounts(environment):
        return reason
    if environment.sides is not Sides.BOTH and not network.reaches_outside:
        return f"{environment.network} cannot reach outside itself, so it cannot be on one side only: use sides: both"
    if pods_per_node(environment, placement) > 1 and not runtime.pods_are_hosts:
        return f"containers of {environment.runtime} have their node's hostname and cannot be hosts: use share: pod"
    if pods_per_node(environment, placement) > 1 and not network.pods_share_nic:
        return f"{environment.network} has no address for each container: use bridge, macvlan or overlay, or share: pod"
    if environment.sides is not Sides.BOTH and placement.containers_per_node > 1:
        return "one side only is measured with one container a node: use containers_per_node: 1"
    if runtime.is_fake and (limited(placement) or placement.cpu_weight):
        return "the fake runtime starts nothing that could be limited"
    if not runtime.limits_each_container and limited(placement) and enters_containers(environment, placement):
        return "an ordinary user cannot limit each of several containers of a pod: use share: none, or run as root"
    return (
        _refuse_rank_order(environment, placement)
        or _refuse_transport(environment, placement)
        or _refuse_link(environment)
    )


def _refuse_mounts(environment: Environment) -> str | None:
    """Return why an environment's processes cannot see files or shared memory of their own, or None."""
    if environment.binds and not environment.image:
        return (
            f"binds need a container or an image, but {environment.runtime} here uses the host's files: leave binds out"
        )
    if environment.shm_size and not RUNTIMES[environment.runtime].sizes_shared_memory:
        others = ", ".join(name for name, each in RUNTIMES.items() if each.sizes_shared_memory)
        return f"{environment.runtime} has its node's /dev/shm, as large as it is: leave shm_size out, or use {others}"
    return None


def _refuse_rank_order(environment: Environment, placement: Placement) -> str | None:
    """Return why ranks cannot be given to an environment's nodes in turn, or None."""
    mpi, order = MPIS[environment.mpi], placement.rank_order
    if order is RankOrder.BLOCK:
        return None
    if environment.sides is not Sides.BOTH:
        return f"one side only has its ranks on one node: leave rank_order: {order} out"
    if pods_per_node(environment, placement) > 1:
        return f"rank_order: {order} needs one host a node: use share: pod, or one container a node"
    if environment.launch is not Launching.SRUN and order not in mpi.rank_orders:
        others = ", ".join(name for name, each in MPIS.items() if order in each.rank_orders and not each.is_fake)
        return f"{mpi.title} cannot be told rank_order: {order} by tare: use {others}, or launch: srun"
    return None


def _refuse_wiring(environment: Environment) -> str | None:
    """Return why a runtime's containers cannot be connected to an environment's network, or None."""
    runtime, network = RUNTIMES[environment.runtime], find(environment.network)
    if runtime.shares_network and network.wiring is not Wiring.NODE:
        return f"containers of {environment.runtime} have their node's network and no other: use host"
    if network.by_cluster and not runtime.by_cluster:
        return f"{network.name} is what a cluster gives to pods that it makes itself: {runtime.name} has none"
    if runtime.by_cluster and not network.by_cluster and network.wiring is not Wiring.NODE:
        return f"pods of {runtime.name} have the cluster's network, or their node's: use pod-network or host"
    if environment.runtime_class and not runtime.by_cluster:
        return f"containers of {runtime.name} have no RuntimeClass, which pods of a Kubernetes have: leave it out"
    if network.wiring is Wiring.DOCKER and not runtime.takes_docker_networks:
        return f"{network.name} is wired by Docker itself: {environment.runtime} cannot use it; use bridge or macvlan"
    return None


def _refuse_daemon(environment: Environment) -> str | None:
    """Return why an environment cannot run on nodes that have a daemon, or None."""
    if environment.daemon and RUNTIMES[environment.runtime].needs_daemon:
        return f"containers of {environment.runtime} are on a node with a daemon anyway: leave `daemon` out"
    if environment.daemon and RUNTIMES[environment.runtime].is_fake:
        return "the fake runtime has no nodes with a daemon"
    return None


def _refuse_gpus(environment: Environment) -> str | None:
    """Return why an environment's GPUs cannot be given to its processes, or None."""
    runtime, wanted = RUNTIMES[environment.runtime], devices.gpus_of(environment.devices)
    return next((reason for gpu in wanted if (reason := runtime.refuse_gpu(gpu, environment.image))), None)


def _refuse_transport(environment: Environment, placement: Placement) -> str | None:
    """Return why messages cannot use an environment's transport, or None."""
    mpi, transport = MPIS[environment.mpi], environment.transport
    if transports.is_local(transport) and placement.nodes > 1:
        return "shared memory does not reach from one node to another: use transport: tcp"
    if not mpi.ways:
        return None if transport in ("tcp", "shm") else f"{mpi.name} sends no messages and has no transport {transport}"
    try:
        way = way_of(mpi.ways, transport, mpi.title)
    except RefusedError as refused:
        return refused.message
    detail = transports.read(transport).detail
    if detail in way.cannot:
        return f"{mpi.title} has no {transport}: {way.cannot[detail]}"
    if transport == "ipoib" and find(environment.network).wiring is not Wiring.NODE:
        return f"{environment.network} does not give pods the node's interface of IP over InfiniBand: use host"
    if way.by_network and placement.ranks_per_node > 1 and not transports.is_local(transport):
        problem = f"{mpi.title} uses {transport} between ranks of one node too, over lo"
        return f"{problem}: use one rank a node, or a transport that leaves them to shared memory"
    takes_port = transports.needs_port(transport, environment.devices)
    isolated = RUNTIMES[environment.runtime].isolates_devices
    if takes_port and isolated and devices.INFINIBAND not in environment.devices:
        return (
            f"transport: {transport} in a container of {environment.runtime} needs the adapter's device files: "
            "set devices: infiniband"
        )
    return None


def _refuse_link(environment: Environment) -> str | None:
    """Return why an environment's link settings cannot be applied, or None."""
    wanted, network = environment.link, find(environment.network)
    if not wanted:
        return None
    if RUNTIMES[environment.runtime].is_fake:
        return "the fake runtime has no link settings"
    if network.wiring is not Wiring.NODE and not network.owns_nic:
        return f"{network.name} has no NIC of its own, which link settings need: use host, bridge, direct or macvlan"
    if wanted.conntrack and network.wiring is Wiring.NODE:
        return (
            "link: conntrack needs a pod with its own network namespace, which host lacks: "
            "use bridge, direct or macvlan"
        )
    if wanted.br_netfilter is not None and not network.has_bridge:
        return f"link: br_netfilter needs a bridge, which {network.name} lacks: use bridge"
    return None


def refuse_subnets(environment: Environment, placement: Placement, lab: LabSpec) -> str | None:
    """Return why an environment cannot span subnets, if the placement's nodes are in several, or None."""
    if lab.subnet_of(min(placement.nodes, lab.nodes) - 1) == 0 or find(environment.network).crosses_subnets:
        return None
    others = ", ".join(sorted(name for name, network in NETWORKS.items() if network.crosses_subnets))
    return f"{environment.network} joins nodes of one subnet, and these are in {lab.subnets}: use one of {others}"


def _refuse_launch(environment: Environment, placement: Placement) -> str | None:
    """Return why an environment's launch method is not supported, or None."""
    runtime, way = RUNTIMES[environment.runtime], environment.launch
    own_pods = pods_per_node(environment, placement) > 1
    if way is not Launching.SSH:
        if environment.control is Control.DATA:
            return "the data network reaches from pod to pod only: control: data needs launch: ssh"
        if environment.ssh_port:
            return f"ssh_port has no effect with launch: {way}: use launch: ssh"
    if runtime.one_container and enters_containers(environment, placement):
        return f"a pod of {environment.runtime} is one container: use containers_per_node: 1 and launch: exec"
    if runtime.by_cluster or way is Launching.MPIJOB:
        return _refuse_launch_in_cluster(environment, several=placement.containers_per_node > 1)
    if way is Launching.EXEC:
        return None
    if environment.sides is not Sides.BOTH:
        return f"one side only is launched with exec, not with {way}"
    several = placement.containers_per_node > 1 and runtime.makes_containers and not own_pods
    if way is Launching.SSH:
        if not runtime.runs_sshd:
            return f"a pod of {environment.runtime} lacks the privileges to run sshd: use launch: hybrid or exec"
        if several:
            return "ssh reaches a pod and not the containers in it: use share: none, or launch: daemon"
        return None
    return _refuse_container_launch(environment, own_pods=own_pods, several=several)


def _refuse_launch_in_cluster(environment: Environment, *, several: bool) -> str | None:
    """Return why pods that a cluster makes cannot be launched in this way, or why others cannot, or None."""
    runtime, way = RUNTIMES[environment.runtime], environment.launch
    if not runtime.by_cluster:
        return "launch: mpijob needs the MPI Operator of a Kubernetes: use runtime: kubernetes"
    if way not in (Launching.EXEC, Launching.MPIJOB):
        return f"launch: {way} is not possible in pods of {runtime.name}: use launch: exec, or mpijob"
    if way is Launching.MPIJOB and several:
        return "an MPIJob has one container a node: use containers_per_node: 1, or launch: exec"
    return None


def _refuse_container_launch(environment: Environment, *, own_pods: bool, several: bool) -> str | None:
    """Return why a launch method that needs containers is not supported, or None."""
    runtime, way = RUNTIMES[environment.runtime], environment.launch
    if way is Launching.SRUN and not runtime.makes_containers:
        return None
    if not runtime.makes_containers:
        return f"launch: {way} needs containers, which {environment.runtime} does not make: use launch: exec"
    if way in OUTSIDE and own_pods:
        return f"launch: {way} starts ranks from one place a host, not one a container: use share: pod"
    if way is Launching.HYBRID and runtime.holds_containers:
        return f"containers of {environment.runtime} run before the ranks, which enter them: use launch: daemon"
    if way is Launching.HOST_MPI and several:
        return (
            "launch: host-mpi runs the daemon in the pod's only container: use share: none, or containers_per_node: 1"
        )
    return None


def refuse_pods(environment: Environment, cluster: Cluster, spec: LabSpec) -> str | None:
    """Return why an environment's pods are not those that a cluster makes itself, or None."""
    runtime = RUNTIMES[environment.runtime]
    if runtime.is_fake and cluster.is_fake:
        return None
    if cluster.makes_pods(spec) and not runtime.by_cluster:
        made = " or ".join(name for name, each in RUNTIMES.items() if each.by_cluster)
        return f"cluster {cluster.name} makes its pods itself: use runtime: {made}"
    if runtime.by_cluster and not cluster.makes_pods(spec):
        return f"pods of {runtime.name} are made by a cluster: use cluster: {runtime.name}"
    return None


def refuse_launcher(environment: Environment, cluster: Cluster) -> str | None:
    """Return why a batch system cannot start an environment's ranks on a cluster, or None."""
    if environment.launch is not Launching.SRUN:
        return "pmi has no effect without launch: srun: leave it out" if environment.pmi else None
    if not cluster.runs_jobs:
        return "launch: srun needs an allocation of Slurm: use cluster: slurm"
    if not MPIS[environment.mpi].pmis:
        return f"srun cannot start ranks of {environment.mpi}: use launch: exec"
    kinds = MPIS[environment.mpi].pmis
    if environment.pmi and environment.pmi.partition("_")[0] not in kinds:
        return f"ranks of {environment.mpi} would not find each other by {environment.pmi}: use pmi: {kinds[0]}"
    if find(environment.network).wiring is not Wiring.NODE:
        return (
            f"ranks that srun starts reach Slurm over the node's own loopback, which {environment.network} hides: "
            "use network: host, or launch: exec"
        )
    runtime = RUNTIMES[environment.runtime]
    if runtime.needs_daemon:
        return f"containers of {environment.runtime} belong to its daemon and not to srun's step: use launch: exec"
    return None


def apart(environments: Iterable[Environment]) -> dict[str, str]:
    """Return by name the environments that cannot be in one study with the others, each with the reason.

    A study's Docker daemons are started once: either in a Swarm or with a key-value store.
    """
    listed = tuple(environments)
    if not any(find(each.network).needs_swarm for each in listed):
        return {}
    reason = (
        "Docker's daemons are in a Swarm for overlay, which excludes --cluster-store: put overlay-etcd in its own study"
    )
    return {each.name: reason for each in listed if find(each.network).needs_store}


def needs_root(environment: Environment, placement: Placement) -> bool:
    """Return whether an environment in a placement needs root in a lab."""
    parts = (RUNTIMES[environment.runtime], find(environment.network))
    return (
        any(part.needs_root for part in parts)
        or bool(environment.daemon)
        or limited(placement)
        or placement.cpu_weight > 0
    )


def nic_slots(pairs: Iterable[tuple[Environment, Placement]]) -> dict[tuple[Environment, Placement], int]:
    """Return the index of each environment's data NIC by placement: 0 is shared, those that own one get the next."""
    slots: dict[tuple[Environment, Placement], int] = {}
    following = 1
    for environment, placement in pairs:
        if (environment, placement) in slots:
            continue
        if find(environment.network).owns_nic or environment.link or environment.sides is not Sides.BOTH:
            slots[environment, placement] = following
            following += 1
        else:
            slots[environment, placement] = 0
    return slots


def under(environment: Environment, mpi: str) -> Environment:
    """Return the environment with another MPI ("": unchanged); an image of tare's is replaced by that MPI's."""
    if mpi in ("", environment.mpi):
        return environment
    image = environment.image
    if is_known(image) and environment.launch is not Launching.HOST_MPI:
        image = with_mpi(image, MPIS[mpi].alike)
    return with_transport(replace(environment, mpi=mpi, image=image))
