"""Read what the probe printed in each rank: hostile text, as it comes out of images and through launchers. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tare.model.text import printable

PART: Final = re.compile(r"@tare-check ([0-9a-f]{16}) ([0-9]{1,3})/([0-9]{1,3}) ([^\r\n]*)\r?")
"""A part of an object of a rank; the last digit is the object's. Launchers mix longer lines (kernels/check/probe.c)."""
MOST_PARTS: Final = 64
MOST_RANKS: Final = 100_000
LONGEST: Final = 400
"""Characters of a text that is kept."""
SIZES: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
"""The variables by which launchers tell ranks how many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInterface:
    """A network interface as its namespace shows it; `mtu` 0 if unknown."""

    name: str
    mtu: int = 0
    is_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """What two ranks measured: half a round trip of 8 B and of `large_bytes`, in microseconds.

    `bytes` has what this rank's interfaces counted while `sent_bytes` went there and back.
    """

    other: int = 0
    small_us: float = 0.0
    large_us: float = 0.0
    large_bytes: int = 0
    sent_bytes: int = 0
    bytes: Mapping[str, float] = field(default_factory=dict)

    @property
    def carriers(self) -> tuple[str, ...]:
        """Return the interfaces that carried at least half of what was sent, the busiest first."""
        busy = sorted(self.bytes, key=lambda name: -self.bytes[name])
        return tuple(name for name in busy if 2 * self.bytes[name] >= self.sent_bytes > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiAnswer:
    """What a rank's MPI answered.

    `ended` is `exit`, `signal`, `limit`, `stopped` or `killed` by the launcher, or why it could not be asked. `size`
    and `rank` are None if it came to no answer, `shares` is the number of ranks with which it shares memory in its own
    opinion, and `ranks_here` of those on its machine. `text` is what the MPI printed itself.
    """

    ended: str = ""
    signal: int = 0
    status: int = 0
    error: str = ""
    library: str = ""
    rank: int | None = None
    size: int | None = None
    shares: int = 0
    ranks_here: int = 0
    near: PairTimes | None = None
    far: PairTimes | None = None
    is_done: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What one rank saw.

    `cpus` are the cores that it may use, of the node's `online` ones (0: unknown); `quota_cores` is what a CPU quota
    leaves of them, or None. `kind` is that of the program: `elf`, `script`, `foreign` (of another architecture),
    `forbidden` (it may not be run), `unreadable` or `none`.
    """

    host: str = ""
    machine: str = ""
    container: str = ""
    namespaces: Mapping[str, int] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()
    online: int = 0
    quota_cores: float | None = None
    shm_bytes: float | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    interfaces: tuple[RankInterface, ...] = ()
    devices: str = ""
    program: str = ""
    kind: str = ""
    missing: tuple[str, ...] = ()
    mpi_library: str = ""
    mpi: MpiAnswer | None = None

    @property
    def told_size(self) -> int | None:
        """Return how many ranks there are by what the launcher told this one; None if it told nothing."""
        told = (self.variables.get(name, "") for name in SIZES)
        return next((int(text) for text in told if text.isdecimal() and len(text) < 9), None)

    @property
    def launcher_family(self) -> str:
        """Return whose launcher told it its number: `openmpi`, `hydra`, `slurm`, `flux` or ""."""
        if "OMPI_COMM_WORLD_SIZE" in self.variables:
            return "openmpi"
        if "FLUX_JOB_SIZE" in self.variables:
            return "flux"
        if "SLURM_PROCID" in self.variables:
            return "slurm"
        return "hydra" if "PMI_SIZE" in self.variables or "PMI_RANK" in self.variables else ""

    @property
    def mpi_family(self) -> str:
        """Return the family of the program's MPI by its file: `openmpi`, `mpich` or ""."""
        name = self.mpi_library.rpartition("/")[2]
        if name.startswith(("libmpich.so", "libmpi.so.12", "libmpi_")):
            return "mpich"
        return "openmpi" if name.startswith("libmpi.so") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job of which each rank was asked. `reason` is why it failed, by what was printed; `status` is the launcher's.

    `launcher` and `container` are the names of the line's programs, "" for none. `hosts` is the number of nodes that
    the line or the batch system asks for, None if neither says it.
    """

    launcher: str
    container: str
    ranks: tuple[RankFacts, ...]
    reason: str = ""
    status: int = 0
    is_late: bool = False
    hosts: int | None = None

    @property
    def told_size(self) -> int | None:
        """Return the number of ranks that the launcher told most of them."""
        told = Counter(size for rank in self.ranks if (size := rank.told_size) is not None)
        return told.most_common(1)[0][0] if told else None

    @property
    def machines(self) -> Mapping[str, tuple[RankFacts, ...]]:
        """Return the ranks by machine."""
        found = dict[str, list[RankFacts]]()
        for rank in self.ranks:
            found.setdefault(rank.machine or rank.host, []).append(rank)
        return {machine: tuple(ranks) for machine, ranks in found.items()}


def read_ranks(output: str) -> tuple[tuple[RankFacts, ...], str]:
    """Return the facts of each rank in a job's output, and the rest of it. What is no such fact is left in the rest."""
    parts = dict[str, dict[int, str]]()
    counts = dict[str, int]()
    for found in PART.finditer(output):
        name, number, count, text = found[1], int(found[2]), int(found[3]), found[4]
        if 1 <= number <= count <= MOST_PARTS and counts.setdefault(name, count) == count and len(parts) < MOST_RANKS:
            parts.setdefault(name, {})[number] = text
    objects = dict[str, dict[str, Any]]()
    for name in sorted(parts):
        if len(parts[name]) == counts[name] and (data := _object(parts[name])) is not None:
            objects.setdefault(name[:-1], {}).update(data)
    order = dict.fromkeys(name[:-1] for name in parts)
    ranks = [_rank(objects[name]) for name in order if "program" in objects.get(name, {})]
    return tuple(ranks), PART.sub("", output).strip()


def _object(parts: Mapping[int, str]) -> dict[str, Any] | None:
    try:
        data, _ = json.JSONDecoder().raw_decode("".join(parts[number] for number in sorted(parts)))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _rank(data: Mapping[str, Any]) -> RankFacts:
    rights, program = _table(data, "rights"), _table(data, "program")
    mpi = data.get("mpi", {"ended": "killed"} if _text(program, "mpi") else None)
    return RankFacts(
        host=_text(data, "host"),
        machine=_text(data, "boot_id"),
        container=_text(data, "container"),
        namespaces={_short(name): int(_number(value)) for name, value in _table(data, "namespaces").items()},
        cpus=_cpus(_text(data, "cpus")),
        online=_count(data, "online") or 0,
        quota_cores=_number(data["quota_cores"]) if "quota_cores" in data else None,
        shm_bytes=float(size) if (size := _text(rights, "shm_bytes")).isdecimal() else None,
        limits={key: _text(rights, key) for key in ("locked_bytes", "stack_bytes", "open_files", "processes")},
        variables={_short(name): _short(value) for name, value in _table(data, "variables").items()},
        interfaces=tuple(_interface(each) for each in _list(data, "interfaces")),
        devices=_text(rights, "devices"),
        program=_text(program, "path"),
        kind=_text(program, "kind"),
        missing=tuple(map(_short, _list(program, "missing"))),
        mpi_library=_text(program, "mpi"),
        mpi=_answer(mpi) if isinstance(mpi, dict) else None,
    )


def _answer(asked: Mapping[str, Any]) -> MpiAnswer:
    data = dict[str, Any]()
    for text in _list(asked, "answers"):
        try:
            data.update(json.loads(f"{{{text}}}"))
        except (ValueError, RecursionError):
            continue
    data.update({key: asked[key] for key in ("ended", "signal", "status", "said") if key in asked})
    return MpiAnswer(
        ended=_text(data, "ended"),
        signal=_count(data, "signal") or 0,
        status=_count(data, "status") or 0,
        error=_text(data, "error"),
        library=_text(data, "library"),
        rank=_count(data, "rank"),
        size=_count(data, "size"),
        shares=_count(data, "shares") or 0,
        ranks_here=_count(data, "ranks_here") or 0,
        near=_pair(data, "near"),
        far=_pair(data, "far"),
        is_done="done" in data,
        text=printable(said[-2000:], lines=True) if isinstance(said := data.get("said"), str) else "",
    )


def _pair(data: Mapping[str, Any], key: str) -> PairTimes | None:
    pair = data.get(key)
    if not isinstance(pair, dict):
        return None
    return PairTimes(
        other=_count(pair, "with") or 0,
        small_us=_number(pair.get("small_us")),
        large_us=_number(pair.get("large_us")),
        large_bytes=_count(pair, "large_bytes") or 0,
        sent_bytes=_count(pair, "sent_bytes") or 0,
        bytes={_short(name): _number(value) for name, value in _table(pair, "bytes").items()},
    )


def _interface(data: Any) -> RankInterface:
    table = data if isinstance(data, dict) else {}
    mtu = _text(table, "mtu")
    return RankInterface(
        name=_text(table, "name"),
        mtu=int(mtu) if mtu.isdecimal() and len(mtu) < 9 else 0,
        is_up=_text(table, "operstate") in ("up", "unknown"),
    )


def _cpus(text: str) -> frozenset[int]:
    """Return the numbers in a list of Linux such as `0-3,8`; empty if it is none."""
    found = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or len(part) > 15:
            return frozenset()
        found.update(range(int(first), min(int(last or first), int(first) + 4096) + 1))
    return frozenset(found)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _list(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = data.get(key)
    return found[:64] if isinstance(found, list) else ()


def _text(data: Mapping[str, Any], key: str) -> str:
    return _short(data.get(key, ""))


def _short(value: Any) -> str:
    return printable(value[:LONGEST]) if isinstance(value, str) else ""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else 0.0


def _count(data: Mapping[str, Any], key: str) -> int | None:
    value = data.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None
