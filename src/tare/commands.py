"""What the commands do, in the order of a study: plan, run, report, clean."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tare import clean, grants, preflight, session, study, study_files
from tare.errors import RefusedError, UsageError
from tare.known import registered
from tare.lab_commands import without_dashes
from tare.located import is_shown, shown_folder
from tare.model import Cell, Plan, Study
from tare.plan import available, estimate_s, estimate_trial_s
from tare.progress import Progress, duration
from tare.report import render, render_html
from tare.safe_files import write_whole
from tare.store import Results, Store, read_only
from tare.study_files import StudyFiles
from tare.text import printable
from tare.user_namespace import become_root

RESULTS_FOLDER = Path("results")


def show_plan(path: Path) -> None:
    """Print the plan of a study file."""
    stated = study.load(path, known=registered())
    text = f"{plan_text(session.make_plan(stated, _say))}\n\n{grants.in_words(grants.grants(stated))}"
    print(printable(text, lines=True))


def run_study(path: Path, results: Path | None, *, fresh: bool) -> int:
    """Run a study file and return the exit code of its results."""
    return run_plan(study.load(path, known=registered()), results, fresh=fresh)


def run_plan(stated: Study, results: Path | None, *, fresh: bool = False, shown: tuple[str, ...] = ()) -> int:
    """Run a study, print its tables, write its HTML report, and return the exit code of its results."""
    plan = session.make_plan(stated, _say)
    _need_a_cell(plan)
    commands = {cell.workload.command[0] for cell in available(plan) if cell.workload.command}
    programs = sorted(commands - _in_images_only(plan))
    folders = [str(_program(name).parent) for name in programs]
    others = {cell.workload for cell in available(plan) if is_shown(cell.workload)}
    folders += sorted(map(shown_folder, others))
    files = study_files.make_files(plan, _say, tuple(dict.fromkeys((*shown, *folders))))
    if stated.cluster == "lab":
        become_root()  # what was to be built is built by now: as root of a user namespace it could not be
    for name in programs:
        study_files.check_program(name, tuple(study_files.images_of(plan, files, name)))
    plan = _fitting(plan, files)
    folder = results or RESULTS_FOLDER / stated.name
    with Store.create_or_open(folder, plan, session.facts(plan, files), fresh=fresh) as store:
        _tell_resumed(store)
        _tell_others()
        with Progress(plan) as progress:
            session.execute(plan, store, files, progress, _say)
        return _report(store, folder / "report.html", write_whole)


def _tell_others() -> None:
    """Say that another run is going on: its lab is kept apart from ours, but not its use of the machine."""
    if beside := clean.running_beside():
        numbers = ", ".join(map(str, beside))
        _say(f"tare: process {numbers} has a lab up as well: it shares this study's cores, and disturbs its figures")


def _fitting(plan: Plan, files: StudyFiles) -> Plan:
    """Return the plan without the cells whose parts turn out not to fit together; some must be left."""
    plan = preflight.fitting(plan, files)
    _need_a_cell(plan)
    return plan


def _need_a_cell(plan: Plan) -> None:
    if not available(plan):
        reasons = "\n  ".join(sorted({f"{key}: {reason}" for key, reason in plan.unavailable.items()}))
        raise RefusedError("no cell of this study can run here", remedy=reasons)


def _in_images_only(plan: Plan) -> set[str]:
    """Return the programs that are named by their path in an image, run in images only, and are not on this machine."""
    bare = {cell.workload.command[:1] for cell in available(plan) if not cell.environment.image}
    commands = {cell.workload.command[:1] for cell in available(plan)} - bare
    return {name for (name,) in filter(None, commands) if name.startswith("/") and not Path(name).exists()}


def show_report(folder: Path, html: Path | None) -> int:
    """Print the report of a results folder, and write its HTML where asked."""
    return _report(read_only(folder), html)


def run_quick(
    command: Sequence[str], *, rounds: int, ranks: int, nodes: int, time_limit_s: float, results: Path | None
) -> int:
    """Compare a program of the user's in every environment that is available."""
    command = without_dashes(command)
    program = _program(command[0])
    stated = quick_study((str(program), *command[1:]), rounds=rounds, ranks=ranks, nodes=nodes, limit_s=time_limit_s)
    shown = tuple(dict.fromkeys((str(program.parent), str(Path.cwd()))))
    return run_plan(stated, results, shown=shown)


def quick_study(command: tuple[str, ...], *, rounds: int, ranks: int, nodes: int, limit_s: float) -> Study:
    """Return the study that `tare quick` runs."""
    names = ["bare", "bare+image", "bare+bridge", "bare+dockerd"]
    names += ["docker+host", "docker+bridge", "docker+direct", "docker+macvlan"]
    names.append("docker+overlay" if nodes > 1 else "docker+docker-default")
    names += ["podman", "apptainer", "charliecloud"]
    title = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(command[0]).name)[:60]
    text = "\n".join(
        [
            f"name: quick-{title}",
            f"cluster: {{lab: {{nodes: {nodes}}}}}",
            f"environments: [{', '.join(names)}]",
            f"placements: [{{nodes: {nodes}, ranks_per_node: {ranks}}}]",
            f"workloads: {{app: {{command: [app], time_limit: {limit_s:g}s}}}}",
            f"repetition: {{rounds: {rounds}, max_rounds: {rounds}}}",
        ]
    )
    stated = study.parse(text, file="tare quick", known=registered())
    # The user's own words go in afterwards: no quoting could spoil them.
    return replace(stated, workloads=tuple(replace(workload, command=command) for workload in stated.workloads))


def show_clean(*, dry_run: bool) -> None:
    """Remove all that carries our mark, or only list it."""
    found = clean.find() if dry_run else clean.remove()
    for item in found:
        print(f"{'left' if item.stays else 'would remove' if dry_run else 'removed'} {item.what}")
    for stays in dict.fromkeys(item.stays for item in found if item.stays):
        _say(f"tare: {stays}")
    for folder in clean.unmarked():
        _say(f"tare: left alone: the cgroup {folder}, which has no mark of tare's")
    if not found:
        print("nothing of tare's is here")


def plan_text(plan: Plan) -> str:
    """Return a plan as text: cells, trials, time, and what cannot run."""
    repeat = plan.study.repetition
    cells = available(plan)
    trials = len(cells) * repeat.rounds * repeat.blocks_per_round
    takes = duration(estimate_s(plan))
    rounds = f"{repeat.rounds} rounds x {repeat.blocks_per_round} block(s), up to {repeat.max_rounds} rounds"
    lines = [
        f"study {plan.study.name}: {len(plan.cells)} cells, {len(cells)} can run here",
        f"{rounds}: {trials} trials, about {takes}",
        "",
        *(f"  {'-' if cell.key in plan.unavailable else '+'} {cell.key}{_why(plan, cell)}" for cell in plan.cells),
    ]
    return "\n".join(lines)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _report(results: Results, html: Path | None, write: Callable[[Path, str], None] = _write_text) -> int:
    """Print the tables and write the HTML report; `write` guards against links where the folder is another user's."""
    summary = session.summary_of(results)
    Console().print(render(summary))
    if html is not None:
        text = render_html(summary, results.trials, results)
        try:
            write(html, text)
        except OSError as error:
            raise UsageError(f"the report cannot be written to {html}: {error.strerror}") from error
        print(f"report: {html}")
    return summary.exit_code


def _tell_resumed(store: Store) -> None:
    if store.trials:
        broken = f", {store.interrupted} interrupted block(s) are run again" if store.interrupted else ""
        torn = f", {store.truncated} torn line(s) were set aside" if store.truncated else ""
        _say(f"going on in {store.path}: {len(store.trials)} trials are there{broken}{torn}")


def _program(name: str) -> Path:
    path = Path(name).absolute()
    if not path.is_file():
        raise RefusedError(f"{name} is not a file", remedy="name the program with its path, as ./app")
    if not os.access(path, os.X_OK):
        raise RefusedError(f"{name} is not executable", remedy=f"chmod +x {name}")
    return path


def _why(plan: Plan, cell: Cell) -> str:
    """Return why a cell cannot run, or that it may not end in time."""
    if cell.key in plan.unavailable:
        return f"  (unavailable: {plan.unavailable[cell.key]})"
    expected_s, limit_s = estimate_trial_s(cell), cell.workload.time_limit_s
    if expected_s <= limit_s:
        return ""
    return f"  (about {duration(expected_s)}, and its time limit is {duration(limit_s)}: raise time_limit)"


def _say(message: str) -> None:
    print(printable(message, lines=True), file=sys.stderr, flush=True)
