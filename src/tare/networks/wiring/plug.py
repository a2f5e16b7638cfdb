"""Share code among networks: kinds of wiring, calls of CNI plug-ins, restoring a moved NIC."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare.errors import CommandFailed, InfrastructureError, RefusedError
from tare.system.namespaces import index_of, inside_network, netlink
from tare.system.node import SILENT_ROLE, Endpoint, Nic, Node, Pod, Watch
from tare.system.packages import install
from tare.system.process import run
from tare.system.waiting import wait_until

if TYPE_CHECKING:
    from pyroute2 import IPRoute

CNI_FOLDERS: Final = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
CNI_VERSION: Final = "0.4.0"
POD_INTERFACE: Final = "eth0"
IFF_RUNNING: Final = 0x40
UNUSED_PORT: Final = 9
"""discard: inetd's, which containers of MPI programs do not have."""
OVERLAY_SUBNETS: Final = "10.215"
POD_SUBNETS: Final = "10.218"
SUBNETS: Final = tuple(
    (ipaddress.IPv4Network(f"{first}.0.0/16"), what)
    for first, what in (
        ("10.213", "the lab's control network"),
        ("10.214", "the lab's data networks (their addresses are ${cidr})"),
        (OVERLAY_SUBNETS, "for the overlays of Docker"),
        ("10.216", "for docker0, and for pods of calico"),
        ("10.217", "for pods of flannel"),
        (POD_SUBNETS, "for pods with a subnet of their own"),
    )
)
"""The networks that tare uses itself, each with its purpose."""


class Wiring(StrEnum):
    """Who provides a pod's network namespace: the node (its own), tare (makes and wires it), or Docker (does both)."""

    NODE = "node"
    OWN = "own"
    DOCKER = "docker"


def refuse_docker_wiring(wiring: Wiring, runtime: str) -> None:
    """Raise `RefusedError` if Docker is to wire a pod of another runtime."""
    if wiring is Wiring.DOCKER:
        raise RefusedError(f"{runtime} cannot use a network that Docker makes")


def cni_folders() -> tuple[Path, ...]:
    """Return the existing folders that may hold CNI plug-ins; those in CNI_PATH come first."""
    named = [folder for folder in os.environ.get("CNI_PATH", "").split(":") if folder]
    return tuple(path for path in map(Path, (*named, *CNI_FOLDERS)) if path.is_dir())


def cni_plugin(name: str) -> Path | None:
    """Return the program of a CNI plug-in, or None."""
    return next((path for folder in cni_folders() if (path := folder / name).is_file()), None)


def probe_cni(*plugins: str) -> str | None:
    """Return a sentence on the missing CNI plug-ins, or None."""
    missing = [name for name in plugins if cni_plugin(name) is None]
    if missing:
        return f"CNI plug-in {', '.join(missing)} is missing: {install('containernetworking-plugins')}"
    return None


def call_cni(command: str, config: Mapping[str, Any], pod: Pod, where: str = "") -> dict[str, Any]:
    """Call a CNI plug-in (ADD or DEL) for a pod, in its node's network namespace; return its result.

    `where` says in error messages which plug-in of a chain failed. A pod that is gone has no network namespace: DEL
    then undoes what is left on the node.
    """
    plugin = str(config["type"])
    program = cni_plugin(plugin)
    if program is None:
        raise InfrastructureError(probe_cni(plugin) or f"CNI plug-in {plugin} not found")
    environment = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": pod.name,
        "CNI_NETNS": f"/proc/{pod.pid}/ns/net" if Path(f"/proc/{pod.pid}").exists() else "",
        "CNI_IFNAME": POD_INTERFACE,
        "CNI_PATH": ":".join(map(str, cni_folders())),
        "PATH": os.environ.get("PATH", os.defpath),
    }
    what = f"CNI {plugin}{where} {command} for {pod.name} on {pod.node.name}"
    argv = ("nsenter", f"--net=/proc/{pod.node.pid}/ns/net", "--", str(program))
    result = run(argv, env=environment, stdin=json.dumps(config), timeout_s=30, check=False)
    if result.timed_out:
        raise CommandFailed(f"{what} did not end within 30 s: {result.stderr_tail}", argv=argv)
    if result.status != 0:
        reason = cni_message(result.stdout) or result.stderr_tail or "no output"
        raise CommandFailed(f"{what} failed: {reason}", argv=argv, status=result.status)
    return dict(json.loads(result.stdout)) if result.stdout.strip() else {}


def cni_message(stdout: str) -> str:
    """Return a plug-in's error: its message, its details, and its code."""
    try:
        answer = json.loads(stdout)
    except ValueError:
        return stdout.strip()
    if not isinstance(answer, dict):
        return stdout.strip()
    text = ": ".join(str(answer[key]) for key in ("msg", "details") if answer.get(key))
    return f"{text} (code {answer['code']})" if "code" in answer else text


def config(plugin: str, nic: Nic, **more: object) -> dict[str, Any]:
    """Return a CNI network configuration with the study's static address."""
    ipam = {"type": "static", "addresses": [{"address": nic.cidr}]}
    return {"cniVersion": CNI_VERSION, "name": f"tare-{nic.name}", "type": plugin, "ipam": ipam, **more}


@contextmanager
def wire_by_cni(pod: Pod, configuration: Mapping[str, Any]) -> Iterator[None]:
    """Keep a pod wired by a CNI plug-in while the block runs."""
    call_cni("ADD", configuration, pod)
    try:
        yield
    finally:
        if Path(f"/proc/{pod.pid}").exists():
            call_cni("DEL", configuration, pod)


@contextmanager
def without_address(node: Node, nic: Nic) -> Iterator[None]:
    """Remove the address from a NIC that a network owns for a while, and restore both completely."""
    flush_address(node.pid, nic)
    try:
        yield
    finally:
        if Path(f"/proc/{node.pid}").exists():
            with netlink(node.pid) as route:
                restore(route, nic)


def flush_address(pid: int, nic: Nic) -> None:
    """Remove the address from a NIC in a process's network namespace."""
    with netlink(pid) as route:
        route.flush_addr(index=index_of(route, nic.name), family=2)


def restore(route: IPRoute, nic: Nic) -> None:
    """Restore the address, MTU, state and route to other subnets of a NIC, found by its name."""
    index = index_of(route, nic.name)
    route.link("set", index=index, mtu=nic.mtu, state="up")
    route.addr("replace", index=index, address=nic.address, prefixlen=nic.prefix)
    if nic.gateway:
        route.route("replace", dst=nic.beyond, gateway=nic.gateway, oif=index)


def mtu_of(pid: int, interface: str) -> int:
    """Return the MTU of an interface in a process's network namespace."""
    with netlink(pid) as route:
        link = route.get_links(index_of(route, interface))[0]
        return int(link.get_attr("IFLA_MTU"))


def interface_in(pid: int, subnet: str) -> tuple[str, str]:
    """Return the interface in a process's network namespace whose address is in a subnet, and the address."""
    wanted = ipaddress.ip_network(subnet)
    with netlink(pid) as route:
        for entry in route.get_addr(family=2):
            address = str(entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS"))
            if ipaddress.ip_address(address) in wanted:
                return str(route.get_links(entry["index"])[0].get_attr("IFLA_IFNAME")), address
    raise InfrastructureError(f"no interface of the pod has an address in {subnet}")


def interfaces_in(pid: int) -> dict[str, tuple[str, int]]:
    """Return the interfaces with an IPv4 address in a process's network namespace, each with address and prefix."""
    addresses: dict[str, tuple[str, int]] = {}
    with netlink(pid) as route:
        for entry in route.get_addr(family=2):
            name = str(route.get_links(entry["index"])[0].get_attr("IFLA_IFNAME"))
            address = str(entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS"))
            addresses.setdefault(name, (address, int(entry["prefixlen"])))
    return addresses


def wait_until_running(pid: int, interface: str, limit_s: float = 5.0) -> None:
    """Wait until the kernel has registered the carrier of a new interface, which takes up to a second.

    UCX ignores interfaces that are not running. An interface that is not running at the time limit is left to fail
    there.
    """
    with netlink(pid) as route:
        index = index_of(route, interface)
        wait_until(lambda: route.get_links(index)[0]["flags"] & IFF_RUNNING, limit_s, pause_s=0.01)


def answers(pid: int, address: str, limit_s: float = 0.5) -> bool:
    """Return whether an address answers from a network namespace: with a refusal, as nothing listens on the port."""
    with inside_network(pid), socket.socket() as asked:
        asked.settimeout(limit_s)
        try:
            asked.connect((address, UNUSED_PORT))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True


def carriers(*places: tuple[int, str, str]) -> tuple[Watch, ...]:
    """Return watches on interfaces (pid, name, role) that must carry the payload."""
    return tuple(Watch(pid=pid, interface=name, role=role) for pid, name, role in places)


def silent(pid: int, names: Sequence[str] = ("lo", "ctl0")) -> tuple[Watch, ...]:
    """Return watches on interfaces of a network namespace that must stay silent."""
    return tuple(Watch(pid=pid, interface=name, role=SILENT_ROLE) for name in names)


def endpoint(
    pod: Pod,
    address: str,
    prefix: int,
    role: str,
    *under: tuple[int, str, str],
    own: str = POD_INTERFACE,
    only: bool = True,
    **more: Any,
) -> Endpoint:
    """Return the endpoint of a pod that sends by its interface `own`, whose role is `role`, and not by `lo` or `ctl0`.

    The last two are watched if it is the `only` one. `under` are the interfaces that packets pass besides (pid, name,
    role), `more` further fields of the endpoint.
    """
    return Endpoint(
        address=address,
        prefix=prefix,
        interface=own,
        mtu=mtu_of(pod.pid, own),
        watches=(*carriers((pod.pid, own, role), *under), *(silent(pod.pid) if only else ())),
        **more,
    )


def in_pod_subnet(nic: Nic) -> Nic:
    """Return a NIC with an address in a separate pod subnet, for pods that the node routes to."""
    return replace(nic, address=f"{POD_SUBNETS}.{nic.address.split('.', 2)[2]}", prefix=24)
