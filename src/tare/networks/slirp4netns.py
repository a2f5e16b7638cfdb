"""`slirp4netns`: the user-mode network of rootless Podman before pasta.

Every pod has the same address behind it, so it supports one node only. It shows the cost of such a container that talks
to nobody, as `docker-default` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import POD_INTERFACE, endpoint
from tare.networks.wiring.user_mode import MTU, NETNS, probe, run_user_mode
from tare.system.node import Endpoint, Nic, Pod
from tare.system.process import need

ADDRESS: Final = "10.0.2.100"
SUBNET: Final = "10.0.2.0/24"


class Slirp4netns(Network):
    """Wire a pod through slirp4netns."""

    needs_root = True
    name = "slirp4netns"
    product = "slirp4netns itself, as Podman starts it"
    owns_nic = False
    reaches_outside = False
    pods_share_nic = False

    def probe(self) -> str | None:
        return probe("slirp4netns", "slirp4netns")

    def probe_machine(self) -> str | None:
        return "behind slirp4netns a container cannot reach the MPI's launcher on 127.0.0.1 of its machine: use pasta"

    def refuse(self, nodes: int) -> str | None:
        if nodes > 1:
            return f"slirp4netns gives every container the address {ADDRESS}, so two cannot reach each other: use pasta"
        return None

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        with run_user_mode(pod, command(need("slirp4netns", package="slirp4netns")), subnet=SUBNET):
            yield endpoint(pod, ADDRESS, 24, "tap of the pod", only=False)


def command(program: str) -> tuple[str, ...]:
    """Return the argv of slirp4netns, as Podman calls it, for the namespace at `NETNS`."""
    return (
        program, "--configure", f"--mtu={MTU}", "--disable-host-loopback", "--enable-seccomp", "--netns-type=path",
        NETNS, POD_INTERFACE,
    )  # fmt: skip
