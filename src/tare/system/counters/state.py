"""Read the settings on a pod's data path that explain its speed: they do not change while the pod is up.

What cannot be read is left out. Nothing is started, because this is done for each pod.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.system.counters import conntrack, links, netlink, offloads, qdisc
from tare.system.namespaces import inside_network
from tare.system.node.kernel_files import read_text

BRIDGES: Final = "/proc/sys/net/bridge/bridge-nf-call-iptables"


def read_state(pid: int, interface: str, node_pid: int) -> dict[str, str]:
    """Return the facts of a pod's data interface: MTU, offloads, queue, RPS, devices on its path, packet filter.

    `pid` is a process in the pod's network namespace, `node_pid` one in the node's; 0 is this process.
    """
    found: dict[str, str] = {}
    with suppress(OSError, InfrastructureError):
        found |= _devices(pid, interface, node_pid)
    with suppress(OSError, InfrastructureError):
        found["offloads"] = offloads.offloads(pid, interface)
    found["rps"] = _rps(pid, interface)
    found["br_netfilter"] = _bridges_filter(node_pid)
    found["conntrack"] = _tracks({pid, node_pid})
    return {name: text for name, text in found.items() if text}


def _devices(pid: int, interface: str, node_pid: int) -> dict[str, str]:
    """Return MTU and queue of an interface, and the devices from it to the node's edge."""
    own, queues = _listed(pid)
    node = own if _network_of(node_pid) == _network_of(pid) else _listed(node_pid)[0]
    device = next((each for each in own.values() if each.name == interface), None)
    if device is None:
        return {}
    root = next((each for each in queues if each.interface == device.index and each.is_root), None)
    return {
        "mtu": str(device.mtu),
        "qdisc": "" if root is None else f"{root.kind} limit {root.limit}" if root.limit else root.kind,
        "path": links.path(interface, own, node),
    }


def _network_of(pid: int) -> int:
    """Return the inode of a process's network namespace: a container may have its node's."""
    return os.stat(f"/proc/{pid or 'self'}/ns/net").st_ino


def _listed(pid: int) -> tuple[Mapping[int, links.Device], tuple[qdisc.Queue, ...]]:
    """Return the devices and the queues in a process's network namespace."""
    asked = netlink.Netlink(pid)
    try:
        return links.parse(asked.dump(netlink.GET_LINKS)), qdisc.parse(asked.dump(netlink.GET_QDISCS))
    finally:
        asked.close()


def _rps(pid: int, interface: str) -> str:
    """Return the cores to which an interface spreads received packets (RPS) as a mask, or "off".

    It is read where the process sees /sys, if that is its own network's.
    """
    folder = Path(f"/proc/{pid or 'self'}/root/sys/class/net") / interface
    shown = read_text(str(folder / "address")).strip()
    if not shown or shown != _address(pid, interface):
        return ""
    masks = sorted(read_text(str(each / "rps_cpus")).strip() for each in folder.glob("queues/rx-*"))
    used = [mask for mask in masks if mask.replace(",", "").strip("0")]
    return ("off" if masks else "") if not used else f"cores {used[0].lstrip('0,') or used[0]}"


def _address(pid: int, interface: str) -> str:
    """Return the hardware address of an interface in a process's network namespace, "" if there is none."""
    with suppress(OSError, InfrastructureError):
        asked = netlink.Netlink(pid)
        try:
            for _, given in asked.dump(netlink.GET_LINKS):
                if netlink.text_of(given.get(links.NAME)) == interface:
                    return given.get(links.ADDRESS, b"").hex(":")
        finally:
            asked.close()
    return ""


def _bridges_filter(node_pid: int) -> str:
    """Return whether bridged frames pass the packet filter of the node's network namespace, "" if it is not known."""
    with suppress(OSError, InfrastructureError):
        if not node_pid:
            return _switch(read_text(BRIDGES))
        with inside_network(node_pid):
            return _switch(read_text(BRIDGES))
    return ""


def _switch(text: str) -> str:
    return {"0": "off", "1": "on"}.get(text.strip(), "")


def _tracks(pids: set[int]) -> str:
    """Return whether connections are tracked in one of the namespaces, "" if it is not known.

    A namespace tracks as soon as a rule needs it; then it has an entry for each connection for some time.
    """
    texts = [read_text(f"/proc/{pid or 'self'}/net/stat/nf_conntrack") for pid in pids]
    found = [conntrack.parse(text) for text in texts if text]
    return ("on" if any(each.get(conntrack.ENTRIES) for each in found) else "off") if found else ""
