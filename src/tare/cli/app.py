"""Define the commands: each is a short function that passes its options to a module of `tare.cli`."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tare import __version__
from tare.cli import options
from tare.cli.afterwards import of_results
from tare.cli.afterwards.options import ClaimsOptions, CompareOptions, ExplainOptions, HistoryOptions, ReportOptions
from tare.cli.check.options import CheckOptions
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


@command(app, options.PlanOptions)
def plan(asked: options.PlanOptions) -> int:
    """Show what a study would run, how long it takes, what it may do."""
    from tare.cli.commands import show_plan

    return show_plan(asked)


@command(app, options.RunOptions)
def run(asked: options.RunOptions) -> int:
    """Run or resume a study, print its tables, write its report."""
    from tare.cli.commands import run_study

    return run_study(asked)


@command(app, options.SubmitOptions)
def submit(asked: options.SubmitOptions) -> int:
    """Submit a study to a batch system.

    It gets several allocations of nodes, and runs one round of the study in each.
    """
    from tare.cli.submit import submit_study

    return submit_study(asked)


@command(app, ReportOptions)
def report(asked: ReportOptions) -> int:
    """Print results again, or write them as HTML or for other tools."""
    from tare.cli.afterwards.export_command import report_results

    return report_results(asked)


command(app, ExplainOptions)(of_results.explain)
command(app, CompareOptions)(of_results.compare)
command(app, HistoryOptions)(of_results.history)
command(app, ClaimsOptions)(of_results.claims)


@command(app, CheckOptions, context_settings={"allow_interspersed_args": False})
def check(asked: CheckOptions) -> int:
    """Say whether a job is set up right, in its own launch line."""
    from tare.cli.check.command import run_check

    return run_check(asked)


@command(app, options.QuickOptions, context_settings={"allow_interspersed_args": False})
def quick(asked: options.QuickOptions) -> int:
    """Compare your own program in environments, without a study file."""
    from tare.cli.quick import run_quick

    return run_quick(asked)


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
    gc.set_threshold(100_000)  # results are many objects without cycles, for which Python would look again and again
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
