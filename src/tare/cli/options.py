"""The options that commands share, and those of `tare launch` that need a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[
    Path, typer.Argument(help="The study file (YAML), such as studies/quickstart.yaml.", show_default=False)
]
RanksPerNodeOption = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--ranks-per-node",
        min=1,
        help="Ranks on each node: -n 2 on two nodes is 4 ranks.",
        show_default="1; on cluster local one a core",
    ),
]
RanksOption = Annotated[
    int, typer.Option("-n", "--ranks", min=1, help="Ranks of the whole job, divided equally among nodes.")
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
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Write this format: terminal, html, csv, parquet, json, junit, openmetrics or markdown (docs/formats.md).",
        show_default=False,
    ),
]
FiguresOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write every figure to this folder, as SVG and PDF.", show_default=False),
]
OutputOption = Annotated[
    Path | None, typer.Option("-o", "--output", help="File or folder of --format.", show_default="standard output")
]
Command = Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)]
ContainersOption = Annotated[
    int, typer.Option(min=1, help="Containers on each node; the ranks of the node are divided among them.")
]
ThreadsOption = Annotated[
    int,
    typer.Option(min=1, help="Cores of each rank, for programs with threads: OpenMP starts as many as it has cores."),
]
NodesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of nodes; they are made inside this machine, unless --cluster says otherwise.",
        show_default="2, all --hosts, 1 on cluster local",
    ),
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
AskedClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster",
        help="Ask about lab, local, ssh, slurm or kubernetes.",
        show_default="lab for root, else local",
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
RoundsOption = Annotated[
    int, typer.Option("--rounds", min=0, help="Rounds of the whole study instead of the file's.", show_default=False)
]
AtMostOption = Annotated[
    int,
    typer.Option(
        "--at-most", min=0, help="End after so many rounds; the same command resumes the study.", show_default=False
    ),
]
SystemOption = Annotated[
    str, typer.Option(help="Batch system: slurm; pbs, lsf and flux were never tried, see docs/slurm.md.")
]
AllocationsOption = Annotated[
    int, typer.Option(min=1, help="Allocations, one after the other; each measures one round of the study.")
]
TimeOption = Annotated[
    str, typer.Option(metavar="TIME", help="Time limit of an allocation, as 30min.", show_default="from the plan")
]
ToldOption = Annotated[str, typer.Option(metavar="TIME", help="With --wait: say why the job is pending after so long.")]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live", help="Renew the HTML report while the study runs, to follow it in a browser (docs/live.md)."
    ),
]
ThinOption = Annotated[
    bool,
    typer.Option("--thin", help="One round of few cells and small workloads: does the study run? Decides nothing."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Archive earlier results and start over.")]
RuntimeOption = Annotated[
    str,
    typer.Option(
        help="Container runtime: docker, podman, podman-rootless, apptainer, apptainer-sif, charliecloud; bare: none."
    ),
]
ShareOption = Annotated[str, typer.Option(help="pod: the containers of a node share a pod; none: each has its own.")]
BindingOption = Annotated[
    str, typer.Option(help="disjoint: each rank is bound to cores of its own; mpi-default: the MPI decides.")
]
CpusOption = Annotated[
    float, typer.Option(min=0, help="CPUs per container, such as 2 or 0.5; 0: the cores of its ranks.")
]
WayOption = Annotated[
    str,
    typer.Option(
        "--launch", help="How MPI starts ranks: exec, ssh, daemon, hybrid or host-mpi (docs/environments.md)."
    ),
]
WorkdirOption = Annotated[
    str, typer.Option(help="Folder in which the ranks work, inside the container.", show_default="the current folder")
]
DeviceOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Pass a device to containers: infiniband, nvidia, rocm, or a path such as /dev/fuse; repeatable."
    ),
]
ProveOption = Annotated[bool, typer.Option("--prove", help="First measure whether two ranks on one node share memory.")]
NetworkOption = Annotated[
    str, typer.Option(help="Network: a name from `tare network list`, or cni:PATH of a CNI configuration.")
]
ControlOption = Annotated[
    str, typer.Option(help="Network of the MPI's daemons: own, or data, that of the messages (with --launch ssh).")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print how long the set-up and the job took.")]
NoiseOption = Annotated[
    bool, typer.Option("--noise", help="Measure what disturbs this machine, what it costs, and what changes it.")
]
NoiseJsonOption = Annotated[bool, typer.Option("--json", help="With --noise: print JSON.")]
EnvironmentsOption = Annotated[
    str | None,
    typer.Option(
        help="Environments to compare, such as bare,docker,podman; the first is the baseline.",
        show_default="twelve usual ones",
    ),
]
