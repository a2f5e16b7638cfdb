"""Describe this machine to the head: what it needs to know before it places ranks and makes networks."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.model.topology import HardwareThread
from tare.system.node.owners import boot_id
from tare.system.process import find, run
from tare.system.topology import read_topology
from tare.system.user_namespace import is_real_root

NETWORKS: Final = Path("/sys/class/net")
TUNNELS: Final = {"768": "ipip", "769": "ip6tnl", "776": "sit", "778": "gre"}
"""The types of tunnels that have no other name in /sys (ARPHRD in linux/if_arp.h)."""
SIOCGIFADDR: Final = 0x8915
SIOCGIFNETMASK: Final = 0x891B
CORES: Final = "TARE_CORES"
"""The variable by which an administrator, or a user, says which cores of a machine tare uses, and in which order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An IPv4 address of a machine: the interface, its MTU, the address and the length of its subnet's prefix.

    `kind` is the kernel's word for a virtual interface: `vxlan`, `bridge`, `ipip`; "" for a NIC, and where it has none.
    """

    name: str
    address: str
    prefix: int
    mtu: int
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as its service describes it.

    `architecture` is that of `uname -m`, `libc` name and version. `cores` are those that the service may use. `reached`
    are the addresses of the connection from the head, the head's first; "" if there is none. `cpu` is the
    processor's name.
    """

    hostname: str
    boot_id: str
    architecture: str
    libc: str
    kernel: str
    python: str
    uid: int
    is_root: bool
    cores: tuple[int, ...]
    layout: tuple[HardwareThread, ...]
    interfaces: tuple[Interface, ...]
    reached: tuple[str, str] = ("", "")
    cpu: str = ""


def this_machine() -> Machine:
    """Return the description of this machine."""
    cores = usable_cores(os.sched_getaffinity(0), os.environ.get(CORES, ""))
    system = os.uname()
    return Machine(
        hostname=system.nodename,
        boot_id=boot_id(),
        architecture=system.machine,
        libc=os.confstr("CS_GNU_LIBC_VERSION") or "unknown" if hasattr(os, "confstr") else "unknown",
        kernel=system.release,
        python=".".join(map(str, sys.version_info[:3])),
        uid=os.geteuid(),
        is_root=is_real_root(),
        cores=cores,
        layout=read_topology(cores),
        interfaces=tuple(_interfaces()),
        reached=_reached(os.environ.get("SSH_CONNECTION", "")),
        cpu=_cpu(),
    )


def usable_cores(allowed: Collection[int], stated: str) -> tuple[int, ...]:
    """Return the cores that a job may use, in order: those `stated` ($TARE_CORES: `1,0`), or all that are allowed."""
    wanted = tuple(int(word) for word in stated.split(",") if word.strip().isdigit())
    if wanted and not set(wanted) <= set(allowed):
        raise InfrastructureError(f"{CORES}={stated} names cores that this process may not use: {sorted(allowed)}")
    return wanted or tuple(sorted(allowed))


def _reached(connection: str) -> tuple[str, str]:
    """Return the client's and the server's address from $SSH_CONNECTION: `CLIENT PORT SERVER PORT`."""
    words = connection.split()
    return (words[0], words[2]) if len(words) == 4 else ("", "")


def _cpu() -> str:
    """Return the name of the processor, "" if the kernel shows none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _interfaces() -> Iterator[Interface]:
    """Yield the IPv4 addresses of the interfaces that are up, as ip(8) shows them; without it, the first of each."""
    program = find("ip")
    if program is None:
        yield from _interfaces_of_kernel()
        return
    shown: list[dict[str, Any]] = json.loads(run((program, "-json", "-4", "address", "show", "up")).stdout or "[]")
    for link in shown:
        for each in link.get("addr_info", ()):
            if each.get("family") == "inet":
                yield Interface(
                    name=str(link["ifname"]), address=str(each["local"]), prefix=int(each["prefixlen"]),
                    mtu=int(link["mtu"]), kind=kind_of(str(link["ifname"])),
                )  # fmt: skip


def kind_of(name: str, folder: Path = NETWORKS) -> str:
    """Return the kind of a virtual interface in the kernel's words, "" if it has none."""
    try:
        told = dict(line.partition("=")[::2] for line in (folder / name / "uevent").read_text().splitlines())
        return told.get("DEVTYPE", "") or TUNNELS.get((folder / name / "type").read_text().strip(), "")
    except OSError:
        return ""


def _interfaces_of_kernel() -> Iterator[Interface]:
    """Yield the first IPv4 address of each interface, as the kernel tells it to any program (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                address, mask = (
                    socket.inet_ntoa(fcntl.ioctl(asked.fileno(), wanted, request)[20:24])
                    for wanted in (SIOCGIFADDR, SIOCGIFNETMASK)
                )
                mtu = int((NETWORKS / name / "mtu").read_text())
            except OSError:  # it has none
                continue
            prefix = bin(int.from_bytes(socket.inet_aton(mask), "big")).count("1")
            yield Interface(name=name, address=address, prefix=prefix, mtu=mtu, kind=kind_of(name))
