"""Explain launches that failed: the reasons, what differs from environments that ran, the counters at a limit. Pure.

A difference is a fact, not a cause: it is told without one. Where a reason names what a fact limits, a possible cause
is told as such. Results of earlier releases lack some of these facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tare.analysis.explain.unmeasured_changes import is_failure
from tare.analysis.summary.isolation import capabilities
from tare.analysis.summary.loaded_libraries import files_of
from tare.analysis.summary.select import PlannedCells, select
from tare.model import Cell, Completed, Role, Trial
from tare.model.trial import NOT_ENDED
from tare.system.node.allowed import OF_POD

NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
"""What differs between reasons that are the same: process numbers, addresses, ranks."""
OF_HOST: Final = re.compile(r" of (?!its )\S+$")
"""What follows the name of a fact that hosts have each for itself."""
MOST_REASONS: Final = 3
MOST_DIFFERENCES: Final = 12
OF_ENVIRONMENT: Final = ("runtime", "network", "image", "mpi", "transport", "launch")
RIGHTS: Final = {"uid_map": "user namespace", "root": "root file system", "limits": "limits of its containers"}
NOT_COMPARED: Final = ("subnet", "port", "transport", "unread counters", "cores")
"""Facts that have another value in each environment, or that only launches have which ran."""

AT_LIMIT: Final = {
    "TcpRetransSegs": "TCP segments sent again", "TcpExtTCPSynRetrans": "TCP connections tried again",
    "TcpExtTCPTimeouts": "timeouts of TCP",
    "IpFragFails": "packets that could not be fragmented", "IpExtInNoRoutes": "packets without a route",
    "IpOutDiscards": "packets discarded", "rx_dropped": "packets dropped on receipt", "tx_dropped": "packets dropped",
    "qdisc_drops": "packets dropped by queues", "softnet_dropped": "packets dropped by cores",
    "conntrack_drop": "packets dropped by connection tracking", "throttled_s": "s stopped by a CPU quota",
    "memory_failcnt": "times at the memory limit", "memory_pressure_s": "s waiting for memory",
    "page_scans": "pages examined to free memory", "swap_out_pages": "pages swapped out",
}  # fmt: skip
"""Counters that speak when a launch reaches its time limit (docs/report.md)."""
MORE: Final = 2.0
"""How many times as often as in launches that ran, per second, a counter grows that is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason, as the first launch had it, and the number of launches that failed for it."""

    words: str
    launches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherValues:
    """The value of a fact in environments that ran."""

    value: str
    environments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact that differs from environments that ran: its value, and the other values of these.

    It `separates` if no environment that ran has the value.
    """

    fact: str
    value: str
    others: tuple[OtherValues, ...]
    separates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCell:
    """An environment of a group in which `failed` of `launches` launches failed, the most frequent reason first.

    `ran` are the environments of the group in which all launches ran. Unless `rights_recorded`, the results lack what
    its pods may do and have, which is then not among the `differences`. `at_limit` says what was counted of launches
    that reached their time limit, `perhaps` what a reason and a difference together suggest.
    """

    group: str
    environment: str
    failed: int
    launches: int
    reasons: tuple[Reason, ...]
    ran: tuple[str, ...]
    differences: tuple[Difference, ...]
    rights_recorded: bool
    at_limit: tuple[str, ...]
    perhaps: tuple[str, ...]


PERHAPS: Final = (
    (
        r"operation not permitted|EPERM|permission denied|EACCES|function not implemented",
        ("system call filter", "capabilities", "no new privileges"),
        "the program may need a right that it does not get here (--cap-add, --security-opt seccomp=unconfined)",
    ),
    (r"read-only file system|permission denied", ("working folder",), "the program may need to write to its folder"),
    (r"too many open files", ("open files",), "the program may need more open files (ulimit -n)"),
    (
        r"resource temporarily unavailable|cannot (?:fork|create thread)|thread|fork",
        ("processes in its cgroup", "processes per user"),
        "the program may need more processes and threads (--pids-limit, ulimit -u)",
    ),
    (
        r"bus error|signal 7|no space left|shared memory|/dev/shm|alloc",
        ("/dev/shm",),
        "the program may need more shared memory (--shm-size, --ipc host)",
    ),
    (r"segmentation fault|stack", ("stack",), "the program may need a larger stack (ulimit -s)"),
    (r"cannot allocate memory|memory|lock", ("locked memory", "address space"), "it may need more memory (ulimit)"),
)
"""Patterns of reasons with the facts that limit what they name: both together make a cause possible, not certain."""


def failed_cells(plan: PlannedCells, trials: Sequence[Trial]) -> tuple[FailedCell, ...]:
    """Return the environments of which launches failed, in the order of the plan."""
    chosen = select(plan, trials).trials
    groups: defaultdict[str, list[tuple[Cell, list[Trial]]]] = defaultdict(list)
    for cell in plan.cells:
        if cell.role is not Role.SELF:
            groups[cell.group].append((cell, list(chosen[cell.key].values())))
    return tuple(found for members in groups.values() for found in _of_group(members))


def _of_group(members: Sequence[tuple[Cell, list[Trial]]]) -> Iterator[FailedCell]:
    ran = {
        cell.environment.name: (cell, own)
        for cell, own in members
        if own and all(isinstance(trial.outcome, Completed) for trial in own)
    }
    facts = {name: _facts(cell, own) for name, (cell, own) in ran.items()}
    for cell, own in members:
        failed = [trial for trial in own if is_failure(trial.outcome)]
        if not failed:
            continue
        reasons = _reasons(failed)
        differences = _differences(_facts(cell, failed), facts)
        yield FailedCell(
            group=cell.group,
            environment=cell.environment.name,
            failed=len(failed),
            launches=len(own),
            reasons=reasons,
            ran=tuple(ran),
            differences=differences,
            rights_recorded=any(name.startswith(OF_POD) for trial in failed for name in trial.facts),
            at_limit=_at_limit(failed, [trial for _, others in ran.values() for trial in others]),
            perhaps=tuple(_perhaps(reasons, differences)),
        )


def _reasons(failed: Iterable[Trial]) -> tuple[Reason, ...]:
    counted: Counter[str] = Counter()
    first: dict[str, str] = {}
    for trial in failed:
        key = NUMBERS.sub("#", trial.reason)
        first.setdefault(key, trial.reason)
        counted[key] += 1
    return tuple(Reason(words=first[key], launches=count) for key, count in counted.most_common(MOST_REASONS))


# --- facts --------------------------------------------------------------------------------------------------------


def _facts(cell: Cell, trials: Sequence[Trial]) -> dict[str, str]:
    """Return what is known of an environment and of its first launch that has facts, by name."""
    environment = cell.environment
    found = {name: str(getattr(environment, name)) for name in OF_ENVIRONMENT}
    found = {name: value for name, value in found.items() if value}
    for name, texts in _by_name(next((trial.facts for trial in trials if trial.facts), {})).items():
        found[_named(name)] = _value(name, ", ".join(texts))
    ranks = next((trial.ranks for trial in trials if trial.ranks), ())
    if ranks:
        found |= {words: ranks[0].rights[key] for key, words in RIGHTS.items() if key in ranks[0].rights}
        found |= {f"library {name}": file for name, file in files_of(ranks).items()}
    return found


def _by_name(facts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of each fact, once each; of one that hosts have each for itself, all."""
    found: dict[str, list[str]] = {}
    for name, text in facts.items():
        fact = OF_HOST.sub("", name)
        if not any(word in fact for word in NOT_COMPARED) and text not in found.setdefault(fact, []):
            found[fact].append(text)
    return {fact: texts for fact, texts in found.items() if texts}


def _named(fact: str) -> str:
    name = fact.removeprefix(OF_POD)
    return "system call filter" if name == "seccomp" and fact != name else name


def _value(fact: str, text: str) -> str:
    if fact == f"{OF_POD}capabilities":
        return "; ".join(capabilities(mask) for mask in text.split(", ") if _is_mask(mask))
    return {"0": "no", "1": "yes"}.get(text, text) if fact == f"{OF_POD}no new privileges" else text


def _is_mask(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{1,16}", text) is not None


def _differences(here: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> tuple[Difference, ...]:
    """Return the facts of a failed environment that one which ran does not have; those that separate it come first."""
    found = []
    for fact, value in here.items():
        theirs: defaultdict[str, list[str]] = defaultdict(list)
        for name, facts in others.items():
            if fact in facts:
                theirs[facts[fact]].append(name)
        unlike = tuple(OtherValues(value=t, environments=tuple(names)) for t, names in theirs.items() if t != value)
        if unlike:
            found.append(Difference(fact=fact, value=value, others=unlike, separates=value not in theirs))
    return tuple(sorted(found, key=lambda each: (not each.separates, each.fact in OF_ENVIRONMENT))[:MOST_DIFFERENCES])


# --- counters, and what may be ------------------------------------------------------------------------------------


def _at_limit(failed: Iterable[Trial], ran: Sequence[Trial]) -> tuple[str, ...]:
    """Return what was counted of launches that reached their time limit, and how it was in launches that ran."""
    late = [trial for trial in failed if trial.reason.startswith(NOT_ENDED) and trial.elapsed_s > 0]
    if not late:
        return ()
    elapsed_s = median(trial.elapsed_s for trial in late)
    told = []
    if used := [trial.noise["job_s"] for trial in late if "job_s" in trial.noise]:
        told.append(f"its processes used {median(used):.3g} s of CPU in {elapsed_s:.3g} s")
    for name, words in AT_LIMIT.items():
        count = median(_counted(trial, name) for trial in late)
        usual = median([_counted(trial, name) / trial.elapsed_s for trial in ran if trial.elapsed_s > 0] or [0.0])
        if count > MORE * usual * elapsed_s:
            told.append(f"{count:.3g} {words}; in launches that ran {usual * elapsed_s:.3g} in the same time")
    return tuple(told)


def _counted(trial: Trial, name: str) -> float:
    return max(trial.counters.get(name, 0.0), trial.noise.get(name, 0.0))


def _perhaps(reasons: Sequence[Reason], differences: Sequence[Difference]) -> Iterator[str]:
    differing = {each.fact for each in differences}
    for pattern, facts, words in PERHAPS:
        named = [fact for fact in facts if fact in differing]
        if named and any(re.search(pattern, reason.words, re.IGNORECASE) for reason in reasons):
            yield f"{words}: {', '.join(named)} {'differs' if len(named) == 1 else 'differ'}"
