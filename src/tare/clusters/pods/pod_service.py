"""Talk with the service in a pod, which sees its pod as a service sees its host: a machine with one NIC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_network
from pathlib import Path
from typing import Any, Final

from tare.agent.geometry import enters_containers
from tare.agent.protocol import DescribedPods
from tare.agent.remote import answers
from tare.agent.remote.archive import packed
from tare.agent.remote.conversation import Conversation, Unreachable
from tare.agent.remote.machine import Interface, Machine
from tare.clusters.pods.cluster_description import ServiceView
from tare.clusters.pods.gate import ExecServer, status_of
from tare.clusters.pods.manifests import NODE, RANKS, PodSpec
from tare.clusters.pods.pod_networks.further import FurtherNetwork, for_messages
from tare.clusters.pods.pods import Pods
from tare.errors import InfrastructureError
from tare.images.registry.reference import is_reference
from tare.model import Environment, Launching, Placement, Sides
from tare.runtimes.containers.deployment import IMAGE_PREFIX, Deployment, Files
from tare.system.counters.values import CounterValues
from tare.system.node import Nic, Node, Pod, Watch, Wired
from tare.system.node.cgroups import NO_GROUP
from tare.system.node.surroundings import NodeHas

LIBRARY: Final = Path("lib/libtare_wall.so")
"""The library there by which the programs of a user are measured; it is beside the kernels."""
CACHE: Final = "/tmp/tare-cache"
"""The service's folder for its own code: a container's home may be read-only."""


class PodService:
    """The service in a pod of `node`, the pod of this number there. `pod` is known from `begin` on.

    `further` is the network of the pod's messages if it is not the cluster's.
    """

    pod: Pod
    _inside: Deployment
    """What the service was asked for."""

    def __init__(self, *, node: Node, number: int, spec: PodSpec, gate: ExecServer, pods: Pods, folder: Path) -> None:
        self.spec = spec
        self._node = node
        self._number = number
        self._gate = gate
        self._pods = pods
        self._folder = folder
        self._conversation: Conversation | None = None
        self._interfaces: tuple[Interface, ...] = ()
        self._network: NodeHas | None = None
        self.further: FurtherNetwork | None = None
        self._pulled = ""

    def begin(self, site: str, order: Deployment, pod: Mapping[str, Any], data_address: str) -> None:
        """Start the service and have it describe the pod as a host of the deployment."""
        there = pod.get("spec", {}).get("nodeName")
        if there != self.spec.node:
            raise InfrastructureError(f"pod {self.spec.name} is on {there}, not on {self.spec.node}")
        name = self.spec.name
        if is_reference(order.environment.image):
            self._pulled = digest_of(pod)
            self._find_programs(order.environment.image)
        connect = (*self._gate.argv(key_of(name, NODE)), "/bin/sh", "-c")
        self._conversation = Conversation(name, connect, self._explain)
        machine = self._conversation.begin(packed(compiled=True), CACHE)
        self._interfaces = machine.interfaces
        address = data_address if self.spec.host_network else self._address_of(pod, data_address)
        host = name.partition("-")[2]
        inner = self._inner(host, machine, address)
        self.ask("open", site, inner, self._folder)
        inside = self._inside = _inner_order(order, inner)
        self.ask("prepare", inside)
        (made,) = answers.made_pods(inside, inner, self.ask("deploy", order.study))
        wired = Wired(pod=made, nic=inner.nics[0], endpoint=made.endpoint)
        (made,) = answers.made_pods(inside, inner, self.ask("join", order.study, (wired,)))
        endpoint = made.endpoint
        watches = tuple(replace(watch, pid=self._number) for watch in endpoint.watches)
        self.pod = replace(
            made,
            name=name,
            node=replace(inner, name=self._node.name),
            host=host if host != self._node.name else "",
            number=self._number,
            enter=self._gate.argv(name),
            container=name,
            outside=self._gate.argv(name),
            endpoint=replace(endpoint, watches=watches),
            control=endpoint.address,
            containers=tuple(replace(each, enter=self._gate.argv(key_of(name, each.name))) for each in made.containers),
            session=str(self._folder) if made.containers else "",
        )

    def _address_of(self, pod: Mapping[str, Any], subnet: str) -> str:
        """Return the address for messages of a pod with a network of its own."""
        self.further = for_messages(pod, self.spec.annotations, subnet)
        return self.further.address if self.further else str(pod.get("status", {}).get("podIP", ""))

    def _find_programs(self, image: str) -> None:
        """Raise `InfrastructureError` if tare's programs are not in a user's image."""
        readable = ("/bin/sh", "-c", '[ -r "$0" ]', str(IMAGE_PREFIX / LIBRARY))
        if status_of(self._gate.start(self.spec.name, readable)):
            raise InfrastructureError(
                f"the image {image} has no {IMAGE_PREFIX / LIBRARY}, by which tare measures its programs",
                remedy="copy that folder from an image of tare, in its Dockerfile: "
                f"COPY --from=IMAGE {IMAGE_PREFIX} {IMAGE_PREFIX}",
            )

    def _inner(self, name: str, machine: Machine, address: str) -> Node:
        """Return the pod as a node: with the cores that it may use, and its interface with an address as the NIC.

        The address may be a subnet.
        """
        wanted = ip_network(address, strict=False)
        found = next((each for each in machine.interfaces if IPv4Address(each.address) in wanted), None)
        if found is None:
            there = ", ".join(f"{each.name} {each.address}" for each in machine.interfaces)
            raise InfrastructureError(f"no interface of pod {self.spec.name} has the address {address}: {there}")
        return replace(
            self._node,
            name=name,
            cores=machine.cores[: len(self._node.cores)],
            layout=machine.layout,
            control_address=found.address,
            nics=(Nic(name=found.name, address=found.address, prefix=found.prefix, mtu=found.mtu),),
            pid=0,
            group=NO_GROUP,
            boot_id=machine.boot_id,
        )

    @property
    def seen(self) -> ServiceView:
        """Return what the service sees of the interfaces of its pod, or of its node."""
        own = self.pod.endpoint
        return ServiceView(
            node=self._node.machine, of_node=self.spec.host_network, interface=own.interface, mtu=own.mtu,
            others=self._interfaces, runtime_class=self.spec.runtime_class,
        )  # fmt: skip

    @property
    def takes_cluster_network(self) -> bool:
        """Return whether the pod's messages take the network that the cluster gives to all pods."""
        return not self.spec.host_network and self.further is None

    @property
    def facts(self) -> dict[str, str]:
        """Return what the pod's own object says of the network of its messages, and of a user's image: its digest."""
        return {
            **({"further network": self.further.name} if self.further else {}),
            **({"image": self._pulled} if self._pulled else {}),
        }

    def watch(self, more: tuple[Watch, ...]) -> None:
        """Watch further interfaces, which others read."""
        endpoint = self.pod.endpoint
        self.pod = replace(self.pod, endpoint=replace(endpoint, watches=(*endpoint.watches, *more)))

    def with_facts(self, facts: Mapping[str, str]) -> Pod:
        """Return the pod with further facts of its network."""
        endpoint = self.pod.endpoint
        self.pod = replace(self.pod, endpoint=replace(endpoint, facts={**endpoint.facts, **facts}))
        return self.pod

    def is_alone_in(self, network: IPv4Network) -> bool:
        """Return whether the pod has no other interface in a network, so that the network selects the right one."""
        own = self.pod.endpoint.interface
        return all(each.name == own or IPv4Address(each.address) not in network for each in self._interfaces)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Make a call of the service."""
        if self._conversation is None:
            raise Unreachable(f"the service in pod {self.spec.name} does not run")
        return self._conversation.ask(name, *arguments)

    def renew(self) -> None:
        """Tell the service that the head is there."""
        if self._conversation is not None:
            self._conversation.renew()

    def described(self) -> DescribedPods:
        """Return the description of the pod."""
        return answers.of_each_pod(self._inside, self._inside.nodes[0], self.ask("described", self._inside.study))

    @property
    def network(self) -> NodeHas:
        """Return the namespace of the network that the pod shares with its node."""
        if self._network is None:
            seen = self.described().node.namespaces
            self._network = NodeHas(namespaces={name: inode for name, inode in seen.items() if name == "net"})
        return self._network

    def counters(self, study: str, whole: bool, machine: bool, moment: int, since: int) -> CounterValues:
        """Return the pod's counters; its interfaces are told from those of the node's other pods by its number."""
        read = answers.own_counters(self._node, self.ask("counters", study, whole, machine, moment, since))
        interfaces = {(there, self._number, name): values for (there, _, name), values in read.interfaces.items()}
        unread = {(there, self._number, name): why for (there, _, name), why in read.unread.items()}
        return replace(read, interfaces=interfaces, unread=unread)

    def ended(self, study: str) -> str | None:
        """Return what in the pod has ended, or why the pod itself has."""
        try:
            reason: str | None = self.ask("ended", study)
        except Unreachable as lost:
            return self._pods.ended(self.spec.name) or lost.message
        return reason

    def close(self) -> None:
        """End the service."""
        if self._conversation is not None:
            self._conversation.close()

    def _explain(self, words: str) -> str:
        """Return why the service cannot be reached: what has become of its pod, or what the stream said."""
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        if any("python3: not found" in line for line in lines):
            return f"{self.spec.node_image} has no python3 in PATH: name another node_image, with Python 3.9 or later"
        return self._pods.ended(self.spec.name) or (lines[-1][:300] if lines else "the stream to it was closed")


def digest_of(pod: Mapping[str, Any]) -> str:
    """Return the name by digest of the image that the ranks of a pod run, "" if its node does not say."""
    listed = pod.get("status", {}).get("containerStatuses", ())
    return next((str(each.get("imageID", "")) for each in listed if each.get("name") == RANKS), "")


def key_of(pod: str, container: str) -> str:
    """Return the name by which the gate knows a container; the first one of ranks stands for the pod."""
    return pod if container == RANKS else f"{pod}/{container}"


def _inner_order(order: Deployment, node: Node) -> Deployment:
    """Return what the service in a pod is asked: to look at its containers of ranks."""
    environment = order.environment
    together = Placement(nodes=1, ranks_per_node=order.placement.ranks_per_node)
    if enters_containers(environment, order.placement):
        together = replace(order.placement, nodes=1)
    return Deployment(
        study=order.study,
        slot=order.slot,
        environment=Environment(
            name=environment.name,
            runtime=environment.runtime,
            network=environment.network,
            mpi=environment.mpi,
            image=environment.image,
            transport=environment.transport,
            sides=Sides.BOTH,
            launch=Launching.EXEC,
        ),
        placement=together,
        nodes=(node,),
        nic=0,
        hosts=order.hosts,
        files=Files(host_prefix=IMAGE_PREFIX),
    )
