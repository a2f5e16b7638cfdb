"""Parse the transport that an MPI's library selected, and compare it with the cell's claim. Pure.

Libraries fall back to TCP silently: UCX if it cannot open an adapter, libfabric if a provider is missing. Counters show
that too, but do not name the transport. So each library is asked in a launch that is not timed
(`tare.run.transport_probe`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tare.wiring.transports import BY_TCP, accepts

WITHIN_A_HOST: Final = frozenset(
    {"self", "sysv", "posix", "cma", "knem", "xpmem", "memory", "vader", "sm", "shm", "sm2"}
)
UTILITIES: Final = frozenset({"core", "ofi_rxm", "ofi_rxd", "off_coll", "ofi_mrail", "lnx", "util"})
"""Layers of libfabric around a provider, which move no data themselves."""

UCX_LINE: Final = re.compile(r"\b(?:ep_)?cfg(?:#\d+|\[\d+\]):?\s+(.*)")
UCX_LANE: Final = re.compile(r"([a-z][a-z0-9_]*)/([A-Za-z0-9_.:-]+)")
BTL_LINE: Final = re.compile(r"Using (\w+) btl for send to \S+ on node \S+")
LIBFABRIC_LINE: Final = re.compile(
    r"libfabric:\d+:\d*:[^:\n]*:(\w+):(?:av|cq|domain|ep_ctrl|ep_data|eq|fabric|mr):(\w+)\("
)
"""Matches the provider and the function that logged; functions that only query a provider (`..._info`) move no data."""
PROVIDER_LINE: Final = re.compile(r"libfabric provider: (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The transports to other hosts that a library reported (`tcp/data0`).

    `reason` is why they contradict the cell's claim, or None. `library` is the library that reported them.
    """

    library: str
    taken: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def words(self) -> str:
        """Return the transports in words for a report."""
        return f"{self.library}: {', '.join(self.taken)}" if self.taken else f"{self.library} did not tell"


def judged(transport: str, library: str, said: str, *, port: bool) -> Chosen:
    """Return the transports that a library reported in a launch between hosts; `port`: an adapter's port is claimed."""
    taken = READERS[library](said)
    if not taken:
        reason = f"{library} did not tell what it took: nothing proves that messages took {transport}"
        return Chosen(library=library, reason=reason)
    wrong = [each for each in taken if not accepts(transport, each, port=port)]
    if not wrong:
        return Chosen(library=library, taken=taken)
    fell_back = any(_kind(each) in BY_TCP for each in wrong)
    how = f"it fell back to TCP: {library} took" if fell_back else f"{library} took"
    reason = f"{how} {', '.join(wrong)} where the cell claims {transport}"
    return Chosen(library=library, taken=taken, reason=reason)


def by_ucx(said: str) -> tuple[str, ...]:
    """Return the lanes that UCX reports, without those within a host."""
    lanes = [lane for line in UCX_LINE.findall(said) for lane in UCX_LANE.findall(line)]
    return _each_once(f"{kind}/{device}" for kind, device in lanes if kind not in WITHIN_A_HOST)


def by_open_mpi(said: str) -> tuple[str, ...]:
    """Return the components that Open MPI reports for sending, without those within a host."""
    return _each_once(f"btl {name}" for name in BTL_LINE.findall(said) if name not in WITHIN_A_HOST)


def by_libfabric(said: str) -> tuple[str, ...]:
    """Return the active providers in libfabric's log, without the layers above them."""
    doing = (name for name, function in LIBFABRIC_LINE.findall(said) if not function.endswith("_info"))
    return _each_once(name for name in doing if name not in UTILITIES | WITHIN_A_HOST)


def by_intel_mpi(said: str) -> tuple[str, ...]:
    """Return the provider that Intel MPI reports, without libfabric's layers above it."""
    return _each_once(name.partition(";")[0] for name in PROVIDER_LINE.findall(said))


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _kind(taken: str) -> str:
    return taken.partition("/")[0].removeprefix("btl ")


READERS: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "UCX": by_ucx,
    "Open MPI": by_open_mpi,
    "libfabric": by_libfabric,
    "Intel MPI": by_intel_mpi,
}
