"""The values that parts of a study can have: words of a study file, roles and kinds."""

from __future__ import annotations

from enum import StrEnum


class Sides(StrEnum):
    """The side of a two-node job that runs in the environment; the other side runs bare."""

    BOTH = "both"
    SENDER = "sender"
    RECEIVER = "receiver"


class Share(StrEnum):
    """Whether the containers of a node share one pod or have a pod (and an address) each."""

    POD = "pod"
    NONE = "none"


class Binding(StrEnum):
    """How ranks are bound: by tare to disjoint cores, or by the MPI's default."""

    DISJOINT = "disjoint"
    MPI_DEFAULT = "mpi-default"


class MapBy(StrEnum):
    """How the ranks of a node are mapped to its cores.

    `core`: neighbours to neighbouring cores. `socket`, `numa`: to the sockets or NUMA nodes in turn. `hwthread`: to
    consecutive hardware threads, so that neighbours share a core if it has several.
    """

    CORE = "core"
    SOCKET = "socket"
    NUMA = "numa"
    HWTHREAD = "hwthread"


class RankOrder(StrEnum):
    """Which node each rank is on: `block` fills one node after the other, `cyclic` gives ranks to the nodes in turn."""

    BLOCK = "block"
    CYCLIC = "cyclic"


class Launching(StrEnum):
    """How the MPI's daemons are started on the hosts of a job, and its ranks in their containers.

    `exec`: the launcher is outside and starts each daemon in its pod with the runtime's exec; if a pod has several
    containers, this is `daemon`. `ssh`: an sshd in each pod, and the launcher in the first pod. `daemon`: one daemon
    per host, outside the containers; its ranks enter them. `hybrid`: as `daemon`, but each rank starts its own
    container. `host-mpi`: as `exec`, with the host's MPI instead of the image's. `srun`: Slurm starts the ranks, and
    each enters its container. `mpijob`: each trial is an MPIJob, whose workers and launcher the MPI Operator of a
    Kubernetes starts.
    """

    EXEC = "exec"
    SSH = "ssh"
    DAEMON = "daemon"
    HYBRID = "hybrid"
    HOST_MPI = "host-mpi"
    SRUN = "srun"
    MPIJOB = "mpijob"


class Control(StrEnum):
    """The network over which daemons are started and communicate: a separate one, or the one that is measured."""

    OWN = "own"
    DATA = "data"


class Caches(StrEnum):
    """The page cache at a launch: filled by an earlier launch, or dropped (`tare.system.node.page_cache`)."""

    WARM = "warm"
    COLD = "cold"


class Tracking(StrEnum):
    """Connection tracking by a pod's packet filter: unchanged, on, or on except for the pod's own connections."""

    AS_IT_IS = ""
    TRACK = "track"
    NOTRACK = "notrack"


class MetricKind(StrEnum):
    """The type of a metric; it selects the mean (arithmetic for costs, harmonic for rates)."""

    COST = "cost"
    RATE = "rate"


class Role(StrEnum):
    """The role of a cell in its comparison."""

    BASELINE = "baseline"
    SELF = "a/a"
    ENVIRONMENT = "environment"
