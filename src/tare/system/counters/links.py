"""Find the devices that packets of an interface pass through, as far as they can be seen from its node."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tare.system.counters.netlink import Message, attributes, text_of

IFINFO: Final = struct.Struct("=BxHiII")
ADDRESS: Final = 1
NAME: Final = 3
MTU: Final = 4
LINK: Final = 5
MASTER: Final = 10
LINK_INFO: Final = 18
INFO_KIND: Final = 1
OTHER_NAMESPACE: Final = 37
TUNNELS: Final = frozenset({"vxlan", "geneve", "ipip", "gre", "gretap", "wireguard", "tun"})
LONGEST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An interface: `below` is the device that it is on or connected to, `master` its bridge; 0 if there is none.

    `elsewhere` means that the device below is in another network namespace. `kind` is "" for hardware.
    """

    index: int
    name: str
    kind: str
    mtu: int = 0
    below: int = 0
    master: int = 0
    elsewhere: bool = False

    @property
    def word(self) -> str:
        """Return the kind in a word."""
        return self.kind or "nic"


def parse(messages: Iterable[Message]) -> dict[int, Device]:
    """Return the interfaces of a dump (`netlink.GET_LINKS`) by index."""
    found = {}
    for header, given in messages:
        index = IFINFO.unpack_from(header)[2]
        found[index] = Device(
            index=index,
            name=text_of(given.get(NAME)),
            kind=text_of(attributes(given.get(LINK_INFO, b"")).get(INFO_KIND)),
            mtu=_number(given.get(MTU)),
            below=_number(given.get(LINK)),
            master=_number(given.get(MASTER)),
            elsewhere=OTHER_NAMESPACE in given,
        )
    return found


def path(name: str, own: Mapping[int, Device], node: Mapping[int, Device]) -> str:
    """Return the kinds of devices from an interface to the node's edge, such as `veth, veth, bridge, vxlan`.

    `own` are the devices in the interface's namespace, `node` those of its node.
    """
    device = next((each for each in own.values() if each.name == name), None)
    here, seen = own, set()
    words: list[str] = []
    while device is not None and len(words) < LONGEST and (id(here), device.index) not in seen:
        seen.add((id(here), device.index))
        words.append(device.word)
        if device.kind in {"bridge", "openvswitch"}:
            device = _way_out(device, here, seen)
        elif device.master and (len(words) > 1 or device.kind != "veth"):
            device = here.get(device.master)
        elif device.elsewhere and here is not node:
            here, device = node, _peer(device, node)
        elif device.below and not device.elsewhere and device.below != device.index:
            device = here.get(device.below)
        else:
            device = None
    return ", ".join(words)


def _peer(device: Device, node: Mapping[int, Device]) -> Device | None:
    """Return the device of the node that one of a pod leads to; None if it leads to yet another namespace.

    Numbers of devices are those of a namespace, so a veth's other end must also name the veth.
    """
    found = node.get(device.below)
    is_end = found is not None and found.kind == "veth" and found.below == device.index
    return found if is_end or device.kind != "veth" else None


def _way_out(bridge: Device, here: Mapping[int, Device], seen: set[tuple[int, int]]) -> Device | None:
    """Return the port of a bridge by which packets leave the node: a tunnel, or the only port that is no pod's."""
    ports = [each for each in here.values() if each.master == bridge.index and (id(here), each.index) not in seen]
    tunnels = [each for each in ports if each.kind in TUNNELS]
    hardware = [each for each in ports if not each.kind]
    return next(iter((*tunnels, *hardware)), None)


def _number(value: bytes | None) -> int:
    return int(struct.unpack_from("=I", value)[0]) if value and len(value) >= 4 else 0
