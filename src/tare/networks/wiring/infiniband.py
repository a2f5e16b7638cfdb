"""Find this machine's InfiniBand and RoCE adapters: their ports, the port for a transport, and what an image needs.

Everything is read from /sys. A port's counters prove that messages took it, because the kernel's network stack does not
see them; a software adapter (soft-RoCE) counts no bytes, but its packets pass through the interface below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError, RefusedError
from tare.images.inside.inspect import contains
from tare.images.inside.safe_paths import inside
from tare.networks.wiring.plug import carriers, interfaces_in, mtu_of, silent
from tare.networks.wiring.transports import read
from tare.system.devices import ACTIVE, CLASSES
from tare.system.node import SILENT_ROLE, Endpoint, Pod, Watch

ETHERNET: Final = "Ethernet"
IPOIB_TYPE: Final = "32"
"""The kernel's link type for IP over InfiniBand (ARPHRD_INFINIBAND)."""

ADAPTERS: Final = {"psm2": "hfi1", "opx": "hfi1", "efa": "efa", "dc": "mlx5"}
"""Transports for one kind of adapter, by name prefix."""

DRIVERS: Final = {"mlx5_core": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma"}
"""User-space drivers whose name differs from the kernel driver's."""

LIBRARY_FOLDERS: Final = ("usr/lib/*", "usr/lib64", "usr/lib", "lib64")
OLDEST_ABI: Final = 3
NEWEST_ABI: Final = 6
"""The kernel's verbs ABI versions that rdma-core's libibverbs supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of an adapter. `interface` is its network interface, "" if there is none.

    `counted` is set if the port counts its traffic; `driver` is the kernel's ("" for a software adapter).
    """

    adapter: str
    number: int
    state: str
    layer: str = "InfiniBand"
    rate: str = ""
    driver: str = ""
    interface: str = ""
    counted: bool = True

    @property
    def name(self) -> str:
        """Return adapter and port as UCX and Open MPI write them: `mlx5_0:1`."""
        return f"{self.adapter}:{self.number}"

    @property
    def roce(self) -> bool:
        """Return whether its link layer is Ethernet."""
        return self.layer == ETHERNET

    @property
    def role(self) -> str:
        """Return the port's role in the proof."""
        return "RoCE port" if self.roce else "InfiniBand port"

    @property
    def words(self) -> str:
        """Return the port with its link, for a report."""
        return ", ".join(part for part in (f"{self.name} ({self.layer})", self.rate) if part)


def ports(classes: Path = CLASSES) -> tuple[Port, ...]:
    """Return all ports of all adapters, sorted by name."""
    folder = classes / "infiniband"
    listed = []
    for place in sorted(folder.glob("*/ports/*"), key=lambda path: (path.parts[-3], path.name)):
        if not place.name.isdigit():
            continue
        adapter = folder / place.parts[-3]
        layer = _text(place / "link_layer") or "InfiniBand"
        listed.append(
            Port(
                adapter=adapter.name,
                number=int(place.name),
                state=_text(place / "state"),
                layer=layer,
                rate=_text(place / "rate"),
                driver=_driver(adapter),
                interface=_interface(classes, adapter, place, layer),
                counted=(place / "counters" / "port_xmit_data").exists(),
            )
        )
    return tuple(listed)


def port_for(transport: str, listed: Sequence[Port]) -> Port:
    """Return the port that a transport takes: the first active one, InfiniBand before Ethernet.

    Raises `RefusedError` if there is none.
    """
    begins = ADAPTERS.get(read(transport).detail, "")
    fitting = [port for port in listed if port.adapter.startswith(begins)]
    if not fitting:
        what = f"{begins} adapter" if begins else "InfiniBand or RoCE adapter"
        raise RefusedError(f"transport: {transport} needs an {what}, but this machine has none")
    active = [port for port in fitting if ACTIVE in port.state]
    if not active:
        states = ", ".join(f"{port.name} is {port.state or 'silent'}" for port in fitting)
        raise RefusedError(f"transport: {transport} needs an active port ({states})")
    return min(active, key=lambda port: port.roce)


def probe(transport: str, classes: Path = CLASSES) -> str | None:
    """Return why this machine has no port for a transport, or None."""
    try:
        port_for(transport, ports(classes))
    except RefusedError as refused:
        return refused.message
    return None


def probe_ipoib(classes: Path = CLASSES) -> str | None:
    """Return why this machine has no IP over InfiniBand, or None."""
    if not (folder := classes / "infiniband").is_dir() or not any(folder.iterdir()):
        return "transport: ipoib needs an InfiniBand adapter, but this machine has none"
    if not ipoib_interfaces(classes):
        return "this machine has no IP over InfiniBand interface: modprobe ib_ipoib, and give it an address"
    return None


def ipoib_interfaces(classes: Path = CLASSES) -> tuple[str, ...]:
    """Return the interfaces of IP over InfiniBand."""
    return tuple(sorted(path.name for path in (classes / "net").glob("*") if _text(path / "type") == IPOIB_TYPE))


def over_port(endpoint: Endpoint, transport: str, pod: Pod, classes: Path = CLASSES) -> Endpoint:
    """Return an endpoint whose messages take a port: the port must carry them; the data network must stay silent."""
    port = port_for(transport, ports(classes))
    quiet = tuple(
        replace(watch, role=SILENT_ROLE)
        for watch in endpoint.watches
        if port.counted or watch.interface != port.interface
    )
    return replace(
        endpoint,
        port=port.name,
        roce=port.roce,
        watches=(watch_of(port, pod), *quiet),
        facts={**endpoint.facts, "port": port.words},
    )


def watch_of(port: Port, pod: Pod) -> Watch:
    """Return the watch on a port, or on the interface below it if the port has no counters."""
    if port.counted:
        return Watch(pid=0, interface=port.name, role=port.role)
    if not port.interface:
        raise InfrastructureError(
            f"{port.name} has neither counters nor an interface, so nothing can prove its traffic"
        )
    place = pod.pid if port.interface in interfaces_in(pod.pid) else pod.node.pid
    return Watch(pid=place, interface=port.interface, role=f"interface under the {port.role}")


def over_ipoib(endpoint: Endpoint, pod: Pod, classes: Path = CLASSES) -> Endpoint:
    """Return the endpoint of a pod on its IP over InfiniBand, with its address there.

    Raises `InfrastructureError` if the pod sees no such interface with an address.
    """
    here = interfaces_in(pod.pid)
    name = next((interface for interface in ipoib_interfaces(classes) if interface in here), None)
    if name is None:
        raise InfrastructureError(
            f"{pod.node.name} has no IP over InfiniBand interface with an address", remedy="give its ib0 an address"
        )
    address, prefix = here[name]
    quiet = tuple(replace(watch, role=SILENT_ROLE) for watch in endpoint.watches if watch.role != SILENT_ROLE)
    return replace(
        endpoint,
        address=address,
        prefix=prefix,
        interface=name,
        mtu=mtu_of(pod.pid, name),
        watches=(*carriers((pod.pid, name, "IPoIB interface")), *quiet, *silent(pod.pid)),
    )


def unfit(rootfs: Path, transport: str, classes: Path = CLASSES) -> str | None:
    """Return why an image's user-space drivers do not match this machine's adapter, or None.

    Checked are libibverbs, its driver for the adapter, whether both use the same private ABI, and whether rdma-core
    supports the kernel's ABI.
    """
    try:
        port = port_for(transport, ports(classes))
    except RefusedError:
        return None  # a fault of the machine, reported as such
    library = _first(rootfs, "libibverbs.so.1")
    if library is None:
        return "the image has no libibverbs: apt-get install libibverbs1 ibverbs-providers in it"
    name = user_driver(port)
    providers = [
        path for folder in LIBRARY_FOLDERS for path in sorted(rootfs.glob(f"{folder}/libibverbs/lib{name}-rdmav*.so"))
    ]
    if not providers:
        return (
            f"the image has no driver for {port.adapter} (lib{name}-rdmav*.so): apt-get install ibverbs-providers in it"
        )
    private = re.search(r"-rdmav(\d+)\.so", providers[0].name)
    if private and not contains(library, f"rdmav{private[1]}".encode()):
        return f"the image's {providers[0].name} is from another rdma-core than its libibverbs, which will not load it"
    abi = _text(classes / "infiniband_verbs" / "abi_version")
    if abi.isdigit() and not OLDEST_ABI <= int(abi) <= NEWEST_ABI:
        return f"the verbs ABI of this kernel is {abi}, but rdma-core supports {OLDEST_ABI} to {NEWEST_ABI}"
    return None


def user_driver(port: Port) -> str:
    """Return the name of an adapter's user-space driver."""
    if not port.driver:
        return re.sub(r"[_\d]+$", "", port.adapter)  # rxe0, siw0: software adapters
    return DRIVERS.get(port.driver, port.driver)


def _first(rootfs: Path, name: str) -> Path | None:
    """Return the file that a library's name resolves to in an image, or None."""
    for folder in LIBRARY_FOLDERS:
        for path in sorted(rootfs.glob(f"{folder}/{name}")):
            file = inside(rootfs, "/" + str(path.relative_to(rootfs)))
            if file is not None:
                return file
    return None


def _driver(adapter: Path) -> str:
    link = adapter / "device" / "driver"
    return link.resolve().name if link.exists() else ""


def _interface(classes: Path, adapter: Path, port: Path, layer: str) -> str:
    if layer == ETHERNET:
        return _text(port / "gid_attrs" / "ndevs" / "0") or _text(adapter / "parent")
    for name in ipoib_interfaces(classes):
        folder = classes / "net" / name
        number = int(_text(folder / "dev_port") or "0", 0)
        if (folder / "device" / "infiniband" / adapter.name).exists() and number == int(port.name) - 1:
            return name
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
