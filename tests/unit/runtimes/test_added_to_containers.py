"""What an environment adds, binds and variables, reaches the containers of every runtime that is told by options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.node import Node, Pod
from tare.node.cgroups import Group
from tare.runtimes import PodRequest, podman, podman_rootless
from tare.wiring.plug import Wiring

NODE = Node(
    name="n0", index=0, cores=(2, 3), control_address="10.213.0.1", nics=(), pid=1,
    group=Group(path="lab/n0", hierarchies=()), boot_id="b0",
)  # fmt: skip
POD = Pod(name="tare-s-n0", node=NODE, runtime="podman", pid=1, enter=(), group=NODE.group, container="tare-s-n0")
REQUEST = PodRequest(
    name="tare-s-n0", study="s", node=NODE, wiring=Wiring.OWN, rootfs=Path("/image/rootfs"), session="/run/tare/s-1",
    binds=("/data:/in:ro",), variables=("GIVEN=it is", "OTHER=1"),
)  # fmt: skip
OPTIONS = {
    "podman, the pod": podman.run_options(REQUEST, network="none"),
    "podman, one of several": podman.join_options(POD, REQUEST, "c1", (2,)),
    "podman-rootless, the pod": podman_rootless.run_options(REQUEST),
    "podman-rootless, one of several": podman_rootless.join_options(POD, REQUEST, "c1"),
}


@pytest.mark.parametrize("container", OPTIONS)
def test_binds_and_variables_reach_the_container(container: str) -> None:
    options = OPTIONS[container]
    assert "--volume=/data:/in:ro" in options
    assert ("--env=GIVEN=it is" in options, "--env=OTHER=1" in options) == (True, True)
