"""Expand a study to cells, order each block at random, and estimate the time. Pure.

A block is one pass over all cells that can run. Within a block the cells of one group (same workload, same placement)
stay together, because they are compared with each other and the machine drifts. Groups, and cells in a group, are in
random order (METHOD.md section 1, rule 1). Rounds are numbered from 0, and blocks from 0 in each round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any, Final

from tare.model import (
    Binding,
    Cell,
    Environment,
    Launching,
    Placement,
    Plan,
    RankOrder,
    Role,
    Share,
    Sides,
    Study,
    Workload,
)
from tare.model.text import bytes_label
from tare.networks import Wiring, find
from tare.runtimes import RUNTIMES
from tare.study.plan.composition import under
from tare.study.plan.thin import LEFT_OUT, left_out
from tare.workloads import plugin_of

Availability = Callable[[Environment, Placement], str | None]
Ability = Callable[[Workload, Environment, Placement], str | None]

STOPPING_AND_JUDGING: Final = (
    "rounds",
    "max_rounds",
    "budget_s",
    "budget_node_hours",
    "confidence",
    "target_half_width",
    "reruns",
)
MPI_JOB_S: Final = 8.0
"""What launching an MPIJob takes: 7 s from its creation to its reported end for half a second of messages, in a lab."""
STARTUPS: Final = 2
"""Number of start-ups: a warm one, of pods or of a launch, needs one before it; a cold one takes about twice as
long."""


def expand(study: Study, availability: Availability, cannot: Ability = lambda *_: None) -> Plan:
    """Return the plan of a study: all cells, with the reason for each that cannot run.

    `availability` returns why an environment cannot run in a placement here, or None; it is called once for each pair.
    `cannot` returns why a workload cannot run here in an environment and a placement.
    """
    baseline = next(e for e in study.environments if e.name == study.baseline)
    roles = [(baseline, Role.BASELINE)]
    if study.self_comparison:
        roles.append((replace(baseline, name=self_name(study.baseline)), Role.SELF))
    roles += [(e, Role.ENVIRONMENT) for e in study.environments if e is not baseline]
    cells: list[Cell] = []
    unavailable: dict[str, str] = {}
    ask = cache(partial(_pair_reason, availability))
    for workload in study.workloads:
        for placement in study.placements:
            group = f"{workload.name} / {placement_name(placement)}"
            for stated, role in roles:
                environment, own = under(stated, workload.mpi), stated.placement.of(placement)
                cell = Cell(
                    key=f"{group} / {environment.name}",
                    group=group,
                    role=role,
                    workload=workload,
                    environment=environment,
                    placement=own,
                )
                cells.append(cell)
                asked = replace(environment, name=study.baseline) if role is Role.SELF else environment
                plugin = plugin_of(workload)
                reason = plugin.refuse(workload, own) or plugin.refuse_environment(workload, asked)
                reason = reason or cannot(workload, asked, own) or ask(asked, own)
                if reason is not None:
                    unavailable[cell.key] = reason
    if study.thin:
        unavailable |= dict.fromkeys(left_out(cells, unavailable), LEFT_OUT)
    plan = Plan(study=study, cells=tuple(cells), unavailable=unavailable, digest=digest(study))
    return replace(plan, estimated_s=estimate_s(plan))


def self_name(baseline: str) -> str:
    """Return the name of the baseline's copy, whose difference from the baseline is the noise floor."""
    return f"{baseline} (A/A)"


def placement_name(placement: Placement) -> str:
    """Return the placement's label with every setting that is not the default, so that it is unique in a study."""
    usual = Placement()
    parts = [placement.label]
    if placement.threads_per_rank != usual.threads_per_rank:
        parts.append(f"{placement.threads_per_rank} threads")
    if placement.share is not usual.share:
        parts.append("a pod each" if placement.share is Share.NONE else str(placement.share))
    if placement.binding is not usual.binding:
        parts.append("bound by the MPI" if placement.binding is Binding.MPI_DEFAULT else str(placement.binding))
    if placement.map_by is not usual.map_by:
        parts.append(f"by {placement.map_by}")
    if placement.rank_order is not usual.rank_order:
        parts.append(f"ranks {placement.rank_order}")
    if placement.cpus_per_container:
        parts.append(f"{placement.cpus_per_container:.12g} CPUs a container")
    if placement.memory_per_container:
        parts.append(f"{bytes_label(placement.memory_per_container)} a container")
    if placement.cpu_weight:
        parts.append(f"CPU weight {placement.cpu_weight}")
    if placement.oversubscribe:
        parts.append("oversubscribed")
    return ", ".join(parts)


def digest(study: Study) -> str:
    """Return the sha256 of the settings that decide whether results may be continued.

    These are all settings that change what a trial measures or which block it belongs to. Left out are the name,
    published figures of others, and settings that only stop or judge (rounds, max_rounds, budget, confidence, target
    half-width, reruns, margin, limit): a study may be given more rounds or another margin and continued. The store
    keeps the earlier version of the study together with the new one.
    """
    stated: dict[str, Any] = asdict(study)
    for key in ("name", "margin", "limit", "published", "folder"):
        del stated[key]
    if not study.thin:
        del stated["thin"]
    for placement in stated["placements"]:  # results from before these keys can be continued
        _leave_out(placement, cpu_weight=0, rank_order=RankOrder.BLOCK)
    for environment in stated["environments"]:
        _leave_out(environment["placement"], rank_order=None)
        _leave_out(environment["link"], queue=0)
        _leave_out(environment, daemon="", placement=dict.fromkeys(environment["placement"]))
    _leave_out(stated, writable="")
    for workload in stated["workloads"]:
        _leave_out(workload, input="")
        if not workload["commands"]:
            del workload["commands"], workload["undo"]
    for key in STOPPING_AND_JUDGING:
        del stated["repetition"][key]
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _leave_out(stated: dict[str, Any], **usual: object) -> None:
    """Remove the keys that have their usual values."""
    for key, value in usual.items():
        if stated[key] == value:
            del stated[key]


def available(plan: Plan) -> tuple[Cell, ...]:
    """Return the cells that can run, in the plan's order."""
    return tuple(cell for cell in plan.cells if cell.key not in plan.unavailable)


def block_order(plan: Plan, round: int, block: int, attempt: int = 0) -> tuple[str, ...]:  # noqa: A002
    """Return the keys of all cells that can run, in the random order of one block.

    The order is that of a keyed hash: a uniform permutation that depends on (seed, round, block, attempt) only and is
    the same on every Python.
    """
    drawn = f"{plan.study.seed}/{round}/{block}/{attempt}"

    def lot(name: str) -> bytes:
        return hashlib.sha256(f"{drawn}/{name}".encode()).digest()

    cells = sorted(available(plan), key=lambda cell: (lot(f"group {cell.group}"), lot(cell.key)))
    return tuple(cell.key for cell in cells)


# --- why a cell cannot run --------------------------------------------------------------------------------------


def _pair_reason(availability: Availability, environment: Environment, placement: Placement) -> str | None:
    if environment.sides is not Sides.BOTH and placement.nodes != 2:
        return f"one side only ({environment.sides}) needs exactly 2 nodes, but this placement has {placement.nodes}"
    return availability(environment, placement)


# --- how long it takes ------------------------------------------------------------------------------------------
# All figures here are estimates shown to the user ("about 4 minutes"); no result depends on them.


def estimate_s(plan: Plan, *, rounds: int | None = None, known_only: bool = False) -> float:
    """Estimate how many seconds the study takes; a budget bounds the result.

    With `known_only`, programs whose time is not known take none.
    """
    repeat = plan.study.repetition
    cells = available(plan)
    pods = sum({(c.environment, c.placement): estimate_pods_s(c) for c in cells}.values())
    if any(c.workload.startup is not None for c in cells):
        pods *= STARTUPS
    per_round = pods + repeat.blocks_per_round * sum(estimate_trial_s(cell, known_only=known_only) for cell in cells)
    total = per_round * (repeat.rounds if rounds is None else rounds)
    return total if repeat.budget_s is None else min(total, repeat.budget_s + per_round)


def estimate_pods_s(cell: Cell) -> float:
    """Estimate how many seconds it takes to make and remove a cell's pods, once in a round."""
    pods = cell.placement.nodes * (cell.placement.containers_per_node if cell.placement.share is Share.NONE else 1)
    runtime = RUNTIMES[cell.environment.runtime]
    if not runtime.makes_containers and find(cell.environment.network).wiring is Wiring.NODE:
        return 0.0
    return pods * runtime.pod_s


def estimate_trial_s(cell: Cell, *, known_only: bool = False) -> float:
    """Estimate how many seconds one launch takes; with `known_only`, its start if it is not known how long it runs."""
    start = MPI_JOB_S if cell.environment.launch is Launching.MPIJOB else RUNTIMES[cell.environment.runtime].start_s
    if cell.workload.startup is not None:
        return STARTUPS * start
    plugin = plugin_of(cell.workload)
    return start + (plugin.expected_s(cell.workload, cell.placement) if plugin.knows_time or not known_only else 0.0)
