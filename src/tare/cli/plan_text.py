"""Say what a study is to run: its cells, how long that takes and what it uses, and what cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare import stats
from tare.cluster import CLUSTERS
from tare.errors import ResultsError
from tare.model import Cell, Plan, Study
from tare.model.text import bytes_label, counted
from tare.plan import composition, pace, resources, unavailable
from tare.plan.cells import available, estimate_trial_s
from tare.run.progress import duration
from tare.store.writer import read_only
from tare.workloads import plugin_of

RESULTS_FOLDER: Final = Path("results")
THIN_FOLDER: Final = "-thin"


def plan_text(plan: Plan, round_s: float | None = None) -> str:
    """Return a plan as text: cells, trials, time, and what cannot run; `round_s` is the time of a round if measured."""
    repeat = plan.study.repetition
    cells = available(plan)
    trials = len(cells) * repeat.rounds * repeat.blocks_per_round
    rounds = f"{counted(repeat.rounds, 'round')} x {counted(repeat.blocks_per_round, 'block')}"
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
        f"{rounds}: {counted(trials, 'trial')}, {_takes(plan, round_s)}",
        _resources(plan, round_s),
        "",
        *(f"  + {cell.key}{_note(plan, cell)}" for cell in cells),
        *(f"  - {line}" for line in unavailable.in_lines(plan)),
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
