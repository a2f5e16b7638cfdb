"""Ping an address (ICMP echo, RFC 792) from inside a network namespace, without an external program."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Final

from tare.system.namespaces import inside_network

REQUEST: Final = 8
REPLY: Final = 0
IP_HEADERS_BYTES: Final = 28
"""The size of the IP and ICMP headers of a packet."""
IP_MTU_DISCOVER: Final = 10
IP_PMTUDISC_DO: Final = 2
"""Packets are not fragmented (ip(7)): one that is too large is lost, or refused at once."""


def ping(
    pid: int, address: str, *, count: int = 3, packet_bytes: int = 84, timeout_s: float = 1.0, source: str = ""
) -> tuple[float, ...]:
    """Return the round-trip times, in seconds, of the replies; packets are sent whole or not at all.

    They are sent from the network namespace of process `pid`; `packet_bytes` includes the headers of IP and ICMP.
    """
    with inside_network(pid):
        opened = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with opened as raw:
        raw.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        if source:
            raw.bind((source, 0))
        mark = os.getpid() & 0xFFFF
        trips = (_trip(raw, address, mark, number, packet_bytes, timeout_s) for number in range(count))
        return tuple(trip for trip in trips if trip is not None)


def _trip(
    raw: socket.socket, address: str, mark: int, number: int, packet_bytes: int, timeout_s: float
) -> float | None:
    packet = make_request(mark, number, b"tare" * ((packet_bytes - IP_HEADERS_BYTES) // 4 + 1), packet_bytes)
    began_s = time.monotonic()
    try:
        raw.sendto(packet, (address, 0))
        while (left_s := began_s + timeout_s - time.monotonic()) > 0:
            raw.settimeout(left_s)
            answer, sender = raw.recvfrom(65536)
            if sender[0] == address and is_reply(answer, mark, number):
                return time.monotonic() - began_s
    except OSError:  # too large, no route, or no reply in time
        return None
    return None


def make_request(mark: int, number: int, payload: bytes, packet_bytes: int) -> bytes:
    """Return the ICMP part of a request that makes an IP packet of this many bytes."""
    body = payload[: max(0, packet_bytes - IP_HEADERS_BYTES)]
    head = struct.pack("!BBHHH", REQUEST, 0, 0, mark, number)
    return struct.pack("!BBHHH", REQUEST, 0, checksum(head + body), mark, number) + body


def is_reply(packet: bytes, mark: int, number: int) -> bool:
    """Return whether an IP packet is the reply to a request."""
    start = (packet[0] & 0xF) * 4 if packet else 0
    if len(packet) < start + 8:
        return False
    kind, _, _, its_mark, its_number = struct.unpack("!BBHHH", packet[start : start + 8])
    return (kind, its_mark, its_number) == (REPLY, mark, number)


def checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
