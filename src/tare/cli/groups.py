"""The commands in groups: `tare lab`, `tare network` and `tare image`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tare.cli.options import LabName, LabOptions, NetworkOptions, command
from tare.errors import EXIT_DONE

CommandArgument = Annotated[list[str], typer.Argument(help="The command, after --.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

lab_app = typer.Typer(help="Manage a small cluster inside this machine.", no_args_is_help=True)
network_app = typer.Typer(help="List networks, or try one by hand on a lab.", no_args_is_help=True)
image_app = typer.Typer(help="Manage the images that containers start from, and their cache.", no_args_is_help=True)


@command(lab_app, LabOptions, "up")
def lab_up(asked: LabOptions) -> int:
    """Start a lab that stays up until `tare lab down`."""
    from tare.cli.lab_commands import lab_up as go

    go(asked)
    return EXIT_DONE


@lab_app.command("kubernetes", hidden=True)
def lab_kubernetes(name: LabName = "lab") -> None:
    """Keep a Kubernetes on a lab that is up; `tare lab up --kubernetes` starts this."""
    from tare.cli.lab_kubernetes import keep as go

    go(name)


@lab_app.command("status")
def lab_status(as_json: JsonOption = False) -> None:
    """List the labs that are up, and their nodes."""
    from tare.cli.lab_commands import lab_status as go

    go(as_json=as_json)


@lab_app.command("exec", context_settings={"allow_interspersed_args": False})
def lab_exec(
    node: Annotated[str, typer.Argument(help="A node, such as n0, or head.", show_default=False)],
    command: CommandArgument,
    name: LabName = "lab",
) -> None:
    """Run a command on a node of a lab: `tare lab exec n0 -- hostname`."""
    from tare.cli.lab_commands import lab_exec as go

    go(name, node, command)


@lab_app.command("down")
def lab_down(name: LabName = "lab") -> None:
    """Remove a lab and end what runs on its nodes."""
    from tare.cli.lab_commands import lab_down as go

    go(name)


@network_app.command("list")
def network_list(as_json: JsonOption = False) -> None:
    """List networks, and which are available here.

    The list says whether a network is the product itself, and what it needs.
    """
    from tare.cli.network_commands import network_list as go

    go(as_json=as_json)


@command(network_app, NetworkOptions, "up")
def network_up(asked: NetworkOptions) -> int:
    """Connect a pod on each node of a lab.

    The network stays up until `tare network down`.
    """
    from tare.cli.network_commands import network_up as go

    return go(asked)


@network_app.command("exec", context_settings={"allow_interspersed_args": False})
def network_exec(
    node: Annotated[str, typer.Argument(help="A node, such as n0.", show_default=False)],
    command: CommandArgument,
    name: LabName = "net",
) -> None:
    """Run a command in the pod on a node.

    For example `tare network exec n0 -- ip address`.
    """
    from tare.cli.network_commands import network_exec as go

    go(name, node, command)


@network_app.command("down")
def network_down(name: LabName = "net") -> None:
    """Remove a network, and the lab if it was started for it."""
    from tare.cli.network_commands import network_down as go

    go(name)


@image_app.command("list")
def image_list(as_json: JsonOption = False) -> None:
    """List the cached images with digest, size, last use and formats."""
    from tare.cli.image_commands import image_list as go

    go(as_json=as_json)


@image_app.command("add")
def image_add(
    name: Annotated[str, typer.Argument(help="The image to begin with, such as debian-openmpi.", show_default=False)],
    packages: Annotated[
        list[str], typer.Argument(help="Packages of Debian, such as python3-numpy.", show_default=False)
    ],
) -> None:
    """Build one of tare's images with more packages.

    Its name is the image's and the sorted packages, joined by +.
    """
    from tare.cli.image_commands import image_add as go

    go(name, packages)


@image_app.command("build")
def image_build(
    recipe: Annotated[
        list[str] | None, typer.Argument(help="Recipes to build, such as debian-mpich.", show_default="debian-openmpi")
    ] = None,
) -> None:
    """Build images from recipes, unless they are in the cache."""
    from tare.cli.image_commands import image_build as go

    go(recipe or [])


@image_app.command("convert")
def image_convert(
    name: Annotated[
        str,
        typer.Argument(
            help="A recipe such as debian-mpich, or the path of your own image, such as ./app.sif.", show_default=False
        ),
    ],
    to: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="oci, docker-archive, sif, squashfs, directory (sandbox), charliecloud, podman.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Argument(help="File or folder to write.", show_default="the cache; podman: its storage")
    ] = None,
) -> None:
    """Convert an image to the format that a runtime starts from."""
    from tare.cli.image_commands import image_convert as go

    go(name, to, out)


@image_app.command("push")
def image_push(
    reference: Annotated[
        str, typer.Argument(metavar="REF", help="Where to, such as registry.example/group/tare:1.", show_default=False)
    ],
    image: Annotated[
        str, typer.Argument(help="A recipe such as debian-mpich, or the path of your own image, such as ./app.sif.")
    ] = "debian-openmpi",
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Without TLS or its check. Not needed for a registry on this machine."),
    ] = False,
) -> None:
    """Push an image to a registry; print its reference by digest."""
    from tare.cli.image_commands import image_push as go

    go(reference, image, plain_http=plain_http)


@image_app.command("recipe")
def image_recipe(
    base: Annotated[str, typer.Option(help="Base image, as a registry names it.")] = "debian:12",
    mpi: Annotated[str, typer.Option(help="MPI implementation: openmpi or mpich.")] = "openmpi",
    ucx: Annotated[bool, typer.Option("--ucx/--no-ucx", help="Include UCX.")] = True,
    rdma_core: Annotated[bool, typer.Option("--rdma-core/--no-rdma-core", help="Include rdma-core.")] = True,
    form: Annotated[
        str, typer.Option("--format", help="docker (a Dockerfile) or singularity (a definition file).")
    ] = "docker",
) -> None:
    """Print an image recipe for a cluster: for Docker or Singularity."""
    from tare.images.clusters import ClusterRecipe, recipe_text

    typer.echo(recipe_text(ClusterRecipe(base=base, mpi=mpi, ucx=ucx, rdma_core=rdma_core), form), nl=False)


@image_app.command("prune")
def image_prune(
    limit: Annotated[
        str, typer.Option(help="Size limit of the cache, such as 10GB.", show_default="$TARE_CACHE_LIMIT, or 20GB")
    ] = "",
    unused_days: Annotated[float, typer.Option(min=0, help="Remove images unused for this many days.")] = 60.0,
) -> None:
    """Remove images from the cache.

    First those that are unused, then the least recently used until the cache is within its limit.
    """
    from tare.cli.image_commands import image_prune as go

    go(limit, unused_days)
