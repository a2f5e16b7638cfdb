"""The command line: each command is one short function; what it does is in `tare.session` and `tare.commands`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tare import __version__
from tare.errors import EXIT_DONE, TareError, UsageError
from tare.text import printable

app = typer.Typer(
    name="tare",
    help="Measure, side by side, what containers cost an MPI job.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lab_app = typer.Typer(help="A small cluster inside this machine.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
network_app = typer.Typer(help="Networks: list them, or try one by hand on a lab.", no_args_is_help=True)
app.add_typer(network_app, name="network")
image_app = typer.Typer(help="The images that containers start from, and their cache.", no_args_is_help=True)
app.add_typer(image_app, name="image")

EXIT_INTERRUPTED: Final = 130

StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", "-o", help="Results folder [results/NAME].", show_default=False)
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Set earlier results aside and begin anew.")]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Answer the options that stand before a command."""
    if show:
        typer.echo(f"tare {__version__}")
        raise typer.Exit(EXIT_DONE)


@app.command()
def plan(study: StudyFile) -> None:
    """Show cells, trials and the estimated time of a study; run nothing."""
    from tare.commands import show_plan

    show_plan(study)


@app.command()
def run(study: StudyFile, results: ResultsOption = None, fresh: FreshOption = False) -> None:
    """Run a study, or go on where it stopped; print its tables and write its HTML report."""
    from tare.commands import run_study

    raise typer.Exit(run_study(study, results, fresh=fresh))


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="A results folder.", show_default=False)],
    html: Annotated[Path | None, typer.Option(help="Write the HTML report here.", show_default=False)] = None,
) -> None:
    """Show the report of a results folder."""
    from tare.commands import show_report

    raise typer.Exit(show_report(results, html))


@app.command(context_settings={"allow_interspersed_args": False})
def quick(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of all environments.")] = 10,
    ranks: Annotated[int, typer.Option("-n", min=1, help="Ranks a node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the lab.")] = 2,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that one launch may take.")] = 600.0,
    results: ResultsOption = None,
) -> None:
    """Compare a program of yours, bare against every environment that is available here; no file needed."""
    from tare.commands import run_quick

    raise typer.Exit(
        run_quick(command, rounds=rounds, ranks=ranks, nodes=nodes, time_limit_s=time_limit, results=results)
    )


@app.command(context_settings={"allow_interspersed_args": False})
def launch(  # noqa: PLR0913, PLR0917 - as many as there are options
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)],
    runtime: Annotated[
        str, typer.Option(help="bare, docker, podman, podman-rootless, apptainer, charliecloud.")
    ] = "bare",
    network: Annotated[str, typer.Option(help="As `tare network list` has them, or cni:PATH.")] = "host",
    ranks: Annotated[int, typer.Option("-n", min=1, help="Ranks of the whole job.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the lab.")] = 1,
    containers_per_node: Annotated[int, typer.Option(min=1, help="Containers a node.")] = 1,
    share: Annotated[str, typer.Option(help="pod: containers of a node share one; none: one each.")] = "pod",
    binding: Annotated[str, typer.Option(help="disjoint, or mpi-default.")] = "disjoint",
    map_by: Annotated[str, typer.Option(help="Deal ranks to: core, socket, numa, hwthread.")] = "core",
    memory: Annotated[str, typer.Option(help="Memory that a container may use, as 512MiB; 0: no limit.")] = "0",
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of a container, as 2 or 0.5; 0: its ranks' cores.")] = 0.0,
    mpi: Annotated[str, typer.Option(help="openmpi, openmpi5, mpich, mpich5, intelmpi.")] = "openmpi",
    transport: Annotated[str, typer.Option(help="tcp, shm, ipoib, ucx, verbs, ofi:tcp, ... (docs/study.md).")] = "tcp",
    way: Annotated[str, typer.Option("--launch", help="exec, ssh, daemon, hybrid, host-mpi.")] = "exec",
    control: Annotated[str, typer.Option(help="Daemons talk over: own, or data (with ssh).")] = "own",
    image: Annotated[str, typer.Option(help="A recipe, or ./PATH of an image of yours.", show_default=False)] = "",
    bind: Annotated[list[str] | None, typer.Option(help="Show SOURCE:TARGET[:ro] inside.")] = None,
    workdir: Annotated[str, typer.Option(help="The folder inside in which ranks work.", show_default=False)] = "",
    env: Annotated[list[str] | None, typer.Option(help="Give ranks NAME=value.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="Give containers infiniband, or a path below /dev.")] = None,
    oversubscribe: Annotated[bool, typer.Option("--oversubscribe", help="Allow more ranks than cores.")] = False,
    by_rank: Annotated[bool, typer.Option("--by-rank", help="Say of each line whose output it is.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command; start no rank.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="First let two ranks of a host answer each other.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell what starting up took.")] = False,
) -> None:
    """Run an application in an environment; its exit code is the command's, 125 to 127 as with docker run."""
    from tare.launch_command import Wanted, run_launch

    raise typer.Exit(
        run_launch(
            Wanted(
                command=tuple(command),
                environment=f"{runtime}+{network}",
                mpi=mpi,
                transport=transport,
                way=way,
                control=control,
                nodes=nodes,
                ranks=ranks,
                containers_per_node=containers_per_node,
                share=share,
                binding=binding,
                map_by=map_by,
                image=image,
                binds=tuple(bind or ()),
                workdir=workdir,
                env=tuple(env or ()),
                devices=tuple(device or ()),
                memory=memory,
                cpus=cpus,
                oversubscribe=oversubscribe,
                by_rank=by_rank,
                dry_run=dry_run,
                prove=prove,
                verbose=verbose,
            )
        )
    )


@app.command(context_settings={"allow_interspersed_args": False})
def doctor(
    command: Annotated[
        list[str] | None, typer.Argument(help="With --locality: what starts two ranks.", show_default=False)
    ] = None,
    locality: Annotated[bool, typer.Option("--locality", help="Do two ranks share memory? If not, why?")] = False,
) -> None:
    """Tell what this machine can run, what is missing, what installs it, and whether it is quiet enough."""
    if locality:
        from tare.doctor_locality import checked, show_locality

        raise typer.Exit(show_locality(checked(command or [])))
    if command:
        raise UsageError("tare doctor takes a command only with --locality")
    from tare.doctor import show_doctor

    raise typer.Exit(show_doctor())


@app.command()
def workloads(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with all that is declared.")] = False,
) -> None:
    """List every workload: what it measures and how, and whether it can run here or what is missing."""
    from tare.workload_commands import show_workloads

    show_workloads(as_json=as_json)


@app.command()
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what is there.")] = False,
) -> None:
    """Remove all that carries tare's mark: processes, namespaces, links, mounts, cgroups, containers."""
    from tare.commands import show_clean

    show_clean(dry_run=dry_run)


@lab_app.command("up")
def lab_up(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 2,
    nics: Annotated[int, typer.Option(min=1, help="Data NICs a node.")] = 1,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores a node.", show_default=False)] = None,
    link_rate: Annotated[str, typer.Option(help="Link rate, as 10Gbit.", show_default=False)] = "",
    segmented: Annotated[bool, typer.Option("--segmented", help="The wire carries MTU-sized frames.")] = False,
    docker: Annotated[bool, typer.Option("--docker", help="A Docker daemon a node, joined in a Swarm.")] = False,
    subnets: Annotated[int, typer.Option(min=1, max=2, help="Data subnets, with a router between them.")] = 1,
    name: Annotated[str, typer.Option(help="The lab's name.")] = "lab",
) -> None:
    """Make a lab that stays until `tare lab down`."""
    from tare.lab_commands import lab_up as go

    go(
        name,
        nodes=nodes,
        nics=nics,
        cores=cores,
        link_rate=link_rate,
        segmented=segmented,
        docker=docker,
        subnets=subnets,
    )


@lab_app.command("status")
def lab_status() -> None:
    """List the labs that are up, with their nodes."""
    from tare.lab_commands import lab_status as go

    go()


@lab_app.command("exec", context_settings={"allow_interspersed_args": False})
def lab_exec(
    node: Annotated[str, typer.Argument(help="A node, as n0.", show_default=False)],
    command: Annotated[list[str], typer.Argument(help="The command, after --.", show_default=False)],
    name: Annotated[str, typer.Option(help="The lab's name.")] = "lab",
) -> None:
    """Run a command on a node of a lab."""
    from tare.lab_commands import lab_exec as go

    go(name, node, command)


@lab_app.command("down")
def lab_down(name: Annotated[str, typer.Option(help="The lab's name.")] = "lab") -> None:
    """Remove a lab."""
    from tare.lab_commands import lab_down as go

    go(name)


@network_app.command("list")
def network_list() -> None:
    """List every network: whether it can be used here, what is the product itself, and what it needs."""
    from tare.network_commands import network_list as go

    go()


@network_app.command("up")
def network_up(
    network: Annotated[str, typer.Argument(help="A network, or cni:PATH.", show_default=False)],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes, with a pod each.")] = 2,
    runtime: Annotated[str, typer.Option(help="What the pods are made by.")] = "bare",
    name: Annotated[str, typer.Option(help="A lab that is up, or the name of the one to make.")] = "net",
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until Ctrl-C, and take it down.")] = False,
) -> None:
    """Wire a pod on each node of a lab, and leave it up until `tare network down`."""
    from tare.network_commands import Wanted
    from tare.network_commands import network_up as go

    raise typer.Exit(go(Wanted(network=network, runtime=runtime, nodes=nodes, name=name, foreground=foreground)))


@network_app.command("exec", context_settings={"allow_interspersed_args": False})
def network_exec(
    node: Annotated[str, typer.Argument(help="A node, as n0.", show_default=False)],
    command: Annotated[list[str], typer.Argument(help="The command, after --.", show_default=False)],
    name: Annotated[str, typer.Option(help="The lab's name.")] = "net",
) -> None:
    """Run a command in the pod on a node."""
    from tare.network_commands import network_exec as go

    go(name, node, command)


@network_app.command("down")
def network_down(name: Annotated[str, typer.Option(help="The lab's name.")] = "net") -> None:
    """Take a network down, with the lab that was made for it."""
    from tare.network_commands import network_down as go

    go(name)


@image_app.command("list")
def image_list() -> None:
    """List the images of the cache: digest, size, when they were used, and in which formats they are there."""
    from tare.image_commands import image_list as go

    go()


@image_app.command("build")
def image_build(
    recipe: Annotated[list[str] | None, typer.Argument(help="Recipes [debian-openmpi].", show_default=False)] = None,
) -> None:
    """Build images from their recipes, unless they are in the cache."""
    from tare.image_commands import image_build as go

    go(recipe or [])


@image_app.command("convert")
def image_convert(
    name: Annotated[str, typer.Argument(help="A recipe, or ./PATH of an image of yours.", show_default=False)],
    to: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="oci, docker-archive, sif, squashfs, directory (sandbox), charliecloud, podman.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Argument(help="Where to [the cache; podman: its storage].", show_default=False)
    ] = None,
) -> None:
    """Convert an image to what a runtime starts from."""
    from tare.image_commands import image_convert as go

    go(name, to, out)


@image_app.command("recipe")
def image_recipe(
    base: Annotated[str, typer.Option(help="The image to begin with.")] = "debian:12",
    mpi: Annotated[str, typer.Option(help="openmpi, mpich.")] = "openmpi",
    ucx: Annotated[bool, typer.Option("--ucx/--no-ucx", help="With UCX.")] = True,
    rdma_core: Annotated[bool, typer.Option("--rdma-core/--no-rdma-core", help="With rdma-core.")] = True,
    form: Annotated[str, typer.Option("--format", help="docker, singularity.")] = "docker",
) -> None:
    """Print the recipe of an image for a real cluster, as a Dockerfile or a Singularity definition."""
    from tare.images.clusters import ClusterRecipe, recipe_text

    typer.echo(recipe_text(ClusterRecipe(base=base, mpi=mpi, ucx=ucx, rdma_core=rdma_core), form), nl=False)


@image_app.command("prune")
def image_prune(
    limit: Annotated[
        str, typer.Option(help="Size of the cache [$TARE_CACHE_LIMIT, or 20GB].", show_default=False)
    ] = "",
    unused_days: Annotated[float, typer.Option(min=0, help="Remove what was not used for so many days.")] = 60.0,
) -> None:
    """Remove from the cache what was not used for long, then the least recently used until it is within its limit."""
    from tare.image_commands import image_prune as go

    go(limit, unused_days)


def main() -> None:
    """Run the command line; every error of ours becomes one sentence and its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        status = app(standalone_mode=False)  # an Exit is returned as its code, and so is an interrupt
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt  # to be told below
    except TareError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted: everything is taken down; the same command goes on where it stopped")
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        _end_with(error)
    else:
        sys.exit(status if isinstance(status, int) else EXIT_DONE)


def _end_with(error: Exception) -> None:
    """Tell typer's own usage errors; let what we did not foresee be seen whole where asked for."""
    show = getattr(error, "format_message", None)
    if show is not None:
        if message := show():  # empty where the help was shown instead
            _say(message)
        sys.exit(UsageError.exit_code)
    if os.environ.get("TARE_DEBUG"):
        raise error
    _say(f"internal error: {type(error).__name__}: {error}\n  TARE_DEBUG=1 shows where; please report it")
    sys.exit(TareError.exit_code)


def _interrupt(number: int, frame: object) -> None:
    del frame
    raise KeyboardInterrupt(signal.Signals(number).name)


def _say(message: str) -> None:
    print(f"tare: {printable(message, lines=True)}", file=sys.stderr)


if __name__ == "__main__":
    main()
