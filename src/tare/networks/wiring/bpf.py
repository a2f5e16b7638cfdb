"""Run small BPF programs in the kernel's packet path: an assembler, bpf(2), and the tc hooks.

The programs are assembled here: two programs of forty instructions do not justify a compiler and a loader on every
machine that runs a study. Loaded objects are held by open file descriptors and by the interface that they are attached
to, so nothing is left once both are gone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.system.namespaces import index_of, netlink

CALL_NUMBER: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
"""The number of bpf(2) by machine; all of these are little-endian, as the programs assume."""
MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, PROGRAM_LOAD = 0, 1, 2, 5
HASH_MAP, ARRAY_MAP = 1, 2
FOR_TC: Final = 3
LICENSE: Final = b"Apache-2.0\0"
LOG_BYTES: Final = 1 << 16
EGRESS, INGRESS = "ffff:fff3", "ffff:fff2"

R0, R1, R2, R3, R4, R5, R6, R7, R8, FRAME = 0, 1, 2, 3, 4, 5, 6, 7, 8, 10
"""Registers: 1 to 5 are call arguments, 0 is the result, calls preserve 6 to 8; the stack is below `FRAME`."""
SIZES: Final = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
MAP_FILE: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction; a jump has the label of its target."""

    code: int
    to: int = 0
    source: int = 0
    offset: int = 0
    value: int = 0
    label: str = ""


def _with_register(code: int) -> Callable[[int, int], Step]:
    return lambda to, source: Step(code=code, to=to, source=source)


def _with_value(code: int) -> Callable[[int, int], Step]:
    return lambda to, value: Step(code=code, to=to, value=value)


copy: Final = _with_register(0xBF)
"""`to = source`."""
add_register: Final = _with_register(0x0F)
"""`to += source`."""
put: Final = _with_value(0xB7)
"""`to = value`."""
add: Final = _with_value(0x07)
"""`to += value`."""
keep_bits: Final = _with_value(0x57)
"""`to &= mask`."""
flip_bits: Final = _with_value(0xA7)
"""`to ^= mask`."""
shift_right: Final = _with_value(0x77)
"""`to >>= bits`."""


def network_order(to: int) -> Step:
    """Return `to = htons(to)`."""
    return Step(code=0xDC, to=to, value=16)


def load(to: int, source: int, offset: int, size: int) -> Step:
    """Return `to = *(source + offset)`."""
    return Step(code=0x61 | SIZES[size], to=to, source=source, offset=offset)


def store(to: int, offset: int, source: int, size: int) -> Step:
    """Return `*(to + offset) = source`."""
    return Step(code=0x63 | SIZES[size], to=to, source=source, offset=offset)


def store_value(to: int, offset: int, value: int, size: int) -> Step:
    """Return `*(to + offset) = value`."""
    return Step(code=0x62 | SIZES[size], to=to, offset=offset, value=value)


def count_up(to: int, offset: int, source: int) -> Step:
    """Return `*(to + offset) += source`, eight bytes, atomic across cores."""
    return Step(code=0xDB, to=to, source=source, offset=offset)


def unless_equal(register: int, value: int, label: str) -> Step:
    """Return a jump taken if the low four bytes of a register differ from a value."""
    return Step(code=0x56, to=register, value=value, label=label)


def if_zero(register: int, label: str) -> Step:
    """Return a jump taken if a register is zero, as after a lookup that found nothing."""
    return Step(code=0x15, to=register, label=label)


def if_not_zero(register: int, label: str) -> Step:
    """Return a jump taken if a register is not zero, as after a call that failed."""
    return Step(code=0x55, to=register, label=label)


def call(helper: int) -> Step:
    """Return a call of a kernel helper, by its number in linux/bpf.h."""
    return Step(code=0x85, value=helper)


def leave() -> Step:
    """Return the exit instruction; register 0 is the program's result."""
    return Step(code=0x95)


def put_map(to: int, file: int) -> tuple[Step, Step]:
    """Return the instructions that load a map into a register."""
    return Step(code=0x18, to=to, source=MAP_FILE, value=file), Step(code=0)


def assemble(program: Sequence[Step | str]) -> bytes:
    """Return the code of a program; a string in it is a label for the next step."""
    places: dict[str, int] = {}
    steps: list[Step] = []
    for item in program:
        if isinstance(item, str):
            places[item] = len(steps)
        else:
            steps.append(item)
    code = b""
    for number, step in enumerate(steps):
        offset = places[step.label] - number - 1 if step.label else step.offset
        value = step.value - (1 << 32) if step.value >= 1 << 31 else step.value
        code += struct.pack("<BBhi", step.code, step.source << 4 | step.to, offset, value)
    return code


def word(packed: bytes) -> int:
    """Return four bytes of a packet as a register holds them."""
    return int.from_bytes(packed, "little")


# --- the kernel ---------------------------------------------------------------------------------------------------


def make_map(kind: int, *, key_bytes: int, value_bytes: int, entries: int) -> int:
    """Create a map and return its file descriptor."""
    return _call(MAP_CREATE, struct.pack("<IIII", kind, key_bytes, value_bytes, entries), "creating a BPF map")


def update(file: int, key: bytes, value: bytes) -> None:
    """Insert an entry into a map."""
    with _pointers(key, value) as (at_key, at_value):
        _call(MAP_UPDATE, struct.pack("<IIQQQ", file, 0, at_key, at_value, 0), "filling a BPF map")


def look_up(file: int, key: bytes, value_bytes: int) -> bytes:
    """Return a value of a map."""
    value = ctypes.create_string_buffer(value_bytes)
    with _pointers(key) as (at_key,):
        _call(MAP_LOOKUP, struct.pack("<IIQQQ", file, 0, at_key, ctypes.addressof(value), 0), "reading a BPF map")
    return value.raw


def load_program(code: bytes, name: str) -> int:
    """Load a program for tc and return its file descriptor; its licence permits helpers that are not GPL-only."""
    try:
        return _load(code, name, None)
    except InfrastructureError as error:
        log = ctypes.create_string_buffer(LOG_BYTES)
        with suppress(InfrastructureError):  # retry with a log for the reason: a program that loads may have a long one
            return _load(code, name, log)
        reasons = log.value.decode(errors="replace").strip().splitlines()[-6:]
        raise InfrastructureError(": ".join([error.message, *(["; ".join(reasons)] if reasons else [])])) from error


def _load(code: bytes, name: str, log: ctypes.Array[ctypes.c_char] | None) -> int:
    into = (1, LOG_BYTES, ctypes.addressof(log)) if log is not None else (0, 0, 0)
    with _pointers(code, LICENSE) as (at_code, at_license):
        attributes = struct.pack(
            "<IIQQIIQII16s", FOR_TC, len(code) // 8, at_code, at_license, *into, 0, 0, name.encode()[:15]
        )
        return _call(PROGRAM_LOAD, attributes, f"loading the BPF program {name}")


def probe() -> str | None:
    """Return why no program can be loaded here, or None; whatever is created for the test is removed at once."""
    try:
        with opened() as files:
            files.append(make_map(ARRAY_MAP, key_bytes=4, value_bytes=8, entries=1))
            files.append(load_program(assemble([put(R0, 0), leave()]), "tare_probe"))
    except InfrastructureError as error:
        return f"the kernel rejects tare's BPF programs: {error.message}"
    return None


@contextmanager
def opened() -> Iterator[list[int]]:
    """Yield a list for open file descriptors, which are closed at the end."""
    files: list[int] = []
    try:
        yield files
    finally:
        for file in files:
            with suppress(OSError):
                os.close(file)


@contextmanager
def on_interface(pid: int, interface: str, *, ingress: int, egress: int) -> Iterator[None]:
    """Keep programs attached to an interface in a process's network namespace, on ingress and on egress."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        try:
            with netlink(pid) as route:
                index = index_of(route, interface)
                route.tc("add", "clsact", index)
                put_on = partial(route.tc, "add-filter", "bpf", index, ":1", classid=1, direct_action=True)
                put_on(fd=ingress, name="tare_in", parent=INGRESS)
                put_on(fd=egress, name="tare_out", parent=EGRESS)
        except NetlinkError as error:
            raise InfrastructureError(f"tc rejects a BPF program on {interface}: {error}") from error
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            with suppress(InfrastructureError, FileNotFoundError, NetlinkError), netlink(pid) as route:
                route.tc("del", "clsact", index_of(route, interface))


@contextmanager
def _pointers(*values: bytes) -> Iterator[tuple[int, ...]]:
    """Yield the addresses of values, which stay valid while the block runs."""
    buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
    yield tuple(ctypes.addressof(buffer) for buffer in buffers)


def _call(command: int, attributes: bytes | ctypes.Array[ctypes.c_char], what: str) -> int:
    number = CALL_NUMBER.get(platform.machine())
    if number is None:
        raise InfrastructureError(f"{what} is not supported on {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes)) if isinstance(attributes, bytes) else attributes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    answer = int(libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(buffer))))
    if answer < 0:
        failure = ctypes.get_errno()
        reason = "permission denied" if failure == errno.EPERM else os.strerror(failure)
        raise InfrastructureError(f"{what} failed: {reason}")
    return answer
