"""What an environment adds, binds and variables, reaches the containers of every runtime that is told by options."""

from __future__ import annotations

import pytest

from nodes import make_node, make_pod, make_request
from tare.runtimes import podman, podman_rootless

NODE = make_node(cores=(2, 3))
POD = make_pod(NODE, runtime="podman", container="tare-s-n0")
REQUEST = make_request(NODE, binds=("/data:/in:ro",), variables=("GIVEN=it is", "OTHER=1"))
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
