"""Define the commands: each is a short function that passes its options to a module of `tare.cli`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tare import __version__
from tare.cli import options
from tare.cli.afterwards import of_results
from tare.cli.afterwards.options import ClaimsOptions, CompareOptions, ExplainOptions, HistoryOptions
from tare.cli.groups import image_app, lab_app, network_app
from tare.cli.options import command
from tare.cli.usage import given_command, usage_error, worded
from tare.errors import EXIT_DONE, EXIT_INTERRUPTED, TareError, UsageError
from tare.model.text import printable
from tare.system.signals import end_as_interrupt

app = typer.Typer(
    name="tare",
    help="Measure what containers cost MPI programs.\n\nBegin with `tare doctor`, then `tare quick -- ./app`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich takes longer than all the rest of `tare --help`
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(lab_app, name="lab")
app.add_typer(network_app, name="network")
app.add_typer(image_app, name="image")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Handle the options that come before a command."""
    if show:
        typer.echo(f"tare {__version__}")
        raise typer.Exit(EXIT_DONE)


@app.command()
def plan(
    study: options.StudyFile,
    cluster: options.ClusterOption = None,
    hosts: options.HostsOption = "",
    ssh_config: options.SshConfigOption = "",
    launcher: options.LauncherOption = "",
    thin: options.ThinOption = False,
) -> None:
    """Show what a study would run, how long it takes, what it may do."""
    from tare.cli.commands import Where, show_plan

    raise typer.Exit(show_plan(study, Where.of(cluster, hosts, ssh_config, launcher, thin=thin)))


@app.command()
def run(  # noqa: PLR0913, PLR0917 - as many as there are options
    study: options.StudyFile,
    results: options.ResultsOption = None,
    fresh: options.FreshOption = False,
    cluster: options.ClusterOption = None,
    hosts: options.HostsOption = "",
    ssh_config: options.SshConfigOption = "",
    launcher: options.LauncherOption = "",
    rounds: options.RoundsOption = 0,
    at_most: options.AtMostOption = 0,
    live: options.LiveOption = False,
    quiet: options.QuietOption = False,
    thin: options.ThinOption = False,
) -> None:
    """Run or resume a study, print its tables, write its report."""
    from tare.cli.commands import Where, run_study

    where = Where.of(cluster, hosts, ssh_config, launcher, rounds, thin=thin)
    raise typer.Exit(run_study(study, results, where, fresh=fresh, most_rounds=at_most or None, live=live, quiet=quiet))


@command(app, options.SubmitOptions)
def submit(asked: options.SubmitOptions) -> int:
    """Submit a study to a batch system.

    It gets several allocations of nodes, and runs one round of the study in each.
    """
    from tare.cli.submit import submit_study

    return submit_study(asked)


@command(app, options.ReportOptions)
def report(asked: options.ReportOptions) -> int:
    """Print results again, or write them as HTML or for other tools."""
    from tare.cli.afterwards.export_command import report_results

    return report_results(asked)


command(app, ExplainOptions)(of_results.explain)
command(app, CompareOptions)(of_results.compare)
command(app, HistoryOptions)(of_results.history)
command(app, ClaimsOptions)(of_results.claims)


@app.command(context_settings={"allow_interspersed_args": False})
def check(
    command: options.Command,
    time_limit: Annotated[float, typer.Option(min=3, help="Seconds after which the check is ended.")] = 60.0,
    folder: Annotated[
        str, typer.Option(help="A folder that every node sees, for the probe; your home has one otherwise.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    show_line: Annotated[bool, typer.Option("--print", help="Print the line with the probe in it, and end.")] = False,
) -> None:
    """Say whether a job is set up right, in its own launch line."""
    from tare.cli.check.command import run_check

    limit_s = time_limit
    raise typer.Exit(run_check(command, time_limit_s=limit_s, folder=folder, as_json=as_json, show_line=show_line))


@app.command(context_settings={"allow_interspersed_args": False})
def quick(  # noqa: PLR0913, PLR0917 - as many as there are options
    command: options.Command,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds: launches of the program in each environment; 6 or more for a verdict.")
    ] = 10,
    ranks: options.RanksPerNodeOption = None,
    nodes: options.NodesOption = None,
    containers_per_node: options.ContainersOption = 1,
    threads_per_rank: options.ThreadsOption = 1,
    environments: options.EnvironmentsOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Compare every runtime in every network available here.")
    ] = False,
    mpi: options.MpiOption = "",
    transport: options.TransportOption = "",
    image: options.ImageOption = "",
    bind: options.BindOption = None,
    env: options.EnvOption = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let the program write to the current folder; otherwise it is read-only.")
    ] = False,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds after which a launch is ended as failed.")] = 600.0,
    cluster: options.ClusterOption = None,
    hosts: options.HostsOption = "",
    ssh_config: options.SshConfigOption = "",
    results: options.ResultsOption = None,
    fresh: options.FreshOption = False,
    live: options.LiveOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Compare your own program in environments, without a study file."""
    from tare.cli.commands import Where
    from tare.cli.quick import QuickOptions, run_quick

    wanted = QuickOptions(
        command=tuple(command),
        rounds=rounds,
        ranks=ranks,
        nodes=nodes,
        containers_per_node=containers_per_node,
        threads_per_rank=threads_per_rank,
        environments=environments,
        every=every,
        mpi=mpi,
        transport=transport,
        image=image,
        binds=tuple(bind or ()),
        env=tuple(env or ()),
        writable=writable,
        time_limit_s=time_limit,
        where=Where.of(cluster, hosts, ssh_config),
        live=live,
        quiet=quiet,
    )
    raise typer.Exit(run_quick(wanted, results, fresh=fresh))


@command(app, options.LaunchOptions, context_settings={"allow_interspersed_args": False})
def launch(asked: options.LaunchOptions) -> int:
    """Run an MPI program in an environment, in the foreground.

    Exit codes are those of docker run. The program may write to the current folder, as
    under mpirun; under `tare quick` only with --writable.
    """
    from tare.cli.launch_command import run_launch

    return run_launch(asked)


@command(app, options.DoctorOptions, context_settings={"allow_interspersed_args": False})
def doctor(asked: options.DoctorOptions) -> int:
    """Show what can run here, what is missing, how to install it.

    The last lines say whether the machine is quiet.
    """
    from tare.cli.doctor.command import About, run_doctor

    listed = tuple(filter(None, map(str.strip, asked.hosts.split(","))))
    about = About(cluster=asked.cluster, hosts=listed, ssh_config=asked.ssh_config, every=asked.every)
    return run_doctor(asked.command or [], about, locality=asked.locality, noise=asked.noise, as_json=asked.as_json)


@app.command()
def workloads(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with every detail.")] = False,
) -> None:
    """List workloads, what each measures, whether it is available."""
    from tare.cli.workload_commands import show_workloads

    show_workloads(as_json=as_json)


@app.command()
def bundle(
    file: Annotated[Path, typer.Argument(help="The file to write, such as tare.pyz.", show_default=False)],
    image: options.BundledImagesOption = None,
    python: options.BundledPythonsOption = None,
) -> None:
    """Write one file that installs tare without a network.

    On the other machine `python3 FILE FOLDER` installs it, with the images in the file.
    """
    from tare.cli.bundle.command import write_bundle

    write_bundle(file, image or [], python or [])


@app.command()
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed.")] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host of a killed run that is gone for good: do not ask it; repeatable."),
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="Also end studies and networks that are running.")] = False,
) -> None:
    """Remove what tare left behind, but nothing that is running.

    That is: processes, namespaces, links, mounts, cgroups and containers.
    """
    from tare.cli.commands import show_clean

    if dry_run and forget:
        raise UsageError("--forget changes what --dry-run only lists", remedy="leave one of them out")
    raise typer.Exit(show_clean(dry_run=dry_run, running=running, forget=forget or ()))


def main() -> None:
    """Run the command line; each of tare's errors becomes one sentence and an exit code."""
    end_as_interrupt()
    try:
        status = app(prog_name="tare", standalone_mode=False)  # an Exit is returned as its code, and so is an interrupt
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt  # reported below
    except TareError as error:
        _say(worded(str(error), given_command()))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted: cleaned up; run the same command to resume")
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        _end_with(error)
    else:
        sys.exit(status if isinstance(status, int) else EXIT_DONE)


def _end_with(error: Exception) -> None:
    """Report typer's usage errors, a failed undo after an interrupt, and unexpected errors (TARE_DEBUG: where)."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(format_message())
        else:
            _say(str(usage_error(format_message(), getattr(error, "ctx", None))))
        sys.exit(UsageError.exit_code)
    if os.environ.get("TARE_DEBUG"):
        raise error
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        _say("the Python packages of tare are on a file system mounted noexec\n  install tare in another folder")
        sys.exit(TareError.exit_code)
    if not os.path.exists("/proc/self/stat"):
        _say("/proc is not mounted here, where tare reads processes, mounts and counters\n  mount -t proc proc /proc")
        sys.exit(TareError.exit_code)
    what = f"{type(error).__name__}: {error}"
    if _is_interrupted(error):
        _say(f"interrupted; undoing it failed with {what}\n  `tare clean` removes what is left")
        sys.exit(EXIT_INTERRUPTED)
    _say(f"internal error: {what}\n  TARE_DEBUG=1 shows where; please report it")
    sys.exit(TareError.exit_code)


def _is_interrupted(error: BaseException) -> bool:
    """Return whether an error occurred while an interrupt was handled."""
    context = error.__context__
    return context is not None and (isinstance(context, KeyboardInterrupt) or _is_interrupted(context))


def _say(message: str) -> None:
    print(f"tare: {printable(message, lines=True)}", file=sys.stderr)


if __name__ == "__main__":
    main()
