"""Say which pods a deployment needs on a node of a Kubernetes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final

from tare.agent.geometry import enters_containers, pods_per_node
from tare.clusters.pods.manifests import PodSpec
from tare.images.registry.reference import is_reference
from tare.model import Environment, KubernetesSpec, Launching, Placement
from tare.networks import HOST
from tare.runtimes.containers.deployment import Deployment

TAG: Final = "tare"
LONGEST: Final = 30
"""The prefix of the smallest network: of one pod alone, a network of its own that has room for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """What all pods of a site have in common: its name and folder, its namespace, the study's settings.

    `devices` are what the network of each runtime class has on the nodes, with roles, and `titles` what it is, where
    that is known (`lab_networks`).
    """

    site: str
    folder: Path
    namespace: str
    settings: KubernetesSpec
    node_image: str
    devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    def pods(self, order: Deployment, node: str, machine: str) -> tuple[PodSpec, ...]:
        """Return the pods of an order on a node, whose name is `node` here and `machine` in the cluster."""
        environment, settings = order.environment, self.settings
        cpus, memory = asked(environment, order.placement, exclusive=settings.exclusive)
        return tuple(
            PodSpec(
                name=f"e{order.slot}-{host}",
                namespace=self.namespace,
                run=self.site,
                slot=order.slot,
                node=machine,
                image=image_of(settings.registry, environment.image, order.files.image_tag),
                node_image=self.node_image,
                host_network=environment.network == HOST,
                runtime_class=environment.runtime_class,
                shared_memory=str(environment.shm_size or ""),
                cpus=cpus,
                memory=memory,
                pull_policy=settings.pull_policy,
                pull_secrets=settings.pull_secrets,
                variables=environment.env,
                resources=pairs(settings.resources),
                annotations=pairs(settings.annotations),
                fields=fields_of(settings),
                containers=containers_of(environment, order.placement),
            )
            for host in hosts_of(environment, order.placement, node)
        )


def hosts_of(environment: Environment, placement: Placement, node: str) -> tuple[str, ...]:
    """Return the names of a node's pods as hosts of the MPI.

    The host of an MPIJob's worker is not named as its node: on the node's network, an MPI would take the launcher's
    pod for it.
    """
    count = pods_per_node(environment, placement)
    apart = count > 1 or environment.launch is Launching.MPIJOB
    return tuple(f"{node}c{number}" for number in range(count)) if apart else (node,)


def containers_of(environment: Environment, placement: Placement) -> int:
    """Return the number of containers for ranks in a pod."""
    return placement.containers_per_node if enters_containers(environment, placement) else 1


def asked(environment: Environment, placement: Placement, *, exclusive: bool) -> tuple[float, str]:
    """Return the CPUs and the memory that a container of ranks asks for; 0 and "" if they take what is there."""
    each = pods_per_node(environment, placement) * containers_of(environment, placement)
    ranks = placement.ranks_per_node // each
    cpus = placement.cpus_per_container or (float(ranks * placement.threads_per_rank) if exclusive else 0.0)
    memory = placement.memory_per_container
    return cpus, str(memory) if memory else ""


def image_of(registry: str, name: str, tag: str) -> str:
    """Return the name of an image in the cluster, given its tag in Docker, which ends with its digest.

    The name of an image in a registry stays as it is.
    """
    if is_reference(name):
        return name
    own = f"{TAG}/{name}:{tag.rpartition(':')[2]}"
    return f"{registry}/{own}" if registry else own


def common_network(addresses: Sequence[str]) -> IPv4Network:
    """Return the smallest network that has all addresses: pods of several nodes are in subnets of their own."""
    numbers = [int(IPv4Address(each)) for each in addresses]
    length = 32 - (min(numbers) ^ max(numbers)).bit_length()
    return IPv4Network((min(numbers), min(length, LONGEST)), strict=False)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return what is written as `NAME=value` as a mapping."""
    return dict(text.partition("=")[::2] for text in texts)


def fields_of(settings: KubernetesSpec) -> Mapping[str, Any]:
    """Return the further fields of pods."""
    found: dict[str, Any] = json.loads(settings.pod) if settings.pod else {}
    return found


def tolerated(settings: KubernetesSpec) -> frozenset[str]:
    """Return the keys of the taints that a study's pods tolerate; "" is every one."""
    listed = fields_of(settings).get("tolerations", ())
    return frozenset(str(each.get("key", "")) for each in listed if isinstance(each, dict))
