"""What the commands have in common: from a plan and its text to its files, its run and its summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.agent import clean
from tare.analysis import stats
from tare.analysis.explain.stored_costs import causes_in
from tare.analysis.summary import summarise
from tare.cli import output
from tare.clusters import CLUSTERS, Site, ssh_clean
from tare.errors import RefusedError, ResultsError
from tare.images.cache import Progress, silent
from tare.model import Cell, Plan, Study, Summary
from tare.model.text import bytes_label, counted
from tare.run import runner
from tare.run.deploy.hosts import Deployed
from tare.run.ending import Ending
from tare.run.facts import facts
from tare.run.progress import duration
from tare.run.site import deployed_alone, opened
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.deployment import Files
from tare.store.writer import Results, Store, read_only
from tare.study.feasibility import preflight, study_files
from tare.study.feasibility.availability import make_plan
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan import composition, pace, resources, unavailable_lines
from tare.study.plan.calibration import LET_WRITE
from tare.study.plan.cells import available, estimate_trial_s
from tare.system.binds import bind_of, writable
from tare.system.user_namespace import become_root
from tare.workloads import plugin_of, program_places

__all__ = [
    "check_available",
    "execute",
    "facts",
    "folder_of",
    "make_plan",
    "make_ready",
    "measured_round_s",
    "one_up",
    "plan_text",
    "summary_of",
    "too_few_rounds",
]

RESULTS_FOLDER: Final = Path("results")
THIN_FOLDER: Final = "-thin"
MOST_NAMED: Final = 3
"""Links that are named."""
NO_CELL: Final = "no environment of this study can run here"


def make_ready(
    plan: Plan,
    say: Progress = silent,
    *,
    shown: tuple[str, ...] = (),
    cwd: str = "",
    measured: bool = True,
    carried: Callable[[], Mapping[str, str]] = dict,
) -> tuple[Plan, StudyFiles]:
    """Build or find the files of a plan's pods, become root of a user namespace where needed, and check what will run.

    Returns the plan without the cells whose parts turn out not to fit together. `shown` are folders that pods see,
    `cwd` the one in which ranks work and may write; the others are read-only for all environments if some have images,
    which show them so. `carried` returns variables for the command that an ordinary user's is replaced by.
    """
    files = study_files.make_files(plan, say, shown, measured=measured)
    closed = _closed(plan, shown, cwd)
    files = replace(files, made={key: replace(each, cwd=cwd, read_only=closed) for key, each in files.made.items()})
    if CLUSTERS[plan.study.cluster].needs_root:
        become_root(carried)  # the files are built by now: as root of a user namespace they could not be
    if links := _links(plan, shown):
        say(f"tare: containers do not see where these links lead: {links}; show it with --bind, in a study binds")
    if not cwd and (folders := ", ".join(without_programs(plan, closed))):
        where = "in containers" if CLUSTERS[plan.study.cluster].is_real else "in any environment"
        say(f"tare: {folders}: read-only {where}. If the program writes there, {LET_WRITE}")
    unseen = _undivided(plan, (*shown, *([cwd] if cwd else [])))
    return preflight.fitting(replace(plan, unavailable={**plan.unavailable, **unseen}), files), files


def _links(plan: Plan, shown: Iterable[str]) -> str:
    """Return the links of folders that lead to what pods with an image do not see, in words; "" if there are none."""
    environments = [cell.environment for cell in available(plan) if cell.environment.image]
    bound = [bind_of(text).source for each in environments for text in each.binds]
    links = list(program_places.links_out_of((*shown, *bound))) if environments else []
    names = ", ".join(f"{link} (to {target})" for link, target in links[:MOST_NAMED])
    return f"{names} and {len(links) - MOST_NAMED} more" if len(links) > MOST_NAMED else names


def _undivided(plan: Plan, shown: Iterable[str]) -> dict[str, str]:
    """Return the cells whose runtime cannot be told of a folder, as its options divide at a character of the path."""
    found, folders = {}, tuple(shown)
    for cell in available(plan):
        environment = cell.environment
        bound = [path for each in map(bind_of, environment.binds) for path in (each.source, each.target)]
        for character in RUNTIMES[environment.runtime].separators if environment.image else "":
            if path := next((path for path in (*folders, *bound) if character in path), ""):
                found[cell.key] = (
                    f"{environment.runtime} cannot show {path}, because its options divide at {character!r}: use a "
                    "folder without it"
                )
    return found


def _closed(plan: Plan, shown: Iterable[str], cwd: str) -> tuple[str, ...]:
    """Return which of the folders that images show read-only are so for all environments: none without images."""
    environments = [cell.environment for cell in available(plan)]
    opened = [Path(path) for each in environments for path in writable(each.binds)]
    others = [place for place in shown if place != cwd and not any(map(Path(place).is_relative_to, opened))]
    return tuple(others) if any(each.image for each in environments) else ()


def without_programs(plan: Plan, folders: Iterable[str]) -> list[str]:
    """Return folders without those of third-party programs, in which users' programs have nothing to write."""
    programs = {program_places.shown_folder(each) for each in plan.study.workloads if program_places.is_shown(each)}
    return [folder for folder in folders if folder not in programs]


def check_available(plan: Plan) -> None:
    """Raise `RefusedError` with the reasons if no cell of a plan can run; of one cell, it is the message."""
    if len(plan.cells) == 1 and plan.unavailable:
        raise RefusedError(next(iter(plan.unavailable.values())))
    if not available(plan):
        raise RefusedError(NO_CELL, remedy="\n  ".join(unavailable_lines.in_lines(plan)))


@contextmanager
def one_up(
    plan: Plan, files: Files, *, name: str, say: Progress = silent, site: Site | None = None
) -> Iterator[tuple[Site, Cell, Deployed]]:
    """Keep the environment of a plan's only cell up, on a site that is up already or on its own.

    What earlier, killed runs left behind is removed first. `say` hears what the site is left with at the end.
    """
    clean.leftovers_of_the_dead(output.say)
    (cell,) = available(plan)
    with ExitStack() as stack:
        if site is None:
            site = stack.enter_context(opened(plan, [files], name=name, say=say))
        yield site, cell, stack.enter_context(deployed_alone(site, cell, files))


def execute(
    plan: Plan,
    store: Store,
    files: StudyFiles,
    watcher: runner.Watcher,
    say: Progress = silent,
    *,
    most_rounds: int | None = None,
) -> Ending:
    """Run what is still to run of a plan, at most so many rounds; return how the run ended.

    What an earlier, killed run left behind is removed first.
    """
    killed = ssh_clean.killed_runs()
    answers = ssh_clean.ask_hosts(killed)
    for answer in answers:
        if answer.unverified:
            say(f"tare: {answer}")
    clean.leftovers_of_the_dead(say)
    ssh_clean.keep_unverified(killed, answers)
    with runner.running(plan, store, files, watcher, name=clean.free_name(f"s{os.getpid()}"), say=say) as run:
        return run.blocks(most_rounds)


def summary_of(results: Results, folder: Path | None = None) -> Summary:
    """Return the summary of a results folder, computed anew; with `folder` also the causes of its costs."""
    summary = summarise(results.plan, results.trials, results.facts, results.looks, results.caveats)
    return summary if folder is None else replace(summary, causes=causes_in(results, summary))


def plan_text(plan: Plan, round_s: float | None = None) -> str:
    """Return a plan as text: cells, trials, time, and what cannot run; `round_s` is the time of a round if measured."""
    repeat = plan.study.repetition
    cells = available(plan)
    trials = len(cells) * repeat.rounds * repeat.blocks_per_round
    rounds = counted(repeat.rounds, "round")
    rounds += f" x {repeat.blocks_per_round} blocks" if repeat.blocks_per_round > 1 else ""
    rounds += f", up to {repeat.max_rounds}" if repeat.max_rounds > repeat.rounds else ""
    dividing = [cell.workload for cell in cells if plugin_of(cell.workload).takes_turns(cell.workload)]
    if repeat.turns > 1 and dividing:
        in_turns = CLUSTERS[plan.study.cluster].takes_turns(plan.study.lab)
        alone = "launches one after the other (pods take no turns)"
        told = f"kernels in {repeat.turns} turns"
        if not all(each.kernels for each in dividing):
            told = f"what divides its work in {repeat.turns} turns"
        rounds += f", {told if in_turns else alone}"
    lines = [
        f"study {plan.study.name}: {len(plan.cells)} cells, {len(cells)} can run here",
        f"{rounds}: {trials:,} launch{'' if trials == 1 else 'es'}, {_takes(plan, round_s)}",
        _resources(plan, round_s),
        "",
        "Cells, each a workload / nodes x ranks on each / an environment (+ can run here, - cannot):",
        *(f"  + {cell.key}{_note(plan, cell)}" for cell in cells),
        *(f"  - {line}" for line in unavailable_lines.in_lines(plan)),
    ]
    return "\n".join(lines)


def too_few_rounds(stated: Study) -> str:
    """Return that a study has too few rounds for a verdict, "" if it has enough or decides nothing anyway."""
    most = stated.repetition.max_rounds
    if stated.thin or most >= stats.MIN_ROUNDS:
        return ""
    return (
        f"{most} round{'s' * (most != 1)} can decide nothing: a verdict needs {stats.MIN_ROUNDS} or more; "
        f"set rounds: {stats.MIN_ROUNDS} in the study, or run it with --rounds {stats.MIN_ROUNDS}"
    )


def folder_of(stated: Study) -> Path:
    """Return the folder for a study's results where none is named."""
    return RESULTS_FOLDER / (f"{stated.name}{THIN_FOLDER}" if stated.thin else stated.name)


def measured_round_s(plan: Plan) -> float | None:
    """Return how long a round of a plan took in the study's own results, None without any that are like it."""
    try:
        results = read_only(folder_of(plan.study), skip_damaged=True)
        alike = results.plan.digest == plan.digest and available(results.plan) == available(plan)
        return pace.round_s(results.trials) if alike else None
    except ResultsError:
        return None


def _takes(plan: Plan, round_s: float | None) -> str:
    """Return about how long a plan takes, by a round that was measured or by what is known of its workloads."""
    about = f"about {duration(pace.estimated_s(plan, round_s))}"
    if round_s is not None:
        return f"{about}, by the rounds in {folder_of(plan.study)}"
    launches = [f"{count} launches of {name}" for name, count in pace.unknown(plan).items()]
    return f"{about} and the time of {', '.join(launches)}" if launches else about


def _resources(plan: Plan, round_s: float | None) -> str:
    """Return what a plan uses, and what it may use."""
    budget = plan.study.repetition.budget_node_hours
    limit = f" of a budget of {budget:g}" if budget is not None else ""
    hours = resources.node_hours(plan, pace.estimated_s(plan, round_s))
    used = f"about {hours:.2g} node-hours{limit} on {counted(resources.nodes_of(plan), 'node')}"
    return f"{used}, up to {bytes_label(resources.peak_disk_bytes(plan) >> 20 << 20)} of disk for images and results"


def _note(plan: Plan, cell: Cell) -> str:
    """Return that a cell that can run needs root or may not end in time."""
    asks = CLUSTERS[plan.study.cluster].needs_root and composition.needs_root(cell.environment, cell.placement)
    root = "  (needs root)" if asks else ""
    expected_s, limit_s = estimate_trial_s(cell), cell.workload.time_limit_s
    if expected_s <= limit_s:
        return root
    return f"{root}  (takes about {duration(expected_s)}, but its time limit is {duration(limit_s)}: raise time_limit)"
