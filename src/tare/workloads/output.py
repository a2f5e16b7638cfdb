"""Read the records that tare's programs write: lines of `@tare ` and one JSON object (docs/kernels.md)."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from tare.model import Figure, Metric, MetricInfo, RankPlace, Work
from tare.store.plausible import LEAST_TIMED_S
from tare.workloads.parts import OTHERS, PREFIX, ForeignRecordError, PartMissingError, with_whole_records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROTOCOL: Final = 1
ONCE: Final = frozenset({"start", "wall", "startup", "miniapp", "usage", "work", "treatment", "end"})
"""The records that a launch writes once, because it is one program that its ranks run together."""
BY_TURN: Final = "part_by_turn"
"""The column of samples with what a part of a program took in each of its turns."""
MOST_CPUS: Final = 1 << 16
"""CPUs of a node; Linux numbers up to 8192."""
MOST_USED: Final = 1e15
"""Context switches or seconds of a rank."""
MOST_LIBRARIES: Final = 256
"""Loaded libraries of a rank; some twenty are usual."""


OF_COLUMNS: Final = tuple(each.name for each in fields(MetricInfo) if each.name != "group")
"""What a metric has in common with its column of the report."""


class OutputError(ValueError):
    """The output of a launch is incomplete or wrong; the message names the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTiming:
    """The times of a launch: when its launcher started and ended (CLOCK_MONOTONIC), and how long its pods took."""

    launched_s: float
    ended_s: float
    pods_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Bounds of the bytes that ranks sent to ranks on other hosts, and the number of messages that carried them.

    With `more` the launch also sent messages that were not counted: then only the lower bound is meaningful.
    """

    low_bytes: int = 0
    high_bytes: int = 0
    messages: int = 0
    known: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The parsed output of a launch. `samples` are columns keyed `METRIC/COLUMN`, in seconds.

    `iterations` are those from which a metric is computed, by its key, if a turn has a share of them.

    `usage` is what each rank used of its cores, in order of rank; empty if the program does not print it.
    `spans_s` gives by metric when its measurement began and ended (CLOCK_MONOTONIC), if the program prints that.
    `refuted` is None if the places of ranks and their traffic prove the treatment; otherwise the launch proves it
    itself, and this is why it does not ("": it does). `work` is what the program did, if tare's library was in it.
    """

    metrics: tuple[Metric, ...]
    ranks: tuple[RankPlace, ...]
    payload: Payload
    mpi_library: str
    init_s: float
    measured_s: float
    wrong: tuple[str, ...] = ()
    samples: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    iterations: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    spans_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    usage: tuple[Mapping[str, float], ...] = ()
    refuted: str | None = None
    work: Work | None = None


ALONE: Final = (
    "each is alone, because the variables of the launcher (OMPI_*, PMIX_*, PMI_*) do not reach it, or it was started "
    "as a job of its own"
)


def records(stdout: str) -> list[dict[str, Any]]:
    """Return all records; raise `OutputError` if one is broken, the last is missing, or one is there twice."""
    found: list[dict[str, Any]] = []
    for line in _lines(stdout):
        at = line.find(PREFIX)
        if at < 0:
            continue
        try:
            record = json.loads(line[at + len(PREFIX) :])
        except (ValueError, RecursionError) as error:
            raise OutputError(f"record {len(found) + 1} is broken: {line[at : at + 60]}...") from error
        if not isinstance(record, dict) or "type" not in record:
            raise OutputError(f"record {len(found) + 1} was not written by tare: {line[at : at + 60]}...")
        found.append(record)
    if not found and OTHERS in stdout:
        raise OutputError(
            "its records lack the key of this launch: they are of an earlier one, of another version's programs, or of "
            "ranks that do not get the variable TARE_PADDING"
        )
    if not found:
        raise OutputError("the program wrote no record: it runs without tare's kernels and preload library")
    if found[0].get("type") != "start" or found[0].get("protocol") != PROTOCOL:
        raise OutputError(f"the first record is not a start of protocol {PROTOCOL}")
    if found[-1].get("type") != "end":
        raise OutputError("the output is cut off: its end record is missing")
    counted = Counter(str(record["type"]) for record in found)
    if len(worlds := [record.get("ranks") for record in found if record["type"] == "start"]) > 1 and set(worlds) == {1}:
        raise OutputError(f"{len(worlds)} records say 'start', each of a job of one rank: {ALONE}")
    if twice := next((kind for kind in counted if kind in ONCE and counted[kind] > 1), ""):
        raise OutputError(f"{counted[twice]} records say {twice!r}, so it is not known which is the launch's")
    return found


def _lines(stdout: str) -> Iterator[str]:
    try:
        yield from with_whole_records(stdout)
    except ForeignRecordError as error:
        raise OutputError(str(error)) from error
    except PartMissingError as error:
        raise OutputError(f"{error}: all ranks write at the end, let them write less or to files") from error


def number(value: object) -> float:
    """Return a number of a record; raise `TypeError` for a text or a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.60} is not a number")
    return float(value)


def metric_of(info: MetricInfo, seconds: float, **others: Any) -> Metric:
    """Return a metric of which a launch has one value, unless `others` say otherwise; the rest is as in its column."""
    values = dict.fromkeys(("value", "median_s", "p99_s", "rank_average_s"), seconds)
    return Metric(**{**{name: getattr(info, name) for name in OF_COLUMNS}, **values, **others})


def timed(value: object, what: str) -> float:
    """Return a time that one of tare's programs took; raise `OutputError` if no clock could have told it so short."""
    seconds = number(value)
    if seconds < LEAST_TIMED_S:
        raise OutputError(f"{what} is {seconds:g} s, which is impossible: to read the clock takes longer")
    return seconds


def wall_s(found: list[dict[str, Any]], program: str) -> float:
    """Return the wall time that tare's library reported of a program, the longest of its ranks."""
    record = next((record for record in found if record["type"] == "wall"), None)
    if record is None:
        raise OutputError(f"{program} ended without MPI_Finalize, so it has no wall time")
    seconds, ranks_s = timed(record["wall_s"], "wall time"), record.get("rank_wall_s")
    if ranks_s is not None and (len(ranks_s) != int(found[0]["ranks"]) or max(map(number, ranks_s)) != seconds):
        raise OutputError(f"wall time is {seconds:g} s, which is not the longest of its ranks")
    return seconds


def rank_place(record: Mapping[str, Any]) -> RankPlace:
    """Return the place where a rank ran."""
    return RankPlace(
        rank=int(record["rank"]),
        host=f"{record['boot_id']}/{record['hostname']}",
        hostname=str(record["hostname"]),
        pid=int(record["pid"]),
        cpus=tuple(sorted(cpu_list(record.get("cpus") or ""))),
        namespaces={k: int(v) for k, v in record["namespaces"].items() if v is not None},
        rights={k: v for k, v in record.get("rights", {}).items() if isinstance(v, str)},
        shm_device=None if (device := record.get("shm_device")) is None else int(device),
        shared_memory_ranks=tuple(int(rank) for rank in record.get("shared_memory_ranks") or ()),
        libraries=tuple(str(path) for path in (record.get("libraries") or ())[:MOST_LIBRARIES]),
    )


def cpu_list(text: str) -> set[int]:
    """Return the cores of a Linux list such as `0-2,5`."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if last >= MOST_CPUS:
            raise ValueError(f"no node has a core {last}")
        cores.update(range(first, last + 1))
    return cores


def decode(columns: list[str], data: list[str]) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a kernel record, each an array of seconds."""
    import numpy as np

    return {name: np.frombuffer(base64.b64decode(text), dtype="<f8") for name, text in zip(columns, data, strict=True)}


USED_S: Final = ("run_delay_s", "on_cpu_s")
USED: Final = ("voluntary_switches", "involuntary_switches", *USED_S)
"""What ranks report at their end (kernels/common/usage.h)."""


def about(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a launch reports whatever it measures, as fields of `Parsed`."""
    return {
        "ranks": ranks_of(found),
        "usage": usage_of(found),
        "mpi_library": str(found[0]["mpi_library"]),
        "init_s": number(found[0]["init_s"]),
    }


def usage_of(found: list[dict[str, Any]]) -> tuple[Mapping[str, float], ...]:
    """Return what each rank used of its cores, in order of rank; empty if no record says it."""
    record = next((each for each in reversed(found) if each["type"] == "usage"), None)
    if record is None:
        return ()
    ranks = int(found[0]["ranks"])
    columns = {name: [number(value) for value in record[f"rank_{name}"]] for name in USED if record[f"rank_{name}"]}
    if any(len(values) != ranks for values in columns.values()):
        raise OutputError(f"the record of what ranks used is not of {ranks} ranks")
    if any(not 0 <= value <= MOST_USED for values in columns.values() for value in values):
        raise OutputError("the record of what ranks used has an impossible number")
    return tuple({name: values[rank] for name, values in columns.items()} for rank in range(ranks))


def ranks_of(found: list[dict[str, Any]]) -> tuple[RankPlace, ...]:
    """Return the places of all ranks, in order of rank."""
    places = sorted((rank_place(r) for r in found if r["type"] == "rank"), key=lambda place: place.rank)
    expected = int(found[0]["ranks"])
    if len(places) != expected:
        raise OutputError(f"{len(places)} ranks reported where they ran, of {expected}")
    if [place.rank for place in places] != list(range(expected)):
        raise OutputError(f"ranks {[place.rank for place in places]} reported where they ran, not 0 to {expected - 1}")
    return tuple(places)
