"""Parse the transport that an MPI's library selected, and compare it with the cell's claim. Pure.

Libraries fall back to TCP silently: UCX if it cannot open an adapter, libfabric if a provider is missing. Counters show
that too, but do not name the transport. So each library is asked in a launch that is not timed
(`tare.run.transport_probe`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tare.networks.wiring.transports import BY_TCP, accepts

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
SELECTED_LINE: Final = re.compile(
    r"(?:select: component (?P<pml>\w+) selected|mca:base:select:\(\s*mtl\) Selected component \[(?P<mtl>\w+)\])"
)
RANK_LINE: Final = re.compile(r"\[(?:[^\]\s]*,)?(\d+)\](?:<std\w+>)?:? ?(.*)")
"""A line with its rank before it: `[1,0]<stderr>:`, `[prterun-n0-77@1,0]<stdout>: ` of Open MPI, `[0] ` of Hydra."""
RANK_WITHIN_A_LINE: Final = re.compile(r"(?<=.)(?<!cfg)(?=\[(?:[^\]\s]*,)?\d+\](?:<std\w+>:| ))")
"""Where a line of another rank begins: Hydra writes it behind what a rank has written without the end of its line.

UCX numbers its configurations in the same form (`ep_cfg[1]`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTransports:
    """The transports to other hosts that a library reported (`tcp/data0`).

    `reason` is why they contradict the cell's claim, or None. `library` is the library that reported them. `of_ranks`
    are those that each rank reported, where this is known.
    """

    library: str
    taken: tuple[str, ...] = ()
    reason: str | None = None

    of_ranks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Return the transports in words for a report, rank by rank where they differ."""
        if len(set(self.of_ranks.values())) > 1:
            return f"{self.library}: {'; '.join(_in_groups(self.of_ranks))}"
        return f"{self.library}: {', '.join(self.taken)}" if self.taken else f"{self.library} did not tell"


def judged(transport: str, library: str, said: str, *, port: bool) -> ChosenTransports:
    """Return the transports that a library reported in a launch between hosts; `port`: an adapter's port is claimed."""
    taken = READERS[library](said)
    if not taken:
        reason = f"{library} did not tell what it took: nothing proves that messages took {transport}"
        return ChosenTransports(library=library, reason=reason)
    wrong = [each for each in taken if not accepts(transport, each, port=port)]
    if not wrong:
        return ChosenTransports(library=library, taken=taken)
    fell_back = any(_kind(each) in BY_TCP for each in wrong)
    how = f"it fell back to TCP: {library} took" if fell_back else f"{library} took"
    reason = f"{how} {', '.join(wrong)} where the cell claims {transport}"
    return ChosenTransports(library=library, taken=taken, reason=reason)


def by_rank(library: str, said: str) -> ChosenTransports:
    """Return what an MPI that chooses itself reported on each rank, also within a host; it contradicts no claim."""
    lines: defaultdict[int, list[str]] = defaultdict(list)
    for line in RANK_WITHIN_A_LINE.sub("\n", said).splitlines():
        if match := RANK_LINE.match(line):
            lines[int(match[1])].append(match[2])
    of_ranks = {rank: chosen_components("\n".join(lines[rank])) for rank in sorted(lines)}
    told = {rank: taken for rank, taken in of_ranks.items() if taken}
    if not told:
        return ChosenTransports(library=library, taken=chosen_components(said))
    return ChosenTransports(
        library=library, taken=_each_once(each for taken in told.values() for each in taken), of_ranks=told
    )


def chosen_components(said: str) -> tuple[str, ...]:
    """Return the components, transports and providers that one rank's libraries reported."""
    selected = (match.groupdict().items() for match in SELECTED_LINE.finditer(said))
    layers = (f"{kind} {name}" for named in selected for kind, name in named if name)
    btls = (f"btl {name}" for name in BTL_LINE.findall(said) if name != "self")
    lanes = (f"ucx {kind}/{device}" for line in UCX_LINE.findall(said) for kind, device in UCX_LANE.findall(line))
    return _each_once((
        *layers, *sorted(btls), *sorted(lane for lane in lanes if not lane.startswith("ucx self/")),
        *(f"ofi {name}" for name in (*by_libfabric(said), *by_intel_mpi(said))),
    ))  # fmt: skip


def _in_groups(of_ranks: Mapping[int, tuple[str, ...]]) -> Iterator[str]:
    """Yield the ranks that reported the same, with what they reported."""
    groups: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, taken in of_ranks.items():
        groups[taken].append(rank)
    for taken, ranks in groups.items():
        yield f"rank{'s' if len(ranks) > 1 else ''} {' '.join(map(str, ranks))}: {', '.join(taken)}"


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
