"""Submit a study to a batch system: `tare submit`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tare.cli.batch import SYSTEMS, BatchJob, BatchSystem
from tare.cli.batch.waiting import Waiting
from tare.cli.commands import Where
from tare.cli.options import SubmitOptions
from tare.cli.output import say, writing
from tare.cli.session import RESULTS_FOLDER
from tare.clusters import CLUSTERS
from tare.errors import CommandFailed, InfrastructureError, MissingTool, UsageError
from tare.model import SlurmSpec, Study
from tare.model.quantities import parse_duration
from tare.model.text import counted
from tare.run.progress import duration
from tare.study.messages import unknown
from tare.study.plan.cells import estimate_s, expand
from tare.system.process import find, run
from tare.system.safe_files import check_only_root_changes, folder_at, replacing

START_S: Final = 300.0
"""What a job may need before its first round, for instance to build an image or to copy it."""
FACTOR: Final = 2.0
"""How much longer than estimated a share of the rounds may take before its time limit ends it."""
LIMIT_S: Final = 60.0


def submit_study(wanted: SubmitOptions) -> int:
    """Write the batch script of a study and submit it; with `wait`, return the exit code of the study's report."""
    time_s, told_s = seconds("--time", wanted.time), seconds("--pending", wanted.pending)
    system = system_of(wanted.system)
    cluster = wanted.system if wanted.system in CLUSTERS else next(n for n, c in CLUSTERS.items() if c.takes_hosts)
    stated = Where(cluster=cluster, launcher=wanted.launcher).load(wanted.study, wanted.allocations)
    job = job_of(stated, wanted, cluster, time_s)
    if wanted.dry_run:
        print(system.script(job), end="")
        return 0
    if find(system.program) is None:
        raise MissingTool(
            f"{system.program} is not in PATH, so nothing can be submitted to {system.name}",
            remedy="run this on a login node, or load the site's module for its batch system",
        )
    number = submitted(system, job)
    once = f"{job.allocations} allocations, one round each" if job.allocations > 1 else "one allocation"
    nodes = counted(job.nodes, "node")
    print(f"submitted {job.name} as job {number}: {once}, at most {duration(job.time_s)} each on {nodes}")
    print(f"results: {job.results}   logs: {job.folder}")
    if not wanted.wait:
        return 0
    Waiting(system=system, number=number, told_s=told_s, say=lambda text: say(f"tare: {text}")).to_the_end()
    return reported(job)


def seconds(option: str, text: str) -> float:
    """Return the seconds of an option that takes a duration, 0 for ""."""
    try:
        return parse_duration(text) if text else 0.0
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def system_of(name: str) -> BatchSystem:
    """Return a batch system by its name."""
    if name not in SYSTEMS:
        raise UsageError(unknown("batch system", name, tuple(SYSTEMS)))
    return SYSTEMS[name]


def job_of(stated: Study, wanted: SubmitOptions, cluster: str, time_s: float) -> BatchJob:
    """Return the job that runs a study: each of its allocations does one round, where there are several."""
    given = {name: getattr(wanted, name) for name in ("partition", "account", "qos", "constraint")}
    asked = SlurmSpec(**given, time_s=time_s)
    site = replace(stated.lab.slurm, **{name: value for name, value in asdict(asked).items() if value})
    for value in given.values():
        if any(each.isspace() for each in value):
            raise UsageError(f"{value!r} has blanks, which a batch script's options must not have")
    results = (wanted.results or RESULTS_FOLDER / stated.name).absolute()
    command = (
        sys.executable, "-m", "tare.cli.app", "run", str(wanted.study.absolute()), "--cluster", cluster,
        "--results", str(results), "--rounds", str(wanted.allocations),
        *(("--at-most", "1") if system_of(wanted.system).has_arrays else ()),
        *(("--launcher", wanted.launcher) if wanted.launcher else ()),
    )  # fmt: skip
    return BatchJob(
        name=stated.name,
        nodes=max(placement.nodes for placement in stated.placements),
        time_s=site.time_s or estimated_s(stated),
        allocations=wanted.allocations,
        command=command,
        folder=results.with_name(f"{results.name}.job"),
        results=results,
        workdir=Path.cwd(),
        asked=site,
    )


def estimated_s(stated: Study) -> float:
    """Return the time limit of an allocation that does one round, from the estimate that `tare plan` prints."""
    whole_s = estimate_s(expand(stated, lambda *_: None))
    return START_S + FACTOR * whole_s / max(1, stated.repetition.rounds)


def submitted(system: BatchSystem, job: BatchJob) -> str:
    """Write a job's script and submit it; return the job's number."""
    script = job.folder / "job.sh"
    with writing("the job", job.folder, "folder with -o"):
        check_only_root_changes(job.folder, "job")
        with folder_at(job.folder, make=True) as folder, replacing(folder, script.name) as file:
            os.fchmod(file.fileno(), 0o755)
            file.write(system.script(job).encode())
    try:
        printed = run(system.submit(script), timeout_s=LIMIT_S, what=system.program).stdout
    except CommandFailed as error:
        lines = [line for line in error.stderr_tail.splitlines() if line.strip()] or ["no reason was given"]
        raise UsageError(
            f"{system.name} refuses the job: {system.refused(lines)}",
            remedy=f"the script is {script}; `tare submit --help` lists the options that change it",
        ) from error
    number = system.number(printed)
    if not number:
        raise InfrastructureError(f"{system.program} printed no job number: {printed.strip()[:200]!r}")
    return number


def reported(job: BatchJob) -> int:
    """Print the report of a job's results and return its exit code."""
    from tare.cli.commands import show_report

    if not job.results.exists():
        raise InfrastructureError(f"the job left no results in {job.results}", remedy=f"read the logs in {job.folder}")
    return show_report(job.results, None)
