"""What a pod network of a lab's Kubernetes is."""

from __future__ import annotations

import ipaddress
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

from tare.daemons.daemons import Daemon
from tare.daemons.kubernetes import FOLDER, KubernetesDaemons
from tare.errors import InfrastructureError
from tare.networks.wiring.plug import CNI_VERSION
from tare.system.node import Node

LENGTH: Final = 24
"""The prefix length of the subnet of a node's pods."""


class LabNetwork(ABC):
    """A network between the nodes' first data NICs, for pods of a runtime class.

    `title` says in one line what it is. `devices` are what messages between nodes pass besides NIC and the pods' own
    veths, each with its role in the proof: whoever uses another network leaves them silent. Of networks with the same
    `alone` a lab has one.
    """

    runtime_class: ClassVar[str]
    title: ClassVar[str]
    subnet: ClassVar[str]
    devices: ClassVar[Mapping[str, str]]
    alone: ClassVar[str] = ""

    def lacks(self) -> str | None:
        """Return what it needs beside the usual network's programs and this machine lacks, or None."""
        return None

    @property
    def folder(self) -> str:
        """Return the folder of its CNI configuration on every node."""
        return f"{FOLDER}/cni-{self.runtime_class}" if self.runtime_class else f"{FOLDER}/cni"

    @abstractmethod
    def running(
        self, nodes: Sequence[Node], kubernetes: KubernetesDaemons
    ) -> AbstractContextManager[tuple[Daemon, ...]]:
        """Keep it up on the nodes, and yield its daemons; pods can be made, and reach each other, when it begins."""

    def write(self, node: Node, plugin: Mapping[str, Any], subnet: str) -> None:
        """Write a node's CNI configuration of one plug-in, whose pods get addresses in a subnet."""
        folder = Path(f"/proc/{node.pid}/root{self.folder}")
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / ".tare"
        unfinished.write_text(json.dumps(self.configuration(plugin, subnet)))
        unfinished.rename(folder / "10-tare.conflist")

    def configuration(self, plugin: Mapping[str, Any], subnet: str) -> dict[str, Any]:
        """Return a CNI configuration; its name is that under which CNI notes which addresses are in use."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": self.subnet}],
        }
        name = self.runtime_class or "pods"
        return {"cniVersion": CNI_VERSION, "name": name, "plugins": [{**plugin, "ipMasq": False, "ipam": ipam}]}


def divided(network: ipaddress.IPv4Network, node: Node, *, whose: str) -> str:
    """Return the subnet that a node's pods have of a network; `whose` begins the sentence if there is none left."""
    found = list(network.subnets(new_prefix=LENGTH))
    if node.index >= len(found):
        raise InfrastructureError(f"{whose} have {len(found)} subnets, and none for node {node.index + 1}")
    return str(found[node.index])
