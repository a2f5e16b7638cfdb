"""Find the cells whose programs did other work than the baseline's: their figures compare nothing. Pure.

A program that cannot write, does not find its input, gets fewer threads or loses a preloaded library is often faster,
and ends well. So what each launch did (`tare.model.Work`) is compared with what the baseline's own launches did, those
of A/A among them. docs/method.md has the criteria and their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePosixPath
from statistics import median
from typing import Final

from tare.analysis import stats
from tare.analysis.summary.loaded_libraries import stem
from tare.analysis.summary.select import Selection
from tare.model import Cell, Completed, Failed, Plan, Role, Trial, Work
from tare.model.text import rate_scale, three_digits
from tare.model.trial import ENDED_EARLY

LEAST_LAUNCHES: Final = 2
"""Launches of the baseline from which is known what it does."""
TRUSTED: Final = 5
"""From this many on, also a baseline that varies says what it does, and half of a cell's; fewer must agree."""
RARELY: Final = 0.001
"""p (Fisher's exact test) below which less than half of a cell's launches tell."""
LARGE_BYTES: Final = 1 << 20
PACKET_S: Final = 200e-6
"""How long a rank may have polled for each packet of the baseline, which is no work."""
COMPUTING: Final = (
    "libopenblas", "libblas", "libblis", "libmkl_", "libatlas", "liblapack", "libfftw3",
    "libgomp", "libiomp5", "libomp",
)  # fmt: skip
"""The beginnings of the names of libraries that compute: with another one of them a program does other work."""
MPICHS: Final = ("libmpich.so", "libmpi.so.12", "libmvapich")
"""The beginnings of the names of MPI libraries that are compatible with MPICH."""

Read = Callable[[Trial, Work], float | None]
Flags = tuple[list[bool], str]
"""Which launches of a cell differ in something, and the difference in words."""


def _bytes_text(value: float) -> str:
    size, unit = rate_scale(value, "B/s")
    return f"{three_digits(value / size)} {unit.removesuffix('/s')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkQuantity:
    """A number of a launch that shows whether it did the same work.

    `text` has the cell's number and the baseline's. A launch differs if its number is below `share` of the lowest usual
    one and by at least `least` less, or above the highest divided by `share` and by at least `more` more (None: more is
    not judged); of a megabyte and more `large_share` is the share. Few launches of the baseline must agree within the
    fraction `agree`. What `polled` tells is part of the number and no work; `raw` is a second reading in which at least
    half of the difference must be found, too.
    """

    text: str
    read: Read
    share: float
    least: float
    more: float | None
    large_share: float = 0.0
    agree: float = 0.02
    shown: Callable[[float], str] = _bytes_text
    polled: Callable[[Trial], float] = lambda _: 0.0
    raw: Read | None = None


def _files(calls: float | None, messages: float | None) -> float | None:
    """Return the bytes of read or write calls without those of messages, if the MPI sends by such calls.

    One that uses other calls may have sent more than was written.
    """
    if calls is None or messages is None:
        return calls
    return calls - messages if calls >= messages else calls


def _packets(trial: Trial) -> float:
    return PACKET_S * sum(each.tx_packets for each in trial.traffic)


WRITTEN: Final = WorkQuantity(
    text="its ranks wrote {}, the baseline's {}: does it write where it may not? (--writable, binds)",
    read=lambda _, work: _files(work.written_bytes, work.sent_bytes),
    raw=lambda _, work: work.written_bytes,
    share=0.5,
    large_share=0.8,
    least=512,
    more=1 << 16,
)
LOADED: Final = WorkQuantity(
    text="its ranks read {}, the baseline's {}: is its input there, and the same? (binds)",
    read=lambda _, work: _files(work.read_bytes, work.received_bytes),
    raw=lambda _, work: work.read_bytes,
    share=0.5,
    least=1 << 20,
    more=1 << 20,
)
THREADS: Final = WorkQuantity(
    text="its ranks created {} threads, the baseline's {}: do limits or variables differ?",
    read=lambda _, work: work.threads,
    share=0.99,
    least=1,
    more=2,
    shown=lambda value: f"{value:.0f}",
)
SENT: Final = WorkQuantity(
    text="its ranks sent {} over TCP, the baseline's {}",
    read=lambda _, work: work.sent_bytes,
    share=0.5,
    least=1 << 16,
    more=1 << 16,
)
COMPUTED: Final = WorkQuantity(
    text="its ranks computed for {}, the baseline's for {}: did it find its input, and end early?",
    read=lambda _, work: work.user_s,
    share=0.5,
    least=0.05,
    more=None,
    agree=0.3,
    shown=lambda value: f"{three_digits(value)} s",
    polled=_packets,
)
LINES: Final = WorkQuantity(
    text="it printed {} lines, the baseline {}",
    read=lambda _, work: work.output_lines,
    share=0.5,
    least=1,
    more=None,
    shown=lambda value: f"{value:.0f}",
)


def is_compared(cell: Cell) -> bool:
    """Tell whether the work of a cell's program is compared: tare's own programs verify theirs."""
    return bool(cell.workload.command or cell.workload.program)


def other_work(plan: Plan, selection: Selection) -> dict[str, str]:
    """Return in which way cells did other work than their baselines, by their keys; only of those that did."""
    found = {}
    for cell in filter(is_compared, plan.cells):
        base = [each for each in plan.cells if each.group == cell.group and each.role is not Role.ENVIRONMENT]
        if cell.role is Role.ENVIRONMENT and base:
            here = tuple(selection.trials[cell.key].values())
            there = tuple(chain.from_iterable(selection.trials[each.key].values() for each in base))
            if reason := _ended_early(here, there) or _difference(cell, base[0], here, there):
                found[cell.key] = reason
    return found


def _ended_early(here: Sequence[Trial], there: Sequence[Trial]) -> str:
    """Return that a cell's launches ended well without having done anything, if the baseline's did not."""
    early = [
        trial.outcome.status == 0 and trial.outcome.reason.startswith(ENDED_EARLY)
        for trial in here
        if isinstance(trial.outcome, Failed)
    ]
    if 2 * sum(early) < max(len(here), 1) or not any(isinstance(trial.outcome, Completed) for trial in there):
        return ""
    return f"{sum(early)} of {len(here)} launches ended with status 0 before MPI_Finalize, the baseline's did not"


def _difference(cell: Cell, base: Cell, here: Sequence[Trial], there: Sequence[Trial]) -> str:
    own, usual = _with_work(here), _with_work(there)
    if not own or len(usual) < LEAST_LAUNCHES:
        return ""
    for flags, words in _differences(cell, base, own, usual):
        count, of = sum(flags), len(flags)
        most = 2 * count >= of if of >= TRUSTED else count == of
        if most or stats.more_often_p(count, of, 0, len(usual)) < RARELY:
            return words if count == of else f"{words} ({count} of {of} launches)"
    return ""


def _with_work(trials: Iterable[Trial]) -> list[tuple[Trial, Work]]:
    return [(each, each.work) for each in trials if each.work is not None and isinstance(each.outcome, Completed)]


Launches = Sequence[tuple[Trial, Work]]


def _differences(cell: Cell, base: Cell, here: Launches, there: Launches) -> Iterator[Flags]:
    """Yield what may differ, in the order in which it is reported; what varies in the baseline does not decide."""
    one, other = cell.environment, base.environment
    yield from _by_name([work.preloads for _, work in here], [work.preloads for _, work in there], "preloaded {}")
    yield from _by_name(_libraries(here), _libraries(there), "loaded {}")
    if one.mpi == other.mpi:
        yield from _by_name(_mpis(here), _mpis(there), "loaded {}")
    quantities = [WRITTEN, replace(LOADED, more=None) if _is_of_image(cell) else LOADED, LINES]
    neighbours = {tuple(rank.shared_memory_ranks for rank in trial.ranks) for trial, _ in (*here, *there)}
    same_paths = one.mpi == other.mpi and one.transport == other.transport and len(neighbours) == 1
    if same_paths:
        quantities += [THREADS, SENT, COMPUTED]
    for quantity in quantities:
        yield from _by_number(quantity, here, there)
    yield from _by_output(here, there, COMPUTED if same_paths else None)


def _is_of_image(cell: Cell) -> bool:
    """Tell whether a cell's program is a file of its image: a Python of another release reads other modules."""
    program = cell.workload.command[0] if cell.workload.command else ""
    return bool(cell.environment.image and program) and ("/" not in program or program.startswith("/usr/"))


def _by_name(here: Sequence[str], there: Sequence[str], verb: str) -> Iterator[Flags]:
    """Yield which launches have other names than the baseline's, which all have the same."""
    if len(set(there)) == 1:
        words = f"its ranks {verb.format(here[-1] or 'nothing')}, the baseline's {there[0] or 'nothing'}"
        yield [names != there[0] for names in here], words


def _libraries(launches: Launches) -> list[str]:
    """Return the libraries of each launch's first rank that compute, without their versions."""
    names = ([name for name in _files_of(one) if name.startswith(COMPUTING)] for one in launches)
    return [", ".join(sorted(set(map(_family, each)))) for each in names]


def _mpis(launches: Launches) -> list[str]:
    """Return the kinds of MPI that each launch's first rank had loaded."""
    names = ([name for name in _files_of(one) if name.startswith(("libmpi.so", *MPICHS))] for one in launches)
    return [
        " and ".join(sorted({"MPICH's library" if name.startswith(MPICHS) else "Open MPI's library" for name in each}))
        for each in names
    ]


def _files_of(launch: tuple[Trial, Work]) -> list[str]:
    """Return the names of the libraries that the first rank of a launch had loaded."""
    return [PurePosixPath(path).name for rank in launch[0].ranks[:1] for path in rank.libraries]


def _family(name: str) -> str:
    """Return a library's name without what a release changes: `libopenblasp` of `libopenblasp-r0.3.21.so`."""
    return stem(name).partition("-r0")[0].rstrip("0123456789.-")


def _usual(quantity: WorkQuantity, read: Read, there: Launches) -> tuple[float, float] | None:
    """Return the range of what the baseline usually does, as much wider on each side as it is; None if not known."""
    values = [value for trial, work in there if (value := read(trial, work)) is not None]
    if len(values) < max(LEAST_LAUNCHES, len(there)):
        return None
    low, high = min(values), max(values)
    if len(values) < TRUSTED and high - low > max(quantity.agree * high, quantity.least / 2):
        return None
    return 2 * low - high, 2 * high - low


def _by_number(quantity: WorkQuantity, here: Launches, there: Launches) -> Iterator[Flags]:
    """Yield which launches have another number than the baseline's."""
    usual = _usual(quantity, quantity.read, there)
    values = [quantity.read(trial, work) for trial, work in here]
    if usual is None or None in values:
        return
    polled = max(quantity.polled(trial) for trial, _ in there)
    flags = [
        _is_other(quantity, usual, value, polled) and _shows(quantity, usual, value, launch, there)
        for value, launch in zip(values, here, strict=True)
        if value is not None
    ]
    known = [value for value, flag in zip(values, flags, strict=True) if flag and value is not None]
    base = median(value for trial, work in there if (value := quantity.read(trial, work)) is not None)
    if known:
        yield flags, quantity.text.format(quantity.shown(median(known)), quantity.shown(base))


def _is_other(quantity: WorkQuantity, usual: tuple[float, float], value: float, polled: float = 0.0) -> bool:
    low, high = usual
    share = max(quantity.share, quantity.large_share) if low >= LARGE_BYTES else quantity.share
    if low - value >= quantity.least + polled and value < share * low:
        return True
    return quantity.more is not None and value - high >= quantity.more and value * share > high


def _shows(
    quantity: WorkQuantity, usual: tuple[float, float], value: float, launch: tuple[Trial, Work], there: Launches
) -> bool:
    """Tell whether a second reading shows at least half of a difference, too: messages cannot be the cause then."""
    if quantity.raw is None:
        return True
    raw, raws = quantity.raw(*launch), [each for one in there if (each := quantity.raw(*one)) is not None]
    if raw is None or not raws:
        return False
    if value < usual[0]:
        return min(raws) - raw >= (usual[0] - value) / 2
    return raw - max(raws) >= (value - usual[1]) / 2


def _by_output(here: Launches, there: Launches, computed: WorkQuantity | None) -> Iterator[Flags]:
    """Yield which launches print something else than all of the baseline's, and did less as well.

    What is printed alone proves nothing: paths, names and versions of libraries differ between images.
    """
    if len({work.output for _, work in there}) > 1 or not there[0][1].output_lines:
        return
    usual = there[0][1]
    less = [(replace(WRITTEN, share=0.75, least=128, more=None), False)]
    if computed is not None:
        less.append((replace(computed, share=0.75), True))
    for quantity, by_digits in less:
        for flags, words in _by_number(quantity, here, there):
            others = [work.output != usual.output and (by_digits or work.words != usual.words) for _, work in here]
            yield list(map(all, zip(flags, others, strict=True))), f"it printed something else, and {words}"
