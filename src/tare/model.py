"""The data that the tool passes around: frozen, keyword-only, without I/O.

Units are in the names (`_s` seconds, `_bytes` bytes); everything inside is in seconds and bytes and is made
readable only in `tare.report`. An outcome is `Completed | Failed | Invalid | Unavailable | Interrupted`, never a zero
and never `None`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# --- what is compared -------------------------------------------------------------------------------------------


class Sides(StrEnum):
    """Which side of a two-node job is put into the environment; the other side runs bare."""

    BOTH = "both"
    SENDER = "sender"
    RECEIVER = "receiver"


class Share(StrEnum):
    """Whether the containers of a node share one pod or have a pod (and an address) each."""

    POD = "pod"
    NONE = "none"


class Binding(StrEnum):
    """How ranks are bound: by us to disjoint cores, or as the MPI does by default."""

    DISJOINT = "disjoint"
    MPI_DEFAULT = "mpi-default"


class MapBy(StrEnum):
    """How the ranks of a node are dealt to its cores.

    `core`: neighbours to neighbouring cores. `socket`, `numa`: to the sockets or NUMA nodes in turn. `hwthread`: to
    hardware threads one after the other, so that neighbours share a core where it has several.
    """

    CORE = "core"
    SOCKET = "socket"
    NUMA = "numa"
    HWTHREAD = "hwthread"


class Launching(StrEnum):
    """How the MPI's daemons come to the hosts of a job, and its ranks into their containers.

    `exec`: the launcher is outside and starts each daemon in its pod by the runtime's exec; where a pod has several
    containers it is `daemon`. `ssh`: an sshd in each pod, and the launcher in the first. `daemon`: one daemon a host,
    beside the containers, whose ranks enter them. `hybrid`: as `daemon`, and each rank starts a container of its own.
    `host-mpi`: as `exec`, with the host's MPI in place of the image's.
    """

    EXEC = "exec"
    SSH = "ssh"
    DAEMON = "daemon"
    HYBRID = "hybrid"
    HOST_MPI = "host-mpi"


class Control(StrEnum):
    """Which network daemons are started and talk over: one of its own, or the one that is measured."""

    OWN = "own"
    DATA = "data"


class Caches(StrEnum):
    """What a start-up finds in memory: what a launch before it read, or nothing that can be dropped (`tare.caches`)."""

    WARM = "warm"
    COLD = "cold"


class MetricKind(StrEnum):
    """The type of a metric; it selects the mean (arithmetic for costs, harmonic for rates)."""

    COST = "cost"
    RATE = "rate"


class Role(StrEnum):
    """What a cell is in its comparison."""

    BASELINE = "baseline"
    SELF = "a/a"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a trial runs in: runtime + network + image + transport + MPI, how it is launched, and on which sides.

    `image` names a recipe, is the absolute path of a user's own image, or "" for the files of the host. `binds` are
    what a container is shown of the host as well, as `SOURCE:TARGET[:ro]`, `env` its variables, as `NAME=value`, and
    `workdir` is the folder inside in which ranks work (`tare.binds`). `ssh_port` 0 is the usual one (`tare.ssh`).
    `devices` are those that containers are given: paths below /dev, or `infiniband` (`tare.devices`).
    """

    name: str
    runtime: str
    network: str
    image: str = ""
    transport: str = "tcp"
    mpi: str = "openmpi"
    sides: Sides = Sides.BOTH
    launch: Launching = Launching.EXEC
    control: Control = Control.OWN
    ssh_port: int = 0
    devices: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    workdir: str = ""
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Ranks -> containers -> nodes, the binding to cores, and what a container may use.

    `memory_per_container` is in bytes, 0 for no limit. `cpus_per_container` is how many CPUs a container has: cores, as
    long as they are whole and no fewer than its ranks need, else a limit on its CPU time; 0: the cores of its ranks.
    """

    nodes: int = 2
    ranks_per_node: int = 1
    containers_per_node: int = 1
    share: Share = Share.POD
    binding: Binding = Binding.DISJOINT
    threads_per_rank: int = 1
    oversubscribe: bool = False
    map_by: MapBy = MapBy.CORE
    memory_per_container: int = 0
    cpus_per_container: float = 0.0

    @property
    def ranks(self) -> int:
        """Return the number of ranks over all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def label(self) -> str:
        """Return a short unique name, as `2n x 1r`."""
        containers = f" in {self.containers_per_node}c" if self.containers_per_node != 1 else ""
        return f"{self.nodes}n x {self.ranks_per_node}r{containers}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """One micro-benchmark of a launch. `None` leaves a value to the kernel's default.

    `message_bytes` is bytes per rank per operation; `rate_hz` (spacing) is messages a second.
    """

    kernel: str
    message_bytes: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    window: int | None = None
    rate_hz: float | None = None
    sync: str | None = None

    @property
    def token(self) -> str:
        """Return the argument that the kernel program takes, `name:key=value,...`."""
        values = {
            "bytes": self.message_bytes,
            "iterations": self.iterations,
            "warmup": self.warmup,
            "window": self.window,
            "rate": self.rate_hz,
            "sync": self.sync,
        }
        given = ",".join(
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items() if v is not None
        )
        return f"{self.kernel}:{given}" if given else self.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one launch runs: a list of kernels, a command of the user's, or a start-up and nothing after it."""

    name: str
    kernels: tuple[KernelSpec, ...] = ()
    command: tuple[str, ...] = ()
    startup: Caches | None = None
    time_limit_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration: workload x environment x placement. Its trials are repetitions.

    `key` is unique in the study and stable between runs; `group` names the set of cells that are compared with
    each other (same workload, same placement).
    """

    key: str
    group: str
    role: Role
    workload: Workload
    environment: Environment
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """How often a study repeats, and when it stops (METHOD.md section 1, rules 1 and 4).

    `reruns` is how often a block that others disturbed is run again.
    """

    rounds: int = 10
    blocks_per_round: int = 1
    max_rounds: int = 10
    budget_s: float | None = None
    confidence: float = 0.95
    target_half_width: float = 0.01
    reruns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """The cluster inside this machine. `link_rate_bps` 0 leaves the rate alone."""

    nodes: int = 2
    cores_per_node: int | None = None
    link_rate_bps: int = 0
    segmented: bool = False
    oversubscribe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A comparison, as its file states it; validated, nothing expanded."""

    name: str
    cluster: str
    lab: LabSpec
    baseline: str
    environments: tuple[Environment, ...]
    placements: tuple[Placement, ...]
    workloads: tuple[Workload, ...]
    repetition: Repetition = Repetition()
    margin: float = 0.02
    limit: float | None = None
    self_comparison: bool = True
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study expanded to cells, with those that cannot run and why; the order of every block is in it.

    `blocks[i]` lists the cell keys of block i in the order in which they are run; `rounds[i]` is its round.
    """

    study: Study
    cells: tuple[Cell, ...]
    unavailable: Mapping[str, str]
    digest: str
    estimated_s: float = 0.0


# --- what a trial leaves ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a trial.

    `value` is always a cost in seconds (a rate is inverted first); `statistic` says how it was made of the samples.
    `bytes_per_sample` turns the cost back into a rate for display (0: the metric has no rate); with `added_first` the
    added time is what is read, however long the baseline takes: a step that bare hardly has makes any ratio large.
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
    bytes_per_sample: int = 0
    message_bytes: int | None = None
    added_first: bool = False


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
    """Which trial: the cell, the round and block it belongs to, and the attempt at that block."""

    cell: str
    round: int
    block: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One launch: the statistical unit, and the line that is stored for it."""

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


# --- what a report says -----------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """The judgement on one comparison."""

    BASELINE = "baseline"
    NO_COST = "no cost"
    COSTS = "costs"
    GAINS = "gains"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    NOISE_FLOOR = "noise floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its interval and the number of rounds behind it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One environment against the baseline on one metric.

    `overhead` is a fraction of the baseline's cost (0.59 = 59 % more); `added_s` the added time in seconds;
    `median_ratio` the ratio of medians (1 = equal) with its BCa interval; `simultaneous` is `overhead` with its
    Holm-adjusted interval. Absent estimates (`None` here is "not computable", with `reason` saying why) belong to
    `INVALID` and `UNAVAILABLE`. `values_s` holds the cost of every trial in order of `rounds`.
    """

    metric: str
    environment: str
    group: str
    verdict: Verdict
    reason: str = ""
    overhead: Estimate | None = None
    simultaneous: Estimate | None = None
    added_s: Estimate | None = None
    median_ratio: Estimate | None = None
    absolute_s: Estimate | None = None
    p_value: float | None = None
    p_holm: float | None = None
    more_rounds: int | None = None
    rounds: tuple[int, ...] = ()
    values_s: tuple[float, ...] = ()
    median_s: float | None = None
    p99_s: float | None = None
    dip_p_value: float | None = None
    reruns: int = 0
    over_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A mechanism that the launches of a cell show, in `launches` of `of`: what it is, how it was seen, its remedy."""

    group: str
    environment: str
    kind: str
    text: str
    launches: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What an environment kept from its ranks and what it gave them, in words; `shared` are namespaces of the node.

    `devices` are those beyond the usual that can be opened, `mounts` where files can be written, `limits` what
    the kernel holds a container to.
    """

    environment: str
    daemon: str
    capabilities: str
    seccomp: str
    no_new_privileges: str
    users: str
    speculation: str
    shared: tuple[str, ...]
    devices: str = "not known"
    mounts: str = "not known"
    setuid: str = "not known"
    limits: str = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """What a column of the report is."""

    key: str
    label: str
    kind: MetricKind
    statistic: str
    group: str
    message_bytes: int | None = None
    bytes_per_sample: int = 0
    added_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that a report shows, computed anew from the store.

    `comparisons` holds one entry per (environment, metric), the baseline's and the A/A's among them, in the
    order in which a table lists them. `headline` is the one sentence of the first screen. `cells` are the plan's:
    a report needs them to tell which environment a trial belongs to, and to list also what never ran.
    """

    name: str
    cluster: str
    emulated: bool
    baseline: str
    self_name: str
    margin: float
    limit: float | None
    confidence: float
    rounds_done: int
    metrics: tuple[MetricInfo, ...]
    environments: tuple[Environment, ...]
    comparisons: tuple[Comparison, ...]
    headline: str
    machine: str
    manifest: Mapping[str, Any]
    counts: Mapping[str, int]
    exit_code: int = 0
    cells: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = ()
    isolation: tuple[Isolation, ...] = ()
