"""Tunnel IP in IP between nodes (RFC 2003): the kernel's own tunnels if supported, else two BPF programs on the NIC.

The programs do what the kernel's ipip does, at the same point of the path: after routing, before the wire. A packet for
a pod of another node gets an outer header to that node; an incoming packet for this node with protocol 4 loses it. A
packet that the NIC is to segment stays whole, as with the kernel's tunnels: the programs set how it is encapsulated.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tare.daemons.daemons import Place
from tare.networks.wiring import bpf
from tare.networks.wiring.bpf import FRAME, R0, R1, R2, R3, R4, R5, R6, R7, R8, Step
from tare.system.node import Nic, Watch
from tare.system.process import find, run

HEADER_BYTES: Final = 20
PROTOCOL: Final = 4
ROLE: Final = "IP-in-IP"
ETHERNET_BYTES: Final = 14
IPV4_FRAME: Final = socket.htons(0x0800)
IPV4_NO_OPTIONS: Final = 0x45
DO_NOT_FRAGMENT: Final = socket.htons(0x4000)
TTL: Final = 64
MOST_PODS: Final = 256
PACKET_LENGTH, PACKET_PROTOCOL = 0, 16
"""Field offsets in struct __sk_buff (linux/bpf.h); the helpers and flags below are from the same header."""
LOOK_UP, STORE_BYTES, LOAD_BYTES, CHECKSUM, ADJUST_ROOM = 1, 9, 26, 28, 50
BEHIND_ETHERNET: Final = 1
KEEP_SEGMENT_SIZE, WRAPPED_IN_IPV4, KEEP_CHECKSUM = 1 << 0, 1 << 1, 1 << 5
PASS, DROP = 0, 2
COUNTERS: Final = struct.Struct("<QQ")
SENT, RECEIVED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A remote node: its number, and the address of its NIC."""

    index: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnels:
    """A node's tunnels that are up: how they are implemented, what proves them, and their interfaces by remote node.

    There are interfaces only if the kernel has tunnels: routes point to them. Otherwise the map `ways` says which node
    a pod is on, of the nodes in `far`.
    """

    means: str
    watches: tuple[Watch, ...] = ()
    interfaces: dict[int, str] = field(default_factory=dict)
    ways: int = -1
    counters: int = -1
    far: frozenset[str] = frozenset()


NO_TUNNELS: Final = Tunnels(means="none")


@cache
def kernel_has_tunnels() -> bool:
    """Return whether the kernel has ipip, or a module for it."""
    if Path("/sys/module/ipip").exists():
        return True
    modprobe = find("modprobe")
    return modprobe is not None and run((modprobe, "-n", "-q", "ipip"), check=False, timeout_s=20).status == 0


def probe() -> str | None:
    """Return why IP-in-IP is not supported here, or None."""
    if kernel_has_tunnels():
        return None
    reason = bpf.probe()
    return f"IP-in-IP: the kernel has no ipip (modprobe ipip), and {reason}" if reason else None


@contextmanager
def tunnels(place: Place, nic: Nic, far: Sequence[Peer]) -> Iterator[Tunnels]:
    """Keep tunnels from a NIC, in its node's stack, to other nodes."""
    make = _by_kernel if kernel_has_tunnels() else _by_programs
    with make(place, nic, far) as up:
        yield up


def add_route(tunnels: Tunnels, pod: str, node: str) -> None:
    """Route packets for a pod through the tunnel to its node, if there is one; addresses identify both."""
    if tunnels.ways >= 0 and node in tunnels.far:
        bpf.update(tunnels.ways, socket.inet_aton(pod), socket.inet_aton(node))


# --- the kernel's tunnels -----------------------------------------------------------------------------------------


def tunnel_name(nic: Nic, far: Peer) -> str:
    """Return the name of the tunnel from a NIC to another node."""
    return f"tareip{nic.name.removeprefix('data')}-{far.index}"


def tunnel_command(nic: Nic, far: Peer) -> tuple[str, ...]:
    """Return the argv, after `ip`, that creates a tunnel to another node."""
    return (
        "link", "add", tunnel_name(nic, far), "mtu", str(nic.mtu - HEADER_BYTES), "type", "ipip",
        "local", nic.address, "remote", far.address, "ttl", str(TTL), "pmtudisc",
    )  # fmt: skip


@contextmanager
def _by_kernel(place: Place, nic: Nic, far: Sequence[Peer]) -> Iterator[Tunnels]:
    names = {other.index: tunnel_name(nic, other) for other in far}
    inside = ("nsenter", f"--net=/proc/{place.pid}/ns/net", "--", "ip")
    try:
        for other in far:
            what = f"making the tunnel {names[other.index]} on {place.node.name}"
            run((*inside, *tunnel_command(nic, other)), timeout_s=20, what=what)
            run((*inside, "link", "set", names[other.index], "up"), timeout_s=20, what=what)
        watches = tuple(Watch(pid=place.pid, interface=name, role=ROLE) for name in names.values())
        yield Tunnels(means="the kernel's ipip", watches=watches, interfaces=names)
    finally:
        if Path(f"/proc/{place.pid}").exists():
            for name in names.values():
                run((*inside, "link", "del", name), timeout_s=20, check=False)


# --- two programs on the NIC --------------------------------------------------------------------------------------


@contextmanager
def _by_programs(place: Place, nic: Nic, far: Sequence[Peer]) -> Iterator[Tunnels]:
    address = socket.inet_aton(nic.address)
    with ExitStack() as stack:
        files = stack.enter_context(bpf.opened())
        ways = bpf.make_map(bpf.HASH_MAP, key_bytes=4, value_bytes=4, entries=MOST_PODS)
        files.append(ways)
        counters = bpf.make_map(bpf.ARRAY_MAP, key_bytes=4, value_bytes=COUNTERS.size, entries=2)
        files.append(counters)
        files.append(egress := bpf.load_program(egress_program(address, ways, counters), "tare_ipip_out"))
        files.append(ingress := bpf.load_program(ingress_program(address, counters), "tare_ipip_in"))
        stack.enter_context(bpf.on_interface(place.pid, nic.name, ingress=ingress, egress=egress))
        watch = Watch(pid=place.pid, interface=f"ipip-{nic.name}", role=ROLE, by_network=True)
        to = frozenset(other.address for other in far)
        means = "BPF programs of tare (the kernel has no ipip)"
        yield Tunnels(means=means, watches=(watch,), ways=ways, counters=counters, far=to)


def read_counters(file: int) -> tuple[int, int, int, int]:
    """Return bytes and packets decapsulated, and encapsulated, outer headers included."""
    both = (COUNTERS.unpack(bpf.look_up(file, struct.pack("<I", way), COUNTERS.size)) for way in (RECEIVED, SENT))
    (received, received_bytes), (sent, sent_bytes) = both
    return received_bytes, received, sent_bytes, sent


def egress_program(address: bytes, ways: int, counters: int) -> bytes:
    """Return the egress program: a packet for a pod in the map `ways` gets an outer header to its node.

    `own` is this node's address in network byte order. The segment size stays: a pod's MTU leaves room for the outer
    header.
    """
    header = FRAME, -24
    return bpf.assemble([
        bpf.copy(R6, R1),
        bpf.load(R0, R6, PACKET_PROTOCOL, 4),
        bpf.unless_equal(R0, IPV4_FRAME, "pass"),
        *_read(offset=ETHERNET_BYTES + 16, to=-4, length=4),
        *bpf.put_map(R1, ways), bpf.copy(R2, FRAME), bpf.add(R2, -4), bpf.call(LOOK_UP),
        bpf.if_zero(R0, "pass"),
        bpf.load(R7, R0, 0, 4),
        *_adjust(HEADER_BYTES, KEEP_SEGMENT_SIZE | WRAPPED_IN_IPV4),
        bpf.load(R8, R6, PACKET_LENGTH, 4),
        bpf.add(R8, -ETHERNET_BYTES),
        bpf.copy(R1, R8),
        bpf.network_order(R1),
        bpf.store_value(FRAME, -24, IPV4_NO_OPTIONS, 1),
        bpf.store_value(FRAME, -23, 0, 1),
        bpf.store(FRAME, -22, R1, 2),
        bpf.store_value(FRAME, -20, 0, 2),
        bpf.store_value(FRAME, -18, DO_NOT_FRAGMENT, 2),
        bpf.store_value(FRAME, -16, TTL, 1),
        bpf.store_value(FRAME, -15, PROTOCOL, 1),
        bpf.store_value(FRAME, -14, 0, 2),
        bpf.store_value(FRAME, -12, bpf.word(address), 4),
        bpf.store(FRAME, -8, R7, 4),
        *_checksum_of(header),
        bpf.store(FRAME, -14, R0, 2),
        bpf.copy(R1, R6), bpf.put(R2, ETHERNET_BYTES), bpf.copy(R3, FRAME), bpf.add(R3, -24),
        bpf.put(R4, HEADER_BYTES), bpf.put(R5, 0), bpf.call(STORE_BYTES),
        bpf.if_not_zero(R0, "drop"),
        *_count(counters, SENT),
        *_ends(),
    ])  # fmt: skip


def ingress_program(address: bytes, counters: int) -> bytes:
    """Return the ingress program: a packet to this node with protocol 4 loses its outer header."""
    return bpf.assemble([
        bpf.copy(R6, R1),
        bpf.load(R0, R6, PACKET_PROTOCOL, 4),
        bpf.unless_equal(R0, IPV4_FRAME, "pass"),
        *_read(offset=ETHERNET_BYTES, to=-20, length=HEADER_BYTES),
        bpf.load(R0, FRAME, -20, 1),
        bpf.unless_equal(R0, IPV4_NO_OPTIONS, "pass"),
        bpf.load(R0, FRAME, -11, 1),
        bpf.unless_equal(R0, PROTOCOL, "pass"),
        bpf.load(R0, FRAME, -4, 4),
        bpf.unless_equal(R0, bpf.word(address), "pass"),
        bpf.load(R8, R6, PACKET_LENGTH, 4),
        bpf.add(R8, -ETHERNET_BYTES),
        *_adjust(-HEADER_BYTES, KEEP_SEGMENT_SIZE | KEEP_CHECKSUM),
        *_count(counters, RECEIVED),
        *_ends(),
    ])  # fmt: skip


def _read(*, offset: int, to: int, length: int) -> Iterator[Step]:
    """Yield the steps that copy bytes of the packet to the stack."""
    yield from (bpf.copy(R1, R6), bpf.put(R2, offset), bpf.copy(R3, FRAME), bpf.add(R3, to), bpf.put(R4, length))
    yield from (bpf.call(LOAD_BYTES), bpf.if_not_zero(R0, "pass"))


def _adjust(length: int, flags: int) -> Iterator[Step]:
    """Yield the steps that make or remove room after the Ethernet header, and drop a packet for which that fails."""
    yield from (bpf.copy(R1, R6), bpf.put(R2, length), bpf.put(R3, BEHIND_ETHERNET), bpf.put(R4, flags))
    yield from (bpf.call(ADJUST_ROOM), bpf.if_not_zero(R0, "drop"))


def _checksum_of(header: tuple[int, int]) -> Iterator[Step]:
    """Yield the steps that compute the Internet checksum (RFC 1071) of a header into register 0."""
    yield from (bpf.put(R1, 0), bpf.put(R2, 0), bpf.copy(R3, header[0]), bpf.add(R3, header[1]))
    yield from (bpf.put(R4, HEADER_BYTES), bpf.put(R5, 0), bpf.call(CHECKSUM))
    for _ in range(2):  # the sum of two carries may carry again
        yield from (bpf.copy(R1, R0), bpf.shift_right(R1, 16), bpf.keep_bits(R0, 0xFFFF), bpf.add_register(R0, R1))
    yield bpf.flip_bits(R0, 0xFFFF)


def _count(counters: int, way: int) -> Iterator[Step]:
    """Yield the steps that count a packet and its bytes, which are in register 8."""
    yield from (bpf.store_value(FRAME, -4, way, 4), *bpf.put_map(R1, counters), bpf.copy(R2, FRAME), bpf.add(R2, -4))
    yield from (bpf.call(LOOK_UP), bpf.if_zero(R0, "pass"), bpf.put(R1, 1), bpf.count_up(R0, 0, R1))
    yield bpf.count_up(R0, 8, R8)


def _ends() -> Iterator[Step | str]:
    yield from ("pass", bpf.put(R0, PASS), bpf.leave(), "drop", bpf.put(R0, DROP), bpf.leave())
