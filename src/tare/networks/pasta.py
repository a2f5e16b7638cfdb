"""`pasta`: a user-mode network that gives a pod its node's address; the default of rootless Podman from version 5 on.

It could support several nodes by forwarding the ports at which ranks listen. With the pasta of Debian 12 (2023-03-09)
and Open MPI restricted to such a port range, ranks of two nodes connected and short messages passed, but messages of 64
KiB stalled for ever, with the node's MTU as with pasta's own (observed). It therefore supports one node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import POD_INTERFACE, carriers, mtu_of
from tare.networks.wiring.user_mode import (
    MACHINE_NIC,
    MTU,
    NETNS,
    netns_of,
    probe,
    probe_machine,
    run_user_mode,
    userns_of,
)
from tare.system.node import Endpoint, Nic, Pod
from tare.system.process import need


class Pasta(Network):
    """Wire a pod through pasta."""

    needs_root = True
    name = "pasta"
    product = "pasta itself, as Podman starts it"
    owns_nic = False
    reaches_outside = False
    pods_share_nic = False

    def probe(self) -> str | None:
        return probe("pasta", "passt")

    def probe_machine(self) -> str | None:
        return probe_machine("pasta", "passt")

    def refuse(self, nodes: int) -> str | None:
        if nodes > 1:
            return (
                "long messages stall between containers behind pasta: on several nodes, or with share: none, use bridge"
            )
        return None

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        program = need("pasta", package="passt")
        if pod.node.is_machine:
            nic = MACHINE_NIC
            argv = machine_command(program, pod)
        else:
            argv = command(program, nic)
        with run_user_mode(pod, argv, subnet=str(_network(nic))):
            yield Endpoint(
                address=nic.address,
                prefix=nic.prefix,
                interface=POD_INTERFACE,
                mtu=MTU if pod.node.is_machine else mtu_of(pod.pid, POD_INTERFACE),
                watches=carriers((pod.pid, POD_INTERFACE, "tap of the pod")),
            )


def command(program: str, nic: Nic) -> tuple[str, ...]:
    """Return the argv of pasta for a pod that gets a NIC's address.

    pasta requires a gateway, so it gets the subnet's last address, which no node has. It stays root, without most
    capabilities: as another user it could not enter a pod namespace that root has made.
    """
    return (
        program, "--foreground", "--quiet", "--config-net", "--ipv4-only", "--runas", "0", "--netns", NETNS,
        "--interface", nic.name, "--ns-ifname", POD_INTERFACE, "--mtu", str(MTU),
        "--address", nic.address, "--netmask", str(nic.prefix), "--gateway", str(_network(nic)[-2]),
        "--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--no-map-gw",
    )  # fmt: skip


def machine_command(program: str, pod: Pod) -> tuple[str, ...]:
    """Return the argv of pasta for a pod on a machine, as the user who runs it.

    The head's ports on 127.0.0.1 are reached at the same address from the pod: there is no control network.
    """
    nic = MACHINE_NIC
    ports = "-".join(map(str, pod.node.head_ports)) if pod.node.head_ports else "none"
    users = ("--userns", userns_of(pod)) if userns_of(pod) else ("--runas", "0")
    return (
        program, "--foreground", "--quiet", "--config-net", "--ipv4-only", *users, "--netns", netns_of(pod),
        "--ns-ifname", POD_INTERFACE, "--mtu", str(MTU),
        "--address", nic.address, "--netmask", str(nic.prefix), "--gateway", str(_network(nic)[2]),
        "--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", ports, "--udp-ns", "none", "--no-map-gw",
    )  # fmt: skip


def _network(nic: Nic) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Interface(nic.cidr).network
