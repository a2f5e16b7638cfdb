"""Collect what is known of a cost: what its cell and the baseline did, and how their launches differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from tare.analysis.explain.kinds import AddedTime, TimeKind, added, spent_by
from tare.model import Cell, Comparison, Environment, MetricInfo, MetricKind, RankPlace, Trial
from tare.runtimes import RUNTIMES
from tare.system.node import SILENT_ROLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """What the launches of one cell did: means per launch of counters, CPU times and traffic; facts of the last one.

    `counters` are summed over all places; those of a whole machine are included once for each machine. `packets` and
    `volume_bytes` are of the data interfaces, received and sent. `shares` are fractions of the launch: `background`
    (cores used by others), `throttled`, `softirq`, `steal` (each per core). `spent` is a launch's time by kind, in s;
    `threads` those of a rank, 0 if they were not recorded.
    """

    cell: Cell
    launches: int = 0
    elapsed_s: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)
    packets: float = 0.0
    volume_bytes: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    ranks: Sequence[RankPlace] = ()
    spent: Mapping[TimeKind, float] = field(default_factory=dict)
    threads: float = 0.0

    @property
    def environment(self) -> Environment:
        """Return the environment of the cell."""
        return self.cell.environment

    @property
    def packet_bytes(self) -> float:
        """Return the mean size of a packet, 0 if there were none."""
        return self.volume_bytes / self.packets if self.packets else 0.0

    @property
    def rights(self) -> Mapping[str, str]:
        """Return the privileges of the first rank."""
        return self.ranks[0].rights if self.ranks else {}

    def right(self, name: str) -> str:
        """Return a right that all ranks have alike; "" if they differ, or if it was not recorded."""
        found = {rank.rights.get(name, "") for rank in self.ranks}
        return found.pop() if len(found) == 1 else ""

    @property
    def differing(self) -> tuple[str, ...]:
        """Return what its hosts differ in, such as `path: veth on d0, veth, bridge on d1`: no clue may rest on it."""
        return tuple(
            f"{fact}: {', '.join(f'{text} on {host}' for host, text in values.items())}"
            for fact, values in _of_hosts(self.facts).items()
            if len(set(values.values())) > 1
        )

    def of_hosts(self, fact: str) -> Mapping[str, str]:
        """Return a fact in which its hosts differ, by host."""
        return _of_hosts(self.facts).get(fact, {})

    def sum(self, *names: str) -> float:
        """Return the sum of counters; one that did not grow is 0."""
        return sum(self.counters.get(name, 0.0) for name in names)

    def words(self, fact: str) -> tuple[str, ...]:
        """Return a fact that is a list, as its words: `tso on, gso off` has two."""
        return tuple(word.strip() for word in self.facts.get(fact, "").split(",") if word.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One cost: the comparison, its column, the launches of its cell (`here`) and of the baseline (`base`).

    `others` are the costs of the same cell in its other columns, with their columns.
    """

    comparison: Comparison
    info: MetricInfo
    here: Launches
    base: Launches
    others: Sequence[tuple[MetricInfo, Comparison]] = ()

    @property
    def cost(self) -> float:
        """Return the cost as a fraction of the baseline's, 0 if there is no estimate."""
        return self.comparison.overhead.value if self.comparison.overhead else 0.0

    @property
    def added(self) -> AddedTime:
        """Return the added time by kind; not known where a metric is only a part of a launch."""
        workload = self.here.cell.workload
        cost = self.comparison.added_s
        if workload.kernels or workload.startup is not None or cost is None:
            return AddedTime(seconds={})
        return added(self.here.spent, self.base.spent, cost.value)

    @property
    def is_large(self) -> bool:
        """Return whether the metric is about messages of many packets, or about a rate."""
        size = self.info.message_bytes
        return self.info.kind is MetricKind.RATE or (size is not None and size >= 32 << 10)

    @property
    def is_small(self) -> bool:
        """Return whether the metric is about messages of one packet."""
        size = self.info.message_bytes
        return self.info.kind is MetricKind.COST and size is not None and size <= 1024

    def more(self, *names: str) -> float:
        """Return by how much the sum of counters is larger here than in the baseline, per launch."""
        return self.here.sum(*names) - self.base.sum(*names)

    def differs(self, fact: str) -> bool:
        """Return whether both sides have a fact and it differs."""
        one, other = self.here.facts.get(fact), self.base.facts.get(fact)
        return one is not None and other is not None and one != other

    def more_share(self, name: str) -> float:
        """Return by how much a share of the launch is larger here than in the baseline."""
        return self.here.shares.get(name, 0.0) - self.base.shares.get(name, 0.0)


def launches_of(cell: Cell, trials: Iterable[Trial]) -> Launches:
    """Return what the launches of one cell did."""
    ran = [trial for trial in trials if trial.ranks or trial.traffic or trial.counters]
    if not ran:
        return Launches(cell=cell)
    names = {name for trial in ran for name in trial.counters}
    carried = [_carried(trial) for trial in ran]
    return Launches(
        cell=cell,
        launches=len(ran),
        elapsed_s=median(trial.elapsed_s for trial in ran),
        counters={name: fmean(trial.counters.get(name, 0.0) for trial in ran) for name in names},
        packets=fmean(packets for packets, _ in carried),
        volume_bytes=fmean(volume for _, volume in carried),
        shares=_shares(ran),
        facts=_usual_facts(ran),
        ranks=ran[-1].ranks,
        spent=spent_by(ran),
        threads=_threads(ran),
    )


def has_daemon(environment: Environment) -> bool:
    """Return whether a container daemon runs on the nodes of an environment; its rules filter what passes them."""
    return bool(environment.daemon) or RUNTIMES[environment.runtime].needs_daemon


def _carried(trial: Trial) -> tuple[float, float]:
    """Return the packets and bytes of a launch on the first data interface of each node, both directions."""
    first: dict[str, tuple[float, float]] = {}
    for each in trial.traffic:
        if each.role != SILENT_ROLE:
            first.setdefault(each.node, (each.packets, each.volume_bytes))
    return sum(packets for packets, _ in first.values()), sum(volume for _, volume in first.values())


def _threads(trials: Sequence[Trial]) -> float:
    """Return how many threads a rank has: its first, and those that it creates."""
    created = [each.work.threads / len(each.ranks) for each in trials if each.work and each.work.threads and each.ranks]
    return 1.0 + median(created) if created else 0.0


def _shares(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the medians of shares of launches; CPU times are per core of the machine."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        cores, elapsed_s = trial.noise.get("cores", 0.0), trial.elapsed_s
        if elapsed_s <= 0:
            continue
        for name, key in (("background", "background_s"), ("softirq", "softirq_s"), ("steal", "steal_s")):
            if key in trial.noise and cores:
                found.setdefault(name, []).append(trial.noise[key] / elapsed_s / cores)
        if "throttled_s" in trial.noise:
            found.setdefault("throttled", []).append(trial.noise["throttled_s"] / elapsed_s)
    return {name: median(values) for name, values in found.items()}


def _usual_facts(trials: Sequence[Trial]) -> dict[str, str]:
    """Return the value that each fact has most often; of one that is read on each host, that of all if they agree."""
    names = dict.fromkeys(name for trial in trials for name in trial.facts)
    usual = {
        name: Counter(trial.facts[name] for trial in trials if name in trial.facts).most_common(1)[0][0]
        for name in names
    }
    for fact, values in _of_hosts(usual).items():
        if len(set(values.values())) == 1:
            usual.setdefault(fact, next(iter(values.values())))
        else:
            usual.pop(fact, None)
    return usual


def _of_hosts(facts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the facts that are read on each host (`path of d0`), by name and host."""
    found: dict[str, dict[str, str]] = {}
    for name, text in sorted(facts.items()):
        fact, of, host = name.partition(" of ")
        if of and " " not in host:
            found.setdefault(fact, {})[host] = text
    return found
