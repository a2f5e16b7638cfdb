"""Define a study's transports independently of any MPI: what messages between hosts go over. Pure.

A transport is a name, for some with a detail after a colon: `ucx:rc`, `ofi:tcp`. A detail leaves the library no choice.
Without one, `ucx` and `ofi` choose themselves, and their choice is recorded. `tare.mpi` has, for each family of MPIs,
the settings that select a transport; `tare.run.transport_log` reads which transport the library reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.system.devices import INFINIBAND

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "tcp": (),
    "shm": (),
    "ipoib": (),
    "ucx": ("tcp", "rc", "ud", "dc"),
    "uct": ("rc", "ud", "dc"),
    "openib": (),
    "verbs": ("rc", "ud"),
    "ofi": ("tcp", "shm", "verbs", "psm2", "psm3", "opx", "efa", "sockets", "udp"),
    "auto": (),
}
"""The transports, with their possible details: transports of UCX, providers of libfabric."""

CHOSEN_BY_MPI: Final = "auto"
"""The transport that claims nothing: the MPI is left as it is, and its choice is recorded."""

USUALLY: Final = "tcp"
"""The transport of an environment that names none, if its MPI is told what to use."""

PORTED: Final = {
    "ucx": frozenset({"rc", "ud", "dc"}),
    "ofi": frozenset({"verbs", "psm2", "psm3", "opx", "efa"}),
}
"""Details whose bytes are carried and counted by an adapter port in /sys/class/infiniband."""

BY_TCP: Final = frozenset({"tcp", "sockets", "udp", "net"})
"""Names that libraries use for TCP, or for another path through the kernel's network stack."""

TYPES: Final[Mapping[str, frozenset[str]]] = {
    "rc": frozenset({"rc_verbs", "rc_mlx5"}),
    "ud": frozenset({"ud_verbs", "ud_mlx5"}),
    "dc": frozenset({"dc_mlx5"}),
}
"""Transports of UCX behind its short names."""

USUAL: Final = {"tcp": "tcp", "ipoib": "tcp", "verbs": "rc"}
"""The meaning of a transport without a detail, if the library has no choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """A transport as a study names it: `name` is one of `NAMES`; `detail` is "" if the library chooses."""

    name: str
    detail: str = ""

    def __str__(self) -> str:
        """Return it as written in a study."""
        return f"{self.name}:{self.detail}" if self.detail else self.name


def read(text: str) -> Transport:
    """Return the transport that a study names; raise `ValueError` with a sentence if it is unknown."""
    name, colon, detail = text.partition(":")
    if name not in NAMES:
        raise ValueError(f"unknown transport {name!r} (allowed: {', '.join(NAMES)})")
    if colon and not NAMES[name]:
        raise ValueError(f"{name} takes nothing after a colon: write {name}")
    if colon and detail not in NAMES[name]:
        raise ValueError(
            f"{name} has no {detail!r} (allowed: {', '.join(f'{name}:{option}' for option in NAMES[name])})"
        )
    return Transport(name=name, detail=detail)


def needs_port(text: str, devices: Sequence[str]) -> bool:
    """Return whether a transport claims to use a port of an InfiniBand or RoCE adapter.

    If the library chooses, an environment that is given the adapter's devices makes that claim.
    """
    wanted = read(text)
    if wanted.name in ("openib", "uct", "verbs"):
        return True
    if wanted.name not in PORTED:
        return False
    return wanted.detail in PORTED[wanted.name] if wanted.detail else INFINIBAND in devices


def is_local(text: str) -> bool:
    """Return whether a transport reaches no further than its host."""
    return str(read(text)) in ("shm", "ofi:shm")


def accepts(text: str, taken: str, *, port: bool) -> bool:
    """Return whether the library's choice (`tcp/data0`, `rc_mlx5/mlx5_0:1`, `btl openib`) matches the cell's claim."""
    wanted = read(text)
    if wanted.name == CHOSEN_BY_MPI:
        return True
    kind = taken.partition("/")[0]
    if wanted.name in ("uct", "openib"):
        return kind == f"btl {wanted.name}"
    detail = wanted.detail or USUAL.get(wanted.name, "")
    if detail:
        return kind in {detail, wanted.name} | TYPES.get(detail, frozenset())
    return kind not in BY_TCP if port else True
