"""What the commands do, in the order of a study: plan, run, report, clean."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tare import clean, located, preflight, session, study, study_files
from tare.errors import RefusedError, UsageError
from tare.known import registered
from tare.located import is_shown, shown_folder
from tare.model import Cell, Completed, Plan, Study, Trial
from tare.plan import available, estimate_s, estimate_trial_s
from tare.report import render, render_html
from tare.store import Results, Store, read_only
from tare.study_files import StudyFiles
from tare.user_namespace import become_root

RESULTS_FOLDER = Path("results")


def show_plan(path: Path) -> None:
    """Print the plan of a study file."""
    print(plan_text(session.make_plan(study.load(path, known=registered()), _say)))


def run_study(path: Path, results: Path | None, *, fresh: bool) -> int:
    """Run a study file and return the exit code of its results."""
    return run_plan(study.load(path, known=registered()), results, fresh=fresh)


def run_plan(
    stated: Study, results: Path | None, *, fresh: bool = False, shown: tuple[str, ...] = (), writable: str = ""
) -> int:
    """Run a study, print its tables, write its HTML report, and return the exit code of its results.

    `shown` are folders that the pods see, read-only but for `writable`, in which commands then work.
    """
    plan = session.make_plan(stated, _say)
    _need_a_cell(plan)
    programs = _programs(plan)
    folders = [str(file.parent) for file in programs.values() if not located.is_of_system(file)]
    others = {cell.workload for cell in available(plan) if is_shown(cell.workload)}
    folders += sorted(map(shown_folder, others))
    for place in folders:
        located.check_can_be_shown(place, "the program's folder")
    files = study_files.make_files(plan, _say, tuple(dict.fromkeys((*shown, *folders))))
    if writable:
        files = replace(files, made={key: replace(each, cwd=writable) for key, each in files.made.items()})
    if stated.cluster == "lab":
        become_root()  # what was to be built is built by now: as root of a user namespace it could not be
    for name, file in programs.items():
        images = () if located.is_of_system(file) else tuple(study_files.images_of(plan, files, name))
        study_files.check_program(str(file), images)
    plan = _fitting(plan, files)
    folder = results or RESULTS_FOLDER / stated.name
    with Store.create_or_open(folder, plan, session.facts(plan, files), fresh=fresh) as store:
        _tell_resumed(store)
        _tell_others()
        session.execute(plan, store, files, Progress(plan))
        return _report(store, folder / "report.html")


def _programs(plan: Plan) -> dict[str, Path]:
    """Return the files of the commands that cells start, by name; some may be in images only.

    Raises `RefusedError` for one that cells without an image need and this machine does not have.
    """
    found = {}
    for name, images_only in sorted(located.commands_of(available(plan)).items()):
        file = located.command_file(name)
        if file is not None:
            located.check_executable(file)
            found[name] = file
        elif not images_only:
            raise located.no_such_program(name)
    return found


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


def show_report(folder: Path, html: Path | None) -> int:
    """Print the report of a results folder, and write its HTML where asked."""
    return _report(read_only(folder), html)


def show_clean(*, dry_run: bool) -> None:
    """Remove all that carries our mark, or only list it."""
    found = clean.find() if dry_run else clean.remove()
    for item in found:
        print(f"{'would remove' if dry_run else 'removed'} {item.what}")
    if not found:
        print("nothing of tare's is here")


def plan_text(plan: Plan) -> str:
    """Return a plan as text: cells, trials, time, and what cannot run."""
    repeat = plan.study.repetition
    cells = available(plan)
    trials = len(cells) * repeat.rounds * repeat.blocks_per_round
    duration = _duration(estimate_s(plan))
    rounds = f"{repeat.rounds} rounds x {repeat.blocks_per_round} block(s), up to {repeat.max_rounds} rounds"
    lines = [
        f"study {plan.study.name}: {len(plan.cells)} cells, {len(cells)} can run here",
        f"{rounds}: {trials} trials, about {duration}",
        "",
        *(f"  {'-' if cell.key in plan.unavailable else '+'} {cell.key}{_why(plan, cell)}" for cell in plan.cells),
    ]
    return "\n".join(lines)


class Progress:
    """Tell on stderr how a run goes on: one line that is rewritten on a terminal, else a line a round."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._started = time.monotonic()
        self._first: int | None = None
        self._live = sys.stderr.isatty()
        self._round = 0

    def round_started(self, number: int, attempt: int) -> None:
        """Note a new round."""
        self._round = number
        if not self._live:
            _say(f"round {number + 1}{f', attempt {attempt + 1}' if attempt else ''}: making pods")

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Show how far it is, and say at once what went wrong."""
        if self._first is None:
            self._first = done - 1
        if not isinstance(trial.outcome, Completed):
            reason = getattr(trial.outcome, "reason", "")
            self._line(f"{type(trial.outcome).__name__}: {trial.key.cell}, round {trial.key.round + 1}: {reason}\n")
        each = (time.monotonic() - self._started) / max(1, done - self._first)
        left = f"{done} of {total} trials, about {_duration(each * max(0, total - done))} left"
        if self._live:
            self._line(f"round {self._round + 1}: {left}   ")
            if done >= total:
                self._line("\n")
        elif done % len(available(self._plan)) == 0:
            _say(left)

    def _line(self, text: str) -> None:
        print(f"\r{text}" if self._live else text.rstrip("\n"), end="" if self._live else "\n", file=sys.stderr)
        sys.stderr.flush()


def _report(results: Results, html: Path | None) -> int:
    summary = session.summary_of(results)
    Console().print(render(summary))
    if html is not None:
        text = render_html(summary, results.trials, results)
        try:
            html.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"the report cannot be written to {html}: {error.strerror}") from error
        print(f"report: {html}")
    return summary.exit_code


def _tell_resumed(store: Store) -> None:
    if store.trials:
        broken = f", {store.interrupted} interrupted block(s) are run again" if store.interrupted else ""
        torn = f", {store.truncated} torn line(s) were set aside" if store.truncated else ""
        _say(f"going on in {store.path}: {len(store.trials)} trials are there{broken}{torn}")


def _why(plan: Plan, cell: Cell) -> str:
    """Return why a cell cannot run, or that it may not end in time."""
    if cell.key in plan.unavailable:
        return f"  (unavailable: {plan.unavailable[cell.key]})"
    expected_s, limit_s = estimate_trial_s(cell), cell.workload.time_limit_s
    if expected_s <= limit_s:
        return ""
    return f"  (about {_duration(expected_s)}, and its time limit is {_duration(limit_s)}: raise time_limit)"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
