"""What the commands have in common: from a plan to its files, its run and its summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.cluster import CLUSTERS, ssh_clean
from tare.deploy import study_files
from tare.deploy.study_files import StudyFiles
from tare.errors import RefusedError
from tare.explain.stored import causes_in
from tare.feasibility import preflight
from tare.feasibility.availability import make_plan
from tare.host.binds import bind_of, writable
from tare.host.user_namespace import become_root
from tare.images.cache import Progress, silent
from tare.model import Plan, Summary
from tare.node_service import clean
from tare.plan.calibration import LET_WRITE
from tare.plan.cells import available
from tare.run import runner
from tare.run.ending import Ending
from tare.run.facts import facts
from tare.runtimes import RUNTIMES
from tare.store.writer import Results, Store
from tare.summary import summarise
from tare.workloads import located

MOST_NAMED: Final = 3
"""Links that are named."""

__all__ = [
    "check_available",
    "execute",
    "facts",
    "make_plan",
    "make_ready",
    "summary_of",
]


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
    if closed and not cwd:
        folders = ", ".join(closed)
        where = "in containers" if CLUSTERS[plan.study.cluster].is_real else "in any environment"
        say(f"tare: programs may not write to {folders}, {where}, unlike with tare launch: {LET_WRITE}")
    unseen = _undivided(plan, (*shown, *([cwd] if cwd else [])))
    return preflight.fitting(replace(plan, unavailable={**plan.unavailable, **unseen}), files), files


def _links(plan: Plan, shown: Iterable[str]) -> str:
    """Return the links of folders that lead to what pods with an image do not see, in words; "" if there are none."""
    environments = [cell.environment for cell in available(plan) if cell.environment.image]
    bound = [bind_of(text).source for each in environments for text in each.binds]
    links = list(located.links_out_of((*shown, *bound))) if environments else []
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


def check_available(plan: Plan) -> None:
    """Raise `RefusedError` with the reasons if no cell of a plan can run."""
    if not available(plan):
        reasons = "\n  ".join(sorted({f"{key}: {reason}" for key, reason in plan.unavailable.items()}))
        raise RefusedError("no cell of this study can run here", remedy=reasons)


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
