"""What the transports of a study mean, apart from any MPI: what messages between hosts go over. Pure.

A transport is a name, and with some a detail behind a colon: `ucx:rc`, `ofi:tcp`. A detail leaves the library no
choice. Without one `ucx` and `ofi` choose by themselves, and what they chose is recorded. `tare.mpi` has, for each
family of MPIs, the settings that make it take a transport; `tare.run.transport_log` reads what its library
says that it took.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.host.devices import INFINIBAND

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "tcp": (),
    "shm": (),
    "ipoib": (),
    "ucx": ("tcp", "rc", "ud", "dc"),
    "uct": ("rc", "ud", "dc"),
    "openib": (),
    "verbs": ("rc", "ud"),
    "ofi": ("tcp", "shm", "verbs", "psm2", "psm3", "opx", "efa", "sockets", "udp"),
}
"""The transports, with the details that can be named: transports of UCX, providers of libfabric."""

DETAIL: Final = re.compile(r"[a-z0-9_]+")
PORTED: Final = {
    "ucx": frozenset({"rc", "ud", "dc"}),
    "ofi": frozenset({"verbs", "psm2", "psm3", "opx", "efa"}),
}
"""Details whose bytes a port of an adapter in /sys/class/infiniband carries and counts."""

BY_TCP: Final = frozenset({"tcp", "sockets", "udp", "net"})
"""Names under which libraries speak of TCP, or of another way through the kernel's network."""

TYPES: Final[Mapping[str, frozenset[str]]] = {
    "rc": frozenset({"rc_verbs", "rc_mlx5"}),
    "ud": frozenset({"ud_verbs", "ud_mlx5"}),
    "dc": frozenset({"dc_mlx5"}),
}
"""Transports of UCX behind its short names."""

USUAL: Final = {"tcp": "tcp", "ipoib": "tcp", "verbs": "rc"}
"""What a transport without a detail means, where the library has no choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """A transport as a study names it: `name` is one of `NAMES`, `detail` "" where the library chooses."""

    name: str
    detail: str = ""

    def __str__(self) -> str:
        """Return it as it is written in a study."""
        return f"{self.name}:{self.detail}" if self.detail else self.name


def read(text: str) -> Transport:
    """Return the transport that a study names; raises `ValueError` with a sentence where there is none."""
    name, colon, detail = text.partition(":")
    if name not in NAMES:
        raise ValueError(f"unknown transport {name!r} (allowed: {', '.join(NAMES)})")
    if colon and not NAMES[name]:
        raise ValueError(f"{name} takes nothing behind a colon: write {name}")
    if colon and detail not in NAMES[name]:
        raise ValueError(f"{name} has no {detail!r} (allowed: {', '.join(f'{name}:{each}' for each in NAMES[name])})")
    return Transport(name=name, detail=detail)


def needs_port(text: str, devices: Sequence[str]) -> bool:
    """Tell whether a transport's bytes are claimed to take a port of an InfiniBand or RoCE adapter.

    Where the library chooses, that is claimed by an environment that gives the adapter's devices.
    """
    wanted = read(text)
    if wanted.name in ("openib", "uct", "verbs"):
        return True
    if wanted.name not in PORTED:
        return False
    return wanted.detail in PORTED[wanted.name] if wanted.detail else INFINIBAND in devices


def is_local(text: str) -> bool:
    """Tell whether a transport reaches no further than its host."""
    return str(read(text)) in ("shm", "ofi:shm")


def accepts(text: str, taken: str, *, port: bool) -> bool:
    """Tell whether what a library took (`tcp/data0`, `rc_mlx5/mlx5_0:1`, `btl openib`) is what a cell claims."""
    wanted = read(text)
    kind = taken.partition("/")[0]
    if wanted.name in ("uct", "openib"):
        return kind == f"btl {wanted.name}"
    detail = wanted.detail or USUAL.get(wanted.name, "")
    if detail:
        return kind in {detail, wanted.name} | TYPES.get(detail, frozenset())
    return kind not in BY_TCP if port else True
