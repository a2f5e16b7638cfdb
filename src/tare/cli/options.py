"""The options that commands share, and the classes whose fields are the options of a command.

Nothing but typer is imported: `tare --help` reads all of this.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")


def command(
    app: typer.Typer, options: type[Options], name: str | None = None, **settings: Any
) -> Callable[[Callable[[Options], int]], Callable[[Options], int]]:
    """Register a function as a command: it is called with its options, a dataclass, and returns the exit code."""

    def register(function: Callable[[Options], int]) -> Callable[[Options], int]:
        def called(**given: Any) -> None:
            raise typer.Exit(function(options(**given)))

        types = get_type_hints(options, include_extras=True)
        fields = inspect.signature(options).parameters.values()
        own = inspect.Signature([each.replace(annotation=types[each.name]) for each in fields])
        vars(called).update(__signature__=own)
        called.__name__, called.__doc__ = function.__name__, function.__doc__
        app.command(name, **settings)(called)
        return function

    return register


StudyFile = Annotated[
    Path, typer.Argument(help="The study file (YAML), such as studies/quickstart.yaml.", show_default=False)
]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", "-o", help="Folder for the results.", show_default="results/NAME")
]
BundledImagesOption = Annotated[
    list[str] | None,
    typer.Option(help="An image to include, such as debian-openmpi; repeatable.", show_default=False),
]
BundledPythonsOption = Annotated[
    list[str] | None,
    typer.Option(help="A version of Python that the other machine has; repeatable.", show_default="this one's"),
]
Command = Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)]
ContainersOption = Annotated[
    int, typer.Option(min=1, help="Containers on each node; the ranks of the node are divided among them.")
]
ThreadsOption = Annotated[
    int,
    typer.Option(min=1, help="Cores of each rank, for programs with threads: OpenMP starts as many as it has cores."),
]
MpiOption = Annotated[
    str,
    typer.Option(
        help="MPI implementation: openmpi, openmpi5, mpich, mpich5, intelmpi or site.",
        show_default="openmpi; site where this machine has another one",
    ),
]
TransportOption = Annotated[
    str,
    typer.Option(
        help="What MPI sends messages over: tcp (the default), shm, ipoib, ucx, verbs, ofi:tcp, ... (docs/study.md)."
    ),
]
ImageOption = Annotated[
    str,
    typer.Option(
        help="Image of the containers: a recipe such as debian-mpich, or the path of your own, such as ./app.sif.",
        show_default="the recipe with the MPI",
    ),
]
BindOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE:TARGET[:ro]",
        help="Show a file or folder of this machine in containers (bare sees it at SOURCE only); repeatable.",
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env", "-x", metavar="NAME[=VALUE]",
        help="Set a variable for all ranks; NAME alone passes on its value here; repeatable.",
    ),
]  # fmt: skip
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="The cluster: lab (nodes inside this machine), local, ssh or slurm, whatever a study names.",
        show_default=False,
    ),
]
HostsOption = Annotated[
    str, typer.Option("--hosts", metavar="A,B", help="Hosts of cluster ssh, in order of ranks.", show_default=False)
]
SshConfigOption = Annotated[
    str, typer.Option("--ssh-config", help="File that ssh reads instead of ~/.ssh/config.", show_default=False)
]
LauncherOption = Annotated[
    str, typer.Option("--launcher", help="What starts ranks on cluster slurm: mpirun or srun.", show_default=False)
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live", help="Renew the HTML report while the study runs, to follow it in a browser (docs/live.md)."
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no progress; warnings, failures and the result are printed.")
]
ThinOption = Annotated[
    bool,
    typer.Option("--thin", help="One round of few cells and small workloads: does the study run? Decides nothing."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Archive earlier results and start over.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What `tare plan` is asked for."""

    study: StudyFile
    cluster: ClusterOption = None
    hosts: HostsOption = ""
    ssh_config: SshConfigOption = ""
    launcher: LauncherOption = ""
    thin: ThinOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `tare run` is asked for."""

    study: StudyFile
    results: ResultsOption = None
    fresh: FreshOption = False
    cluster: ClusterOption = None
    hosts: HostsOption = ""
    ssh_config: SshConfigOption = ""
    launcher: LauncherOption = ""
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=0, help="Rounds of the whole study instead of the file's.", show_default=False),
    ] = 0
    at_most: Annotated[
        int,
        typer.Option(
            "--at-most", min=0, help="End after so many rounds; the same command resumes the study.", show_default=False
        ),
    ] = 0
    live: LiveOption = False
    quiet: QuietOption = False
    thin: ThinOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickOptions:
    """What `tare quick` is asked for; `ranks` are those of each node, and None is as many as usual on the cluster."""

    command: Command
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds: launches of the program in each environment; 6 or more for a verdict.")
    ] = 10
    ranks: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--ranks-per-node",
            min=1,
            help="Ranks on each node: -n 2 on two nodes is 4 ranks.",
            show_default="1; on cluster local one a core",
        ),
    ] = None
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of nodes; they are made inside this machine, unless --cluster says otherwise.",
            show_default="2, all --hosts, 1 on cluster local",
        ),
    ] = None
    containers_per_node: ContainersOption = 1
    threads_per_rank: ThreadsOption = 1
    environments: Annotated[
        str | None,
        typer.Option(
            help="Environments to compare, such as bare,docker,podman; the first is the baseline.",
            show_default="twelve usual ones",
        ),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="Compare every runtime in every network available here.")] = False
    mpi: MpiOption = ""
    transport: TransportOption = ""
    image: ImageOption = ""
    bind: BindOption = None
    env: EnvOption = None
    writable: Annotated[
        bool, typer.Option("--writable", help="Let the program write to the current folder; otherwise it is read-only.")
    ] = False
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds after which a launch is ended as failed.")] = 600.0
    cluster: ClusterOption = None
    hosts: HostsOption = ""
    ssh_config: SshConfigOption = ""
    results: ResultsOption = None
    fresh: FreshOption = False
    live: LiveOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """What `tare submit` is asked for."""

    study: StudyFile
    system: Annotated[
        str, typer.Option(help="Batch system: slurm; pbs, lsf and flux were never tried, see docs/slurm.md.")
    ] = "slurm"
    allocations: Annotated[
        int, typer.Option(min=1, help="Allocations, one after the other; each measures one round of the study.")
    ] = 6
    results: ResultsOption = None
    launcher: LauncherOption = ""
    time: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit of an allocation, as 30min.", show_default="from the plan")
    ] = ""
    partition: Annotated[str, typer.Option(help="Partition or queue.", show_default="the site's")] = ""
    account: Annotated[str, typer.Option(help="Account that pays for the job.", show_default="yours")] = ""
    qos: Annotated[str, typer.Option(help="Quality of service.", show_default="the site's")] = ""
    constraint: Annotated[str, typer.Option(help="Features that the nodes must have.", show_default="none")] = ""
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the study is done, and print its report.")] = False
    pending: Annotated[
        str, typer.Option(metavar="TIME", help="With --wait: say why the job is pending after so long.")
    ] = "5min"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the batch script and submit nothing.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """What `tare launch` is asked for; `ranks` are those of the whole job."""

    command: Command
    runtime: Annotated[
        str,
        typer.Option(
            help="Container runtime: docker, podman, podman-rootless, apptainer, apptainer-sif, charliecloud; "
            "bare: none."
        ),
    ] = "bare"
    network: Annotated[
        str, typer.Option(help="Network: a name from `tare network list`, or cni:PATH of a CNI configuration.")
    ] = "host"
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", min=1, help="Ranks of the whole job, divided equally among nodes.")
    ] = 1
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes; they are made inside this machine.")] = 1
    containers_per_node: ContainersOption = 1
    threads_per_rank: ThreadsOption = 1
    share: Annotated[str, typer.Option(help="pod: the containers of a node share a pod; none: each has its own.")] = (
        "pod"
    )
    binding: Annotated[
        str, typer.Option(help="disjoint: each rank is bound to cores of its own; mpi-default: the MPI decides.")
    ] = "disjoint"
    map_by: Annotated[str, typer.Option(help="Map ranks by core, socket, numa or hwthread.")] = "core"
    memory: Annotated[str, typer.Option(help="Memory limit per container, such as 512MiB; 0: no limit.")] = "0"
    cpus: Annotated[
        float, typer.Option(min=0, help="CPUs per container, such as 2 or 0.5; 0: the cores of its ranks.")
    ] = 0.0
    mpi: MpiOption = ""
    transport: TransportOption = ""
    way: Annotated[
        str,
        typer.Option(
            "--launch", help="How MPI starts ranks: exec, ssh, daemon, hybrid or host-mpi (docs/environments.md)."
        ),
    ] = "exec"
    control: Annotated[
        str, typer.Option(help="Network of the MPI's daemons: own, or data, that of the messages (with --launch ssh).")
    ] = "own"
    image: ImageOption = ""
    bind: BindOption = None
    workdir: Annotated[
        str,
        typer.Option(help="Folder in which the ranks work, inside the container.", show_default="the current folder"),
    ] = ""
    env: EnvOption = None
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Pass a device to containers: infiniband, nvidia, rocm, or a path such as /dev/fuse; repeatable."
        ),
    ] = None
    cluster: ClusterOption = None
    hosts: HostsOption = ""
    ssh_config: SshConfigOption = ""
    oversubscribe: Annotated[bool, typer.Option("--oversubscribe", help="Allow more ranks than cores.")] = False
    by_rank: Annotated[bool, typer.Option("--by-rank", help="Prefix output with the rank.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command without starting a rank.")] = False
    prove: Annotated[
        bool, typer.Option("--prove", help="First measure whether two ranks on one node share memory.")
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print how long the set-up and the job took.")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What `tare doctor` is asked for."""

    command: Annotated[
        list[str] | None,
        typer.Argument(help="With --locality: what starts two ranks, after --.", show_default="mpirun -n 2"),
    ] = None
    locality: Annotated[
        bool, typer.Option("--locality", help="Check whether two ranks share memory, and if not, why.")
    ] = False
    noise: Annotated[
        bool, typer.Option("--noise", help="Measure what disturbs this machine, what it costs, and what changes it.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="With --noise: print JSON.")] = False
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster",
            help="Ask about lab, local, ssh, slurm or kubernetes.",
            show_default="lab for root, else local",
        ),
    ] = ""
    hosts: HostsOption = ""
    ssh_config: SshConfigOption = ""
    every: Annotated[bool, typer.Option("--all", help="Show every part, and each runtime in each network.")] = False


LabName = Annotated[str, typer.Option(help="Name of the lab.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """What `tare lab up` is asked for."""

    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 2
    nics: Annotated[int, typer.Option(min=1, help="Network interfaces for messages (data NICs) on each node.")] = 1
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores of each node.", show_default="this machine's, divided among nodes")
    ] = None
    link_rate: Annotated[
        str, typer.Option(help="Rate limit of the data links, such as 10Gbit.", show_default="no limit")
    ] = ""
    segmented: Annotated[bool, typer.Option("--segmented", help="Send frames of MTU size, as on a real wire.")] = False
    docker: Annotated[
        bool, typer.Option("--docker", help="Start a Docker daemon on every node, joined in a Swarm.")
    ] = False
    subnets: Annotated[int, typer.Option(min=1, max=2, help="Number of data subnets; a router joins them.")] = 1
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Start a Kubernetes on the nodes, with flannel as its pod network.")
    ] = False
    name: LabName = "lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """What `tare network up` is asked for; `name` is that of a lab that is up, or of the one to start."""

    network: Annotated[
        str,
        typer.Argument(help="A name from `tare network list`, or cni:PATH of a CNI configuration.", show_default=False),
    ]
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes, with one pod each.")] = 2
    runtime: Annotated[str, typer.Option(help="Container runtime of the pods, such as docker; bare: none.")] = "bare"
    name: Annotated[str, typer.Option(help="Name of a lab that is up, or of the one to start.")] = "net"
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground; Ctrl-C removes the network.")
    ] = False
