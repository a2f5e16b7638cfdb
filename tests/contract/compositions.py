"""Which runtimes and networks can run together, and what contract tests make environments of."""

from __future__ import annotations

import re
from typing import Any

from tare.model import Environment
from tare.networks import NETWORKS
from tare.node import Nic, Node
from tare.node.cgroups import Group
from tare.runtimes import RUNTIMES

WIRED = ("host", "bridge", "direct", "macvlan", "ipvlan-l2", "ipvlan-l3", "ovs", "weave")
"""Networks that every runtime can have, also on two nodes. A new one of these adds its name here."""
SUPPORTED = {(runtime, network) for runtime in RUNTIMES if runtime != "fake" for network in WIRED} | {
    ("docker", "overlay"), ("fake", "fake"), ("fake", "fake-slow"),
}  # fmt: skip
SUPPORTED |= {("docker", "overlay-etcd")} | {
    (runtime, network)
    for runtime in RUNTIMES
    if runtime != "fake"
    for network in ("flannel", "flannel-host-gw", "flannel-udp", "canal", "calico", "calico-ipip", "calico-ipip-cross")
}
"""What can run on two nodes. A new plug-in adds its pairs here; every other pair must be refused with its reason."""
ONE_NODE = {("docker", "docker-default")} | {
    (runtime, network) for runtime in RUNTIMES if runtime != "fake" for network in ("pasta", "slirp4netns")
}
PAIRS = [(runtime, network) for runtime in RUNTIMES for network in NETWORKS]

NODE = Node(
    name="n0",
    index=0,
    cores=(2, 3),
    control_address="10.213.0.1",
    nics=(Nic(name="data0", address="10.214.0.1", prefix=24),),
    pid=0,
    group=Group(path="x/n0", hierarchies=()),
    boot_id="b0",
)


def is_sentence(text: str) -> bool:
    """Tell whether a text is one line that a user can read: some words, no traceback, no Python value."""
    return len(text.split()) >= 4 and "\n" not in text and "Traceback" not in text and not re.search(r"[<{]\w+ ", text)


def composed(runtime: str, network: str, **more: Any) -> Environment:
    mpi = "fake" if runtime == "fake" else "openmpi"
    image = "debian-openmpi" if RUNTIMES[runtime].needs_image else ""
    return Environment(name="e", runtime=runtime, network=network, mpi=mpi, image=image, **more)
