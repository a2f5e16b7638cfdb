"""Read the offloads of an interface (SIOCETHTOOL, linux/ethtool.h), without a program: it is done for each pod."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from contextlib import nullcontext, suppress
from typing import Final

from tare.system.namespaces import inside_network

SIOCETHTOOL: Final = 0x8946
GET_FLAGS: Final = {"rx-checksum": 0x14, "tx-checksum": 0x16, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
GET_STRINGS: Final = 0x1B
GET_SET_INFO: Final = 0x37
GET_FEATURES: Final = 0x3A
FEATURES: Final = 4
"""ETH_SS_FEATURES, the set of the names of features."""
NAME_BYTES: Final = 32
MOST: Final = 1024
TUNNEL: Final = "tx-udp_tnl-segmentation"


def offloads(pid: int, interface: str) -> str:
    """Return the offloads of an interface in a process's network namespace, as `tso on, gso off, ...`.

    Process 0 is this one. Offloads that the interface does not have are left out. Raises `OSError`.
    """
    with inside_network(pid) if pid else nullcontext():
        asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with asked:
        states: dict[str, bool] = {}
        for name, command in GET_FLAGS.items():
            with suppress(OSError):
                answer = _ask(asked, interface, struct.pack("=II", command, 0))
                states[name] = bool(struct.unpack_from("=II", answer)[1])
        with suppress(OSError, ValueError):
            states[TUNNEL] = _feature(asked, interface, TUNNEL)
    order = ("tso", "gso", "gro", "tx-checksum", "rx-checksum", TUNNEL)
    return ", ".join(f"{name} {'on' if states[name] else 'off'}" for name in order if name in states)


def _feature(asked: socket.socket, interface: str, name: str) -> bool:
    """Return whether a feature is active; raise `ValueError` if the interface does not know it."""
    answer = _ask(asked, interface, struct.pack("=IIQI", GET_SET_INFO, 0, 1 << FEATURES, 0))
    count = min(int(struct.unpack_from("=I", answer, 16)[0]), MOST)
    names = _ask(asked, interface, struct.pack("=III", GET_STRINGS, FEATURES, count) + bytes(count * NAME_BYTES))
    every = [names[12 + at * NAME_BYTES :][:NAME_BYTES].split(b"\0")[0].decode() for at in range(count)]
    index = every.index(name)
    blocks = (count + 31) // 32
    features = _ask(asked, interface, struct.pack("=II", GET_FEATURES, blocks) + bytes(blocks * 16))
    active = int(struct.unpack_from("=I", features, 8 + index // 32 * 16 + 8)[0])
    return bool(active >> index % 32 & 1)


def _ask(asked: socket.socket, interface: str, request: bytes) -> bytes:
    """Return the request as the kernel has filled it in."""
    buffer = ctypes.create_string_buffer(request, len(request))
    pointer = struct.pack("=16sQ", interface.encode()[:15], ctypes.addressof(buffer)).ljust(40, b"\0")
    fcntl.ioctl(asked.fileno(), SIOCETHTOOL, pointer)
    return buffer.raw
