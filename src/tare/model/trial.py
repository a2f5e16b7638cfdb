"""What a trial leaves: its outcome, metrics, places of ranks, traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tare.model.study import MetricKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a trial.

    `value` is always a cost in seconds (a rate is inverted first); `statistic` says how it was made of the samples.
    `done_per_sample` turns the cost back into a rate for display (0: the metric has no rate): how much of what
    `rate_unit` counts one sample does, as bytes for `B/s`. With `added_first` the added time is what is read, however
    long the baseline takes: a step that bare hardly has makes any ratio large. `loop_s` is the mean of back-to-back
    operations, as IMB has it, where the kernel measures that too. One that is not `judged` is shown without a verdict.
    `noise` is the machine's state while it was measured, where that is known more closely than of the whole trial.
    """

    key: str
    label: str
    kind: MetricKind
    value: float
    statistic: str = "mean of max over ranks"
    median_s: float = 0.0
    p99_s: float = 0.0
    rank_average_s: float = 0.0
    samples: int = 1
    late: int = 0
    done_per_sample: float = 0.0
    rate_unit: str = "B/s"
    message_bytes: int | None = None
    added_first: bool = False
    loop_s: float | None = None
    judged: bool = True
    noise: Mapping[str, float] = field(default_factory=dict)

    @property
    def typical_s(self) -> float:
        """Return the cost of the typical iteration: the median, or the value where there is no other."""
        of_mean = self.statistic.startswith("mean") and self.samples > 1
        return self.median_s if of_mean and self.median_s > 0 else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Something that a launch told beside its metrics, as the datagrams lost; shown, never judged.

    `value` is in `unit` as it stands (`%`, `s`, `1/s`); "" for a plain number.
    """

    key: str
    label: str
    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Where a rank really was, as it saw it itself. `host` is boot_id and hostname, `rights` what it may do.

    `node_namespaces` names those of its namespaces that are its node's own, `core_sharers` are ranks on other hardware
    threads of its cores.
    """

    rank: int
    host: str
    hostname: str
    pid: int
    cpus: tuple[int, ...]
    namespaces: Mapping[str, int] = field(default_factory=dict)
    rights: Mapping[str, str] = field(default_factory=dict)
    node_namespaces: tuple[str, ...] = ()
    shm_device: int | None = None
    shared_memory_ranks: tuple[int, ...] = ()
    core_sharers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceTraffic:
    """Bytes and packets that one interface carried during a trial; `role` is what the network says it is for."""

    node: str
    interface: str
    role: str
    rx_bytes: int
    tx_bytes: int
    rx_packets: int
    tx_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The trial ended well, its results are right and its treatment is proven."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The trial ended badly: what was run, how it ended, the end of what it said."""

    reason: str
    status: int | None = None
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The trial ran, but what it measured is not what the cell claims."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The cell cannot run here, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The tool was ended while the block ran; its trials do not count and the block is run again."""

    reason: str = "the tool was ended while this block ran"


Outcome = Completed | Failed | Invalid | Unavailable | Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKey:
    """Which trial: the cell, the round and block it belongs to, the attempt at that block, and its repeat there.

    Repeat 0 is the cell's first launch in an attempt; later ones were made because of the machine's state.
    """

    cell: str
    round: int
    block: int
    attempt: int
    repeat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One launch: the statistical unit, and the line that is stored for it.

    `facts` are what is known of the network that it had: MTU, how its link was really set, what the library took.
    """

    key: TrialKey
    position: int
    started_unix_s: float
    elapsed_s: float
    outcome: Outcome
    argv: tuple[str, ...] = ()
    startup_s: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[RankPlace, ...] = ()
    traffic: tuple[InterfaceTraffic, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    samples_file: str = ""
    mpi_library: str = ""
    noise: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
