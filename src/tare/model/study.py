"""What is compared: environments, placements, workloads, and the plan of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


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
    """What a start-up finds in memory: what a launch before it read, or nothing that can be dropped.

    See `tare.host.page_cache`.
    """

    WARM = "warm"
    COLD = "cold"


class Tracking(StrEnum):
    """Whether a pod's connections are tracked by its packet filter: as it is, tracked, or tracked but for its own."""

    AS_IT_IS = ""
    TRACK = "track"
    NOTRACK = "notrack"


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
class Link:
    """How an environment's own NIC, and its pods' interfaces, are set (`tare.wiring.link`).

    What is 0, "" or `None` stays.

    `offloads` are features as `ethtool` names them, with what they are to be (`tso=off`). `rps` spreads what arrives
    over the cores of its node (`all`) or over none (`off`). `br_netfilter` lets frames that a bridge passes go through
    the packet filter.
    """

    mtu: int = 0
    offloads: tuple[str, ...] = ()
    rps: str = ""
    delay_s: float = 0.0
    rate_bps: int = 0
    br_netfilter: bool | None = None
    conntrack: Tracking = Tracking.AS_IT_IS

    def __bool__(self) -> bool:
        """Tell whether anything is set."""
        return self != Link()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a trial runs in: runtime + network + image + transport + MPI, how it is launched, and on which sides.

    `image` names a recipe, is the absolute path of a user's own image, or "" for the files of the host. `binds` are
    what a container is shown of the host as well, as `SOURCE:TARGET[:ro]`, `env` its variables, as `NAME=value`, and
    `workdir` is the folder inside in which ranks work (`tare.host.binds`). `ssh_port` 0 is the usual one
    (`tare.services.ssh`).
    `devices` are those that containers are given: paths below /dev, or `infiniband` (`tare.host.devices`).
    `transport` is a name of `tare.wiring.transports`, with a detail where it has one, `link` how its own NIC is set.
    `daemon` names the runtime whose daemon the node has although nothing here uses it; "" leaves that to the runtime.
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
    link: Link = Link()
    daemon: str = ""


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
    """What one launch runs: kernels, a mini-application, a known program, a user's command, or a start-up alone.

    `miniapp` is what `tare-miniapps` takes, `NAME:key=value,...`. `program` is the name of a program of others that a
    plug-in knows (`osu_latency`), `arguments` what it is given, `path` its file if it is not the one on PATH. `mpi` is
    the MPI that it is for, in place of each environment's own; "": it runs with that.
    """

    name: str
    kernels: tuple[KernelSpec, ...] = ()
    command: tuple[str, ...] = ()
    miniapp: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()
    path: str = ""
    startup: Caches | None = None
    mpi: str = ""
    time_limit_s: float = 60.0

    @property
    def executable(self) -> str:
        """Return the file of a program that is not ours, "" where there is none or only PATH says which."""
        return self.command[0] if self.command else self.path


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

    Kernels are measured in so many `turns` of the launches of a block, 1: each launch whole, on its own (ADR 17).
    With `reruns` 0 no launch is repeated because of the machine's state; any other number allows it (ADR 16).
    """

    rounds: int = 10
    blocks_per_round: int = 1
    max_rounds: int = 10
    budget_s: float | None = None
    confidence: float = 0.95
    target_half_width: float = 0.01
    reruns: int = 1
    turns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """The cluster inside this machine. `link_rate_bps` 0 leaves the rate alone; a router joins several `subnets`."""

    nodes: int = 2
    cores_per_node: int | None = None
    link_rate_bps: int = 0
    segmented: bool = False
    oversubscribe: bool = False
    subnets: int = 1

    def subnet_of(self, node: int) -> int:
        """Return the subnet of a node: the first half of them is in the first, the rest in the second."""
        return node * self.subnets // self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a published study says of one of the environments, to be shown beside what is measured here.

    `metric` is a pattern of the labels that it is about, as `TCP*` (empty: all of the workload). `of_baseline` is the
    published figure as a fraction of the published baseline's, as the metric is read: below 1 a lower rate or a shorter
    time; None where only words are published. `told` is what it says in its own words, `source` where. `conditions` are
    those of the publication that decide its figures, as the rate of its link or the MTU.
    """

    environment: str
    workload: str
    metric: str = ""
    of_baseline: float | None = None
    told: str = ""
    source: str = ""
    conditions: str = ""


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
    published: tuple[Published, ...] = ()


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
