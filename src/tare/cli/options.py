"""The options that commands share, and those of `tare launch` that need a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", "-o", help="Results folder.", show_default="results/NAME")
]
Command = Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)]
ContainersOption = Annotated[int, typer.Option(min=1, help="Containers per node.")]
MpiOption = Annotated[str, typer.Option(help="openmpi, openmpi5, mpich, mpich5 or intelmpi.")]
TransportOption = Annotated[str, typer.Option(help="tcp, shm, ipoib, ucx, verbs, ofi:tcp, ... (see docs/study.md).")]
ImageOption = Annotated[
    str, typer.Option(help="A recipe, or the ./PATH of your own image.", show_default="the recipe of the MPI")
]
BindOption = Annotated[
    list[str] | None,
    typer.Option(metavar="SOURCE:TARGET[:ro]", help="Show a file or folder in containers; repeatable."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-x", metavar="NAME[=VALUE]", help="Set a variable for all ranks; repeatable."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Archive earlier results and start over.")]
RuntimeOption = Annotated[str, typer.Option(help="bare, docker, podman, podman-rootless, apptainer, charliecloud.")]
ShareOption = Annotated[str, typer.Option(help="pod: the containers of a node share a pod; none: each has its own.")]
BindingOption = Annotated[
    str, typer.Option(help="disjoint: each rank has cores of its own; mpi-default: as the MPI binds.")
]
CpusOption = Annotated[
    float, typer.Option(min=0, help="CPUs per container, such as 2 or 0.5; 0: the cores of its ranks.")
]
WayOption = Annotated[
    str, typer.Option("--launch", help="How ranks are started: exec, ssh, daemon, hybrid or host-mpi.")
]
WorkdirOption = Annotated[
    str, typer.Option(help="Working folder of the ranks inside the container.", show_default=False)
]
DeviceOption = Annotated[
    list[str] | None, typer.Option(help="Pass a device to containers: infiniband, or a path below /dev.")
]
ProveOption = Annotated[bool, typer.Option("--prove", help="First show over what two ranks of a node communicate.")]
