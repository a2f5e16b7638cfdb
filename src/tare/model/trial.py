"""The record of a trial: its outcome, metrics, places of ranks, traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Union

from tare.model.choices import MetricKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of a trial.

    `value` is always a cost in seconds (rates are inverted first); `statistic` states how it is computed from samples.
    `done_per_sample` converts the cost back to a rate for display (0: the metric has no rate): the amount, in the
    numerator of `rate_unit`, that one sample processes, as bytes for `B/s`. With `added_first` the added time is shown
    first, regardless of the baseline's time: a step that bare hardly has makes any ratio large. `loop_s` is the mean of
    back-to-back operations, as in IMB, if the kernel measures it. `turn_mean_s` and `turn_spread_s` are the mean of the
    iterations, and their 99th percentile less the median, in the typical turn of a launch that took turns with others
    (`tare.run.trial`), without the seconds in which the machine was taken from it; None if there are too few
    iterations. A metric that is not `judged` gets no verdict.
    `noise` is the machine's state during the metric, if it is known more precisely than for the whole trial.
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
    turn_mean_s: float | None = None
    turn_spread_s: float | None = None
    judged: bool = True
    noise: Mapping[str, float] = field(default_factory=dict)

    @property
    def typical_s(self) -> float:
        """Return the cost of the typical iteration: the median, or the value if there is no median."""
        return self.median_s if self.statistic.startswith("mean") and self.median_s > 0 else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value that a launch reported in addition to its metrics, as the datagrams lost; it gets no verdict.

    `value` is in `unit` (`%`, `s`, `1/s`); "" for a plain number.
    """

    key: str
    label: str
    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """The actual place of a rank, as reported by itself. `host` is boot_id and hostname, `rights` are its privileges.

    `node_namespaces` are those of its namespaces that are the node's, `core_sharers` are ranks on other hardware
    threads of its cores. `libraries` are the files of the MPI, the fabrics and the C library that it had loaded.
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
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a launch's program did, without MPI_Init: sums over ranks, None where the kernel does not say.

    `read_bytes` and `written_bytes` are those of read and write calls on whatever file, sockets among them;
    `received_bytes` and `sent_bytes` those of TCP connections that are open at the end. `user_s` is the least user time
    of a rank, `threads` the number of threads that ranks created, `preloads` the preloaded libraries that were found,
    besides tare's. `output` is the digest of standard output, whatever the order of its lines, without host names;
    `words` the same without numbers and paths, too.
    """

    read_bytes: float | None = None
    written_bytes: float | None = None
    received_bytes: float | None = None
    sent_bytes: float | None = None
    user_s: float | None = None
    threads: float | None = None
    preloads: str = ""
    output_bytes: int = 0
    output_lines: int = 0
    output: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceTraffic:
    """Bytes and packets of one interface during a trial; `role` is its purpose as stated by the network."""

    node: str
    interface: str
    role: str
    rx_bytes: int
    tx_bytes: int
    rx_packets: int
    tx_packets: int

    @property
    def packets(self) -> int:
        """Return the packets of both directions."""
        return self.rx_packets + self.tx_packets

    @property
    def volume_bytes(self) -> int:
        """Return the bytes of both directions."""
        return self.rx_bytes + self.tx_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The trial completed, its results are verified, and nothing refutes its treatment (`Trial.unproven`)."""

    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()


MOST_BACK_S: Final = 1.0
"""How far a kernel's CPU times may run backwards during a launch: it corrects its estimates by some ticks."""
NOT_ENDED: Final = "it did not end within its time limit"
"""How the reason begins of a trial that was ended at its time limit."""
ENDED_EARLY: Final = "it ended well, but without MPI_Init and MPI_Finalize"
"""How the reason begins of a trial whose program succeeded and did not run as an MPI program (`tare.run.outcome`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The trial failed: the reason, the exit status and the tail of stderr."""

    reason: str
    status: int | None = None
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The trial ran, but did not measure what the cell claims."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The cell cannot run here, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The tool was terminated while the block ran; its trials do not count and the block is run again."""

    reason: str = "tare was terminated while this block ran"


Outcome = Union[Completed, Failed, Invalid, Unavailable, Interrupted]  # noqa: UP007  # a node may have Python 3.9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKey:
    """The key of a trial: its cell, round and block, the attempt at that block, and the repeat within the attempt.

    Repeat 0 is the cell's first launch in an attempt; later ones are repeats because of the machine's state.
    """

    cell: str
    round: int
    block: int
    attempt: int
    repeat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One launch: the statistical unit, and the line that is stored for it.

    `facts` describe its network and its containers: MTU, offloads, the transport that the library selected, limits.
    `counters` are the growth of the kernel's counters, summed over places; `node_counters` are it by place: the name of
    a host (of its network namespaces and cgroups), or `machine NAME` (docs/report.md has all names and units).
    `unproven` states which counters could not be read, so that the treatment is not proven ("": all were read);
    `partly_proven` states that only a part of the proof was possible. `left` are the processes that the launch left
    behind, how many by name, which tare ended, `work` what its program did; None: not recorded, as in results of
    earlier releases.
    """

    key: TrialKey
    position: int
    started_unix_s: float
    elapsed_s: float
    outcome: Outcome
    argv: Sequence[str] = ()
    startup_s: Mapping[str, float] = field(default_factory=dict)
    ranks: Sequence[RankPlace] = ()
    traffic: Sequence[InterfaceTraffic] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    node_counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    samples_file: str = ""
    mpi_library: str = ""
    noise: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    unproven: str = ""
    partly_proven: str = ""
    left: Mapping[str, int] | None = None
    work: Work | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics, none of a launch that did not complete."""
        return self.outcome.metrics if isinstance(self.outcome, Completed) else ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Return what the program reported beside its metrics, nothing of a launch that did not complete."""
        return self.outcome.figures if isinstance(self.outcome, Completed) else ()

    @property
    def reason(self) -> str:
        """Return why the launch has no metrics, "" if it completed."""
        return "" if isinstance(self.outcome, Completed) else self.outcome.reason
