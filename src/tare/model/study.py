"""The subjects of a comparison: environments, placements, workloads, and the plan of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from tare.model.choices import Binding, Caches, Control, Launching, MapBy, RankOrder, Role, Share, Sides, Tracking


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The settings of an environment's own NIC and of its pods' interfaces (`tare.networks.wiring.link`).

    0, "" and `None` leave a setting unchanged.

    `queue` is the number of packets that wait where the rate is limited; further ones are dropped.
    `offloads` are features as `ethtool` names them, with their values (`tso=off`). `rps` distributes received packets
    over all cores of the node (`all`) or none (`off`). `br_netfilter` sends the frames of a bridge through the packet
    filter.
    """

    mtu: int = 0
    offloads: tuple[str, ...] = ()
    rps: str = ""
    delay_s: float = 0.0
    rate_bps: int = 0
    queue: int = 0
    br_netfilter: bool | None = None
    conntrack: Tracking = Tracking.AS_IT_IS

    def __bool__(self) -> bool:
        """Tell whether anything is set."""
        return self != Link()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Ranks -> containers -> nodes, the binding to cores, and the limits of a container.

    `memory_per_container` is in bytes, 0 for no limit. `cpus_per_container` is the number of CPUs of a container: cores
    if it is whole and no less than its ranks need, otherwise a limit on its CPU time; 0: the cores of its ranks.
    `cpu_weight` is the weight of a node's whole job against other programs of the machine (1 to 10,000, 100 is the
    kernel's default); 0: as it is.
    """

    nodes: int = 2
    ranks_per_node: int = 1
    containers_per_node: int = 1
    share: Share = Share.POD
    binding: Binding = Binding.DISJOINT
    threads_per_rank: int = 1
    oversubscribe: bool = False
    map_by: MapBy = MapBy.CORE
    rank_order: RankOrder = RankOrder.BLOCK
    memory_per_container: int = 0
    cpus_per_container: float = 0.0
    cpu_weight: int = 0

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
class PlacementChange:
    """What an environment's placements have instead of the study's; `None` leaves a setting as the study says."""

    containers_per_node: int | None = None
    share: Share | None = None
    binding: Binding | None = None
    map_by: MapBy | None = None
    rank_order: RankOrder | None = None
    memory_per_container: int | None = None
    cpus_per_container: float | None = None
    cpu_weight: int | None = None

    def __bool__(self) -> bool:
        """Tell whether anything is changed."""
        return self != PlacementChange()

    def of(self, placement: Placement) -> Placement:
        """Return a placement of the study with these changes."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(placement, **{name: value for name, value in stated.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a trial runs in: runtime + network + image + transport + MPI, the way of launching, and the sides.

    `image` is the name of a recipe, the absolute path of a user's image, or "" for the files of the host. `binds` are
    further paths of the host in the container, as `SOURCE:TARGET[:ro]`, `env` its variables, as `NAME=value`, and
    `workdir` is the ranks' working folder in it (`tare.system.binds`). `ssh_port` 0 is the default port
    (`tare.daemons.ssh`). `devices` are made available in containers: paths below /dev, `infiniband`, or words for GPUs
    (`tare.system.devices`).
    `transport` is a name of `tare.networks.wiring.transports`, with a detail if it has one; `link` has the settings of
    the NIC. `daemon` is the runtime whose daemon runs on the node although the environment does not use it; "" leaves
    that to the runtime. `pmi` is how srun's ranks find each other, as `srun --mpi` names it; "" is what their MPI
    prefers. `placement` has what differs from the study's placements in this environment. `runtime_class` is the
    Kubernetes RuntimeClass of the pods, which chooses their container runtime or their network; "" is the usual one.
    `shm_size` is the size of /dev/shm in containers, in bytes; 0 is that of their node.
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
    pmi: str = ""
    placement: PlacementChange = PlacementChange()
    runtime_class: str = ""
    shm_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """One micro-benchmark of a launch. `None` leaves a value to the kernel's default.

    `message_bytes` is bytes per rank per operation; `rate_hz` (spacing) is messages per second.
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
class NodeCommand:
    """A command that runs on a node itself, in place of ranks, and the answer that is expected.

    `run` is its argv. The answer is as expected if the command ends with the status `exit`, a line of its output
    matches the pattern `line` ("": not looked for) and no line matches `no_line`. A command that answers otherwise is
    run again for `within_s`.
    """

    run: tuple[str, ...]
    exit: int = 0
    line: str = ""
    no_line: str = ""
    within_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one launch runs: kernels, a mini-application, a known program, a user's command, or only a start-up.

    `miniapp` is the argument of `tare-miniapps`, `NAME:key=value,...`. `program` is a third-party program with a
    plug-in (`osu_latency`), `arguments` its arguments, `path` its file if it is not the one on PATH. `commands` run on
    the first node in place of ranks, in order, and `undo` always after them. `mpi` replaces the MPI of every
    environment; "" keeps it. `input` is the file that each launch reads as its standard input; "": it is empty.
    """

    name: str
    kernels: tuple[KernelSpec, ...] = ()
    command: tuple[str, ...] = ()
    miniapp: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()
    path: str = ""
    startup: Caches | None = None
    commands: tuple[NodeCommand, ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    mpi: str = ""
    time_limit_s: float = 60.0
    input: str = ""

    @property
    def executable(self) -> str:
        """Return the file of a third-party program; "" if there is none, or if it is searched on PATH."""
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

    `turns` is the number of turns in which the launches of a block measure kernels; 1: one launch after the other
    (ADR 17). With `reruns` 0 no launch is repeated because of the machine's state; other numbers allow it (ADR 16).
    """

    rounds: int = 10
    blocks_per_round: int = 1
    max_rounds: int = 10
    budget_s: float | None = None
    budget_node_hours: float | None = None
    confidence: float = 0.95
    target_half_width: float = 0.01
    reruns: int = 1
    turns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSpec:
    """What a study asks of Slurm when it is submitted; "" and 0 leave that to the site.

    `time_s` is the time limit of an allocation, `options` are further options of sbatch. With `srun` the ranks are
    started by srun instead of the MPI's launcher, wherever an environment does not say how.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    time_s: float = 0.0
    options: tuple[str, ...] = ()
    srun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSpec:
    """How a study uses a Kubernetes; "" leaves the file, the context and the namespace to the user's settings and tare.

    `selector` chooses nodes by labels. Images are `REGISTRY/tare/NAME:DIGEST`, without a `registry` those that the
    nodes have as `tare/NAME:DIGEST`; `node_image` is that of the service beside the ranks. `pod` are further fields of
    pods' `spec` as JSON, `resources` those of the ranks' container and `annotations` the pods', as `NAME=value`. With
    `exclusive` a pod asks for whole cores, and gets no more; with `network_policy` pods reach only each other, where
    the cluster enforces it. `in_lab`: on a Kubernetes that tare starts in a lab.
    """

    in_lab: bool = False
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    selector: str = ""
    registry: str = ""
    node_image: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    exclusive: bool = False
    network_policy: bool = False
    resources: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    pod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """The nodes of a study: those that a lab makes, or `hosts` that are there.

    In a lab `link_rate_bps` 0 sets no rate, and a router connects several `subnets`. Of hosts, `ssh_config` is the file
    that ssh reads ("": the user's own), `data_subnet` the subnet for messages ("": the one in which they are reached).
    `nics` are the data NICs that tare may take as root, `pod_addresses` the part of the control subnet that it may give
    to pods, and `daemon_hosts` further hosts on which it may start Docker.
    """

    nodes: int = 2
    cores_per_node: int | None = None
    link_rate_bps: int = 0
    segmented: bool = False
    oversubscribe: bool = False
    subnets: int = 1
    hosts: tuple[str, ...] = ()
    ssh_config: str = ""
    data_subnet: str = ""
    nics: tuple[str, ...] = ()
    pod_addresses: str = ""
    daemon_hosts: tuple[str, ...] = ()
    slurm: SlurmSpec = SlurmSpec()
    kubernetes: KubernetesSpec = KubernetesSpec()

    def subnet_of(self, node: int) -> int:
        """Return the subnet of a node: nodes are divided over the subnets in order, in equal parts."""
        return node * self.subnets // self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published result about one of the environments, to be compared with the measured one.

    `metric` is a pattern of the labels to which it applies, as `TCP*` (empty: all of the workload). `of_baseline` is
    the published value as a fraction of the published baseline's, as the metric is read: below 1 a lower rate or a
    shorter time; None if there is only text. `told` is the statement as text, `source` the publication. `conditions`
    are those that determine the published values, as the rate of the link or the MTU.
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
    """A comparison as stated in its file: validated, not expanded.

    A `thin` study only shows that its file runs (`tare.study.plan.thin`); its figures decide nothing. `folder` is that
    of its file, in which its commands work ("": the current one). They may write to `writable` and then work there ("":
    none).
    """

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
    thin: bool = False
    folder: str = ""
    writable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study expanded to cells; `unavailable` holds the reasons of those that cannot run, by their keys."""

    study: Study
    cells: tuple[Cell, ...]
    unavailable: Mapping[str, str]
    digest: str
    estimated_s: float = 0.0
