"""Define the types and ranges of a study's keys. `Known` comes in as the context of validation."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from tare import model
from tare.networks.wiring.conflist import is_conflist
from tare.networks.wiring.link import FEATURES
from tare.networks.wiring.transports import read as read_transport
from tare.study.cluster_keys import ClusterIn
from tare.study.command_keys import Command, CommandIn
from tare.study.messages import unknown
from tare.study.names import KNOWN, Known
from tare.study.value_types import (
    BUDGET,
    PERCENT,
    BitRate,
    Checked,
    Count,
    Duration,
    Frequency,
    Memory,
    Percentage,
    Size,
    Word,
    choice,
    one_of,
)
from tare.system.binds import bind_of, check_variable, check_workdir
from tare.system.devices import check_word

SEGMENTING: Final = ("tso", "gso", "gro")


def _network(value: object, info: ValidationInfo) -> object:
    """Check the name of a network; a user's CNI configuration is read once all keys are valid by themselves."""
    known: Known = info.context or KNOWN
    if value is not None and value not in known.networks and not (isinstance(value, str) and is_conflist(value)):
        raise ValueError(known.unknown("network", value, known.networks))
    return value


def _device(value: object) -> object:
    return check_word(value) if isinstance(value, str) else value


def _transport(value: object, info: ValidationInfo) -> object:
    """Check a transport: one of the names in `Known`, followed by a colon and a detail if it takes one."""
    names = (info.context or KNOWN).transports
    if not isinstance(value, str) or value.partition(":")[0] not in names:
        raise ValueError(unknown("transport", value, names))
    return str(read_transport(value))


def _offloads(value: object) -> object:
    """Return offloads as `tso=off`; `off` alone means all that segment or join packets."""
    if isinstance(value, bool) or value in ("on", "off"):
        return sorted(f"{word}={_on_off(value)}" for word in SEGMENTING)
    if not isinstance(value, dict):
        raise ValueError(f"offloads are off, on, or a mapping such as {{tso: off, gro: on}}, not {value!r}")
    for word in value:
        if word not in FEATURES:
            raise ValueError(unknown("offload", word, FEATURES))
    return sorted(f"{word}={_on_off(wanted)}" for word, wanted in value.items())


def _on_off(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value in ("on", "off"):
        return str(value)
    raise ValueError(f"an offload is on or off, not {value!r}")


def _bind(value: object) -> object:
    """Check one of `binds`; whether its source exists is checked when the study is planned."""
    if isinstance(value, str):
        bind_of(value)
    return value


def _value(value: object) -> object:
    """Return the text of a variable's value; a number with a fraction would lose its digits as written."""
    if isinstance(value, bool | float):
        raise ValueError("write the value of this variable in quotes")
    return str(value) if isinstance(value, int) else value


def _devices(value: object) -> object:
    """Return a list of devices; one word is a list of one."""
    if value in (None, "none"):
        return []
    return [_device(value)] if isinstance(value, str) else value


class LinkIn(Checked):
    """Settings of an environment's own NIC and its pods' interfaces; those left out stay unchanged."""

    mtu: Annotated[int, Field(ge=576, le=65535)] | None = Field(
        default=None, description="MTU of the NIC and the pods, in bytes"
    )
    offloads: Annotated[
        list[str],
        BeforeValidator(_offloads),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": ["on", "off", True, False]},
                    {"type": "object", "properties": {word: {"enum": ["on", "off", True, False]} for word in FEATURES},
                     "additionalProperties": False},
                ]
            }
        ),
    ] = Field(default=[], description="on or off: tso, gso and gro; or a mapping of single ones")  # fmt: skip
    rps: choice("all", "off") | None = Field(  # type: ignore[valid-type]
        default=None, description="receive packet steering: over all cores of the node, or off"
    )
    delay_s: Duration | None = Field(
        default=None, alias="delay", description="delay added to the packets that each NIC sends"
    )
    rate_bps: BitRate | None = Field(
        default=None, alias="rate", description="rate limit of the packets that each NIC sends"
    )
    queue: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="packets that wait where `rate` limits; further ones are dropped"
    )
    br_netfilter: bool | None = Field(
        default=None, description="whether frames on the environment's bridge pass the node's packet filter"
    )
    conntrack: choice(*(each for each in model.Tracking if each)) | None = Field(  # type: ignore[valid-type]
        default=None, description="whether the pods' connections are tracked: track, or notrack"
    )


class PlacementChangeIn(Checked):
    """What differs from the study's placements in one environment; keys left out are as the study says."""

    containers_per_node: Count | None = None
    share: choice(*model.Share) | None = None  # type: ignore[valid-type]
    binding: choice(*model.Binding) | None = None  # type: ignore[valid-type]
    map_by: choice(*model.MapBy) | None = None  # type: ignore[valid-type]
    rank_order: choice(*model.RankOrder) | None = None  # type: ignore[valid-type]
    memory_per_container: Memory | None = None
    cpus_per_container: Annotated[float, Field(ge=0, le=4096)] | None = None
    cpu_weight: Annotated[int, Field(ge=0, le=10_000)] | None = None


class EnvironmentIn(Checked):
    """The environment that trials run in. A name such as `docker+overlay` gives runtime, image and network."""

    runtime: Annotated[str, one_of("runtimes", "runtime")]
    network: Annotated[str, BeforeValidator(_network)] = Field(
        default="host", description="a network of `tare network list`, or {cni: PATH}: your own CNI configuration"
    )
    image: Annotated[str, WithJsonSchema({"type": ["string", "boolean"]})] = Field(
        default="",
        description="a recipe's name; the path of your own image, or its name in a registry; "
        "true: the default image; false: the host's files",
    )
    transport: Annotated[str, BeforeValidator(_transport)] = Field(
        default="tcp", description="what MPI sends messages over: NAME or NAME:DETAIL, such as ofi:tcp"
    )
    mpi: Annotated[str, one_of("mpis", "MPI")] = "openmpi"
    sides: choice(*model.Sides) = Field(  # type: ignore[valid-type]
        default=model.Sides.BOTH, description="side of a two-node job that runs in the environment; the other runs bare"
    )
    launch: choice(*model.Launching) = Field(  # type: ignore[valid-type]
        default=model.Launching.EXEC, description="how MPI's daemons start on the hosts and ranks in their containers"
    )
    control: choice(*model.Control) = Field(  # type: ignore[valid-type]
        default=model.Control.OWN,
        description="network of MPI's daemons: own, separate from the measured one; data: the measured one",
    )
    ssh_port: Annotated[int, Field(ge=0, le=65535, strict=True)] = Field(
        default=0, description="first port of the pods' sshd; 0: 9100 on the host's network, else 22"
    )
    devices: Annotated[
        list[Annotated[str, BeforeValidator(_device)]],
        BeforeValidator(_devices),
    ] = Field(
        default=[],
        description="devices that containers get: none, infiniband, nvidia, rocm, or a list of these words, of CDI "
        "names (cdi:VENDOR/CLASS=NAME) and of paths below /dev",
    )
    binds: list[Annotated[Word, BeforeValidator(_bind)]] = Field(
        default=[], description="files and folders of the host that containers see: SOURCE:TARGET or SOURCE:TARGET:ro"
    )
    workdir: Annotated[str, AfterValidator(check_workdir)] = Field(
        default="", description="folder, inside the container, in which ranks work"
    )
    env: dict[str, Annotated[str, BeforeValidator(_value)]] = Field(
        default={}, description="variables that all ranks get"
    )
    link: LinkIn = Field(default=LinkIn(), description="settings of the environment's own NIC")
    daemon: Annotated[str, one_of("daemons", "daemon")] = Field(
        default="", description="run on nodes that have this runtime's daemon, without using it (bare+dockerd)"
    )
    pmi: choice("pmix", "pmix_v3", "pmix_v4", "pmix_v5", "pmi2") | None = Field(  # type: ignore[valid-type]
        default=None,
        description="launch: srun: how ranks find each other (srun --mpi); by default what the MPI prefers",
    )
    runtime_class: Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9.-]*)?$", max_length=253)] = Field(
        default="", description="RuntimeClass of pods of a Kubernetes, which may choose their network; default: none"
    )
    shm_size: Memory = Field(
        default=0, description="size of /dev/shm in containers that have their own, such as 1GiB; 0: as on the node"
    )

    placement: PlacementChangeIn = Field(
        default=PlacementChangeIn(), description="what differs from the study's placements in this environment"
    )

    @field_validator("env")
    @classmethod
    def _check_env(cls, given: dict[str, str]) -> dict[str, str]:
        for name, value in given.items():
            check_variable(f"{name}={value}")
        return given


class PlacementIn(Checked):
    """Ranks -> containers -> nodes, and binding."""

    nodes: Count = 2
    ranks_per_node: Count = 1
    containers_per_node: Count = 1
    share: choice(*model.Share) = Field(  # type: ignore[valid-type]
        default=model.Share.POD,
        description="pod: the containers of a node share one pod; none: each has its own pod and address",
    )
    binding: choice(*model.Binding) = Field(  # type: ignore[valid-type]
        default=model.Binding.DISJOINT,
        description="disjoint: each rank is bound to cores of its own; mpi-default: the MPI decides",
    )
    threads_per_rank: Count = 1
    oversubscribe: bool = Field(default=False, description="allow more ranks than cores; no verdict is given then")
    map_by: choice(*model.MapBy) = Field(  # type: ignore[valid-type]
        default=model.MapBy.CORE,
        description="how ranks are mapped to cores: in order, or to sockets or NUMA nodes in turn",
    )
    rank_order: choice(*model.RankOrder) = Field(  # type: ignore[valid-type]
        default=model.RankOrder.BLOCK,
        description="block: ranks fill one node after the other; cyclic: they go to the nodes in turn",
    )
    memory_per_container: Memory = Field(default=0, description="memory limit of a container; 0: none")
    cpus_per_container: Annotated[float, Field(ge=0, le=4096)] = Field(
        default=0.0, description="CPUs of a container; a fraction limits CPU time; 0: the cores of its ranks"
    )
    cpu_weight: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="weight of a node's job against other programs of the machine; 0: the kernel's, 100"
    )


class KernelIn(Checked):
    """One micro-benchmark of a launch; keys left out have the kernel's defaults."""

    kernel: Annotated[str, one_of("kernels", "kernel")]
    message_bytes: Size | None = Field(
        default=None, description="bytes per rank per operation; a list is one kernel for each size"
    )
    iterations: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    warmup: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    window: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None, description="messages in flight (bw, bibw)"
    )
    rate_hz: Frequency | None = Field(default=None, alias="rate", description="messages a second (spacing)")
    sync: choice("none", "barrier", "window") | None = Field(  # type: ignore[valid-type]
        default=None, description="how ranks are synchronised before an iteration"
    )


class WorkloadIn(Checked):
    """What one launch runs: kernels, a mini-application, a program, your own command, a start-up, or node commands."""

    kernels: list[KernelIn] | None = Field(default=None, min_length=1)
    command: list[Word] | None = Field(
        default=None, min_length=1, description="the program and its arguments, one a word"
    )
    miniapp: Word | None = Field(
        default=None, description="a mini-application of tare: NAME:class=A,key=value or {NAME: {class: A}}"
    )
    program: Annotated[Word, one_of("programs", "program")] | None = Field(
        default=None, description="a third-party program that `tare workloads` lists"
    )
    arguments: list[Word] = Field(default=[], description="arguments of `program`, one a word")
    path: Word | None = Field(
        default=None, description="place of `program` if it is not on PATH: its file, or a folder that contains it"
    )
    startup: choice(*model.Caches) | None = Field(  # type: ignore[valid-type]
        default=None, description="time the start-up itself; cold: drop the machine's file caches before each launch"
    )
    commands: list[CommandIn] | None = Field(
        default=None,
        min_length=1,
        description="commands of a product that run on the first node, in order and in place of ranks",
    )
    undo: list[Command] = Field(default=[], description="commands that run after `commands`, however those end")
    input: Word | None = Field(
        default=None, description="file that `command` or `program` reads as its standard input; by default it is empty"
    )
    mpi: Annotated[Word, one_of("mpis", "MPI")] | None = Field(
        default=None, description="MPI of this workload, in place of each environment's; tare's own images follow it"
    )
    time_limit_s: Duration = Field(
        default=60.0, alias="time_limit", description="a launch that takes longer is ended and counted as failed"
    )


class BudgetIn(Checked):
    """What a study may use: time of one run, or node-hours of all its runs on cluster slurm."""

    budget_s: Duration | None = Field(default=None, alias="time")
    budget_node_hours: Annotated[float, Field(gt=0)] | None = Field(default=None, alias="node_hours")


def _budget(value: object) -> object:
    """Return a budget as a mapping; a plain duration is one of time."""
    if value is None:
        return {}
    return {"time": value} if isinstance(value, int | float | str) else value


class RepetitionIn(Checked):
    """Number of launches, and when to stop."""

    rounds: Count = Field(default=10, description="rounds to run; at least 6 for a verdict")
    blocks_per_round: Count = 1
    max_rounds: Count | None = Field(
        default=None, description="run up to this many rounds until the intervals are narrow enough"
    )
    budget: Annotated[BudgetIn, BeforeValidator(_budget), WithJsonSchema(BUDGET)] = Field(
        default=BudgetIn(), description="begin no round after this much time, or beyond {node_hours: N}"
    )
    confidence: Annotated[float, *PERCENT, Field(ge=0.5, lt=1)] = 0.95
    target_half_width: Percentage = Field(default=0.01, description="an interval of this half-width is narrow enough")
    turns: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        default=20,
        description="turns in which environments measure their kernels in alternation; 1: each launch on its own",
    )
    reruns: Annotated[int, Field(ge=0, le=10, strict=True)] = Field(
        default=1,
        description="0: never repeat launches because of the machine's state; else short ones, at most a quarter",
    )


class PublishedIn(Checked):
    """A published result for an environment; the report shows it next to the measured one."""

    environment: Word
    workload: Word
    metric: Annotated[
        str, Field(description="pattern of metric labels, such as TCP*; by default all of the workload")
    ] = ""
    of_baseline: Annotated[float, *PERCENT, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="published figure as a share of the published baseline's, in the metric's unit: 80%"
    )
    told: str = Field(default="", description="the published result, in its own figures")
    source: Word = Field(description="the publication, and the place in it")
    conditions: str = Field(default="", description="conditions of the published figure: link rate, MTU, ranks, size")


class StudyIn(Checked):
    """A study: the environments to compare, the workloads to run in them, and how often."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")] | None = Field(
        default=None, description="name of the results folder; by default the name of the file"
    )
    cluster: dict[str, ClusterIn] = Field(default={"lab": ClusterIn()}, description="where the nodes come from")
    baseline: Word | None = Field(
        default=None, description="environment that others are compared with; by default the first"
    )
    environments: dict[str, EnvironmentIn] = Field(min_length=1)
    placements: list[PlacementIn] = Field(default=[PlacementIn()], min_length=1)
    workloads: dict[str, WorkloadIn] = Field(min_length=1)
    repetition: RepetitionIn = RepetitionIn()
    margin: Percentage = Field(default=0.02, description="a cost surely below this is called no cost")
    limit: Percentage | None = Field(default=None, description="a cost surely above this makes the exit code 1")
    a_a: bool = Field(default=True, description="run the baseline twice, to measure the noise floor")
    writable: Annotated[bool, Field(strict=True)] | Word = Field(
        default=False,
        description="folder to which programs may write, and in which they work; true: that of the study's file",
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="seed of the random order in each block")
    published: list[PublishedIn] = Field(
        default=[], description="published results for these environments, shown next to those of the study"
    )
