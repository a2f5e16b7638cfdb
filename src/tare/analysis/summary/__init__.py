"""Compute what a report shows from a plan and its trials; the same input always gives the same summary.

Trials -> `select` (which count) -> `rows` (series of each cell, adjusted for the machine's state, paired by round)
-> `compare` (intervals, verdicts over the table) -> `warnings`, `headline`.
The method is in docs/method.md; the figures come from `tare.analysis.stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.analysis import stats
from tare.analysis.summary.allocations import allocation_caveats
from tare.analysis.summary.compare import JudgedTable, compare
from tare.analysis.summary.daemon import daemon_findings
from tare.analysis.summary.disturbance import is_disturbed
from tare.analysis.summary.headline import NOT_COMPARED, headline
from tare.analysis.summary.isolation import isolation_of
from tare.analysis.summary.loaded_libraries import differing
from tare.analysis.summary.mechanisms import findings, proof_gaps_of
from tare.analysis.summary.modes import modes_of
from tare.analysis.summary.patterns import patterns_of
from tare.analysis.summary.rows import PairedRows, paired_rows, self_name
from tare.analysis.summary.select import Selection, select
from tare.analysis.summary.warnings import crowded, warnings_of
from tare.analysis.summary.work import is_compared
from tare.clusters import CLUSTERS
from tare.errors import (
    EXIT_CELLS_FAILED,
    EXIT_DONE,
    EXIT_INCONCLUSIVE,
    EXIT_OVER_LIMIT,
    EXIT_PRECEDENCE,
)
from tare.model import (
    Comparison,
    Failed,
    Finding,
    Invalid,
    Isolation,
    MetricInfo,
    Plan,
    ProofGap,
    Role,
    Study,
    Summary,
    Trial,
    Verdict,
)

__all__ = ["Compared", "compared", "exit_code", "study_is_precise_enough", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The comparisons of a study with their columns, without what else a `Summary` has."""

    metrics: tuple[MetricInfo, ...]
    comparisons: tuple[Comparison, ...]


def compared(plan: Plan, trials: Sequence[Trial], looks: Sequence[int] = ()) -> Compared:
    """Return the comparisons that `summarise` returns, in less time."""
    paired = paired_rows(plan, trials)
    _, table = _judged(plan, paired, looks)
    return Compared(metrics=paired.infos, comparisons=table.comparisons)


def _judged(plan: Plan, paired: PairedRows, looks: Sequence[int]) -> tuple[stats.Look, JudgedTable]:
    """Return when the rows were looked at, and what they show then."""
    look = stats.look_at(plan.study.repetition, looks, paired.selection.rounds_done)
    return look, compare(plan, paired.rows, paired.selection.reruns, look)


def summarise(
    plan: Plan,
    trials: Sequence[Trial],
    host: Mapping[str, Any],
    looks: Sequence[int] = (),
    caveats: Sequence[str] = (),
) -> Summary:
    """Return everything that a report shows.

    `looks`: the rounds at which earlier runs of this study ended and showed verdicts (`tare.analysis.stats.looks`).
    `caveats`: warnings about what the trials were read from (`tare.store.results.Results.caveats`).

    `host`: facts of the machine as stored. If they contain `machine` (one line), it is shown unchanged; otherwise the
    line is composed of `cpu`, `cores`, `memory_bytes`, `kernel` and `os`, as far as present. The order of `trials` does
    not matter. Raises ResultsError for a trial of a cell that is not in the plan.
    """
    study = plan.study
    selection, infos, rows = paired = paired_rows(plan, trials)
    look, table = _judged(plan, paired, looks)
    comparisons = table.comparisons
    return Summary(
        name=study.name,
        cluster=study.cluster,
        emulated=study.cluster in CLUSTERS and CLUSTERS[study.cluster].emulated,
        baseline=study.baseline,
        self_name=self_name(plan),
        margin=study.margin,
        limit=study.limit,
        confidence=study.repetition.confidence,
        rounds_done=selection.rounds_done,
        metrics=infos,
        environments=study.environments,
        comparisons=comparisons,
        headline=headline(plan, infos, comparisons, look.pending),
        machine=_machine(host),
        manifest=_manifest(plan, trials, host),
        counts=_counts(plan, trials, selection, comparisons),
        exit_code=exit_code(_thin_codes(selection) if study.thin else _codes(comparisons)),
        cells=plan.cells,
        unavailable=plan.unavailable,
        isolation=_isolation(plan, selection),
        published=study.published,
        findings=(
            *_mechanisms(plan, selection),
            *_other_mpis(plan, selection),
            *daemon_findings(study.environments, infos, comparisons, study.repetition.confidence),
        ),
        proof_gaps=_proof_gaps(plan, selection),
        warnings=(*caveats, *warnings_of(plan, selection, infos, table), *crowded(host), *allocation_caveats(host)),
        looks=look.looks,
        next_look=look.next_look,
        state_effects=tuple(
            effect for row in rows if row.cell.role is Role.BASELINE for effect in row.adjustment.effects
        ),
        modes=modes_of(rows),
        patterns=patterns_of(rows),
    )


def _mechanisms(plan: Plan, selection: Selection) -> Iterator[Finding]:
    """Yield the mechanisms that the places of ranks show, of every cell."""
    for cell in plan.cells:
        trials = selection.trials[cell.key].values()
        asked = cell.placement.oversubscribe
        yield from findings(cell.environment.name, cell.group, trials, oversubscribed=asked)


def _other_mpis(plan: Plan, selection: Selection) -> tuple[Finding, ...]:
    """Return a finding for every cell whose MPI differs from its baseline's: its figures mix two changes."""
    baselines = {cell.group: cell.environment for cell in plan.cells if cell.role is Role.BASELINE}
    result = []
    for cell in plan.cells:
        base, environment = baselines[cell.group], cell.environment
        launches = len(selection.trials[cell.key])
        if environment.mpi != base.mpi and launches:
            text = (
                f"it uses {environment.mpi} and {base.name} uses {base.mpi}, so its figures include both changes; to "
                f"measure the container alone, set `mpi: {environment.mpi}` for the workload, or for {base.name}"
            )
            result.append(
                Finding(
                    group=cell.group,
                    environment=environment.name,
                    kind="another MPI",
                    text=text,
                    launches=launches,
                    of=launches,
                )
            )
    return tuple(result)


def _proof_gaps(plan: Plan, selection: Selection) -> tuple[ProofGap, ...]:
    """Return what is not proven of each cell's treatment, by row."""
    return tuple(
        gap
        for cell in plan.cells
        for gap in proof_gaps_of(
            self_name(plan) if cell.role is Role.SELF else cell.environment.name,
            cell.group,
            selection.trials[cell.key].values(),
        )
    )


def _isolation(plan: Plan, selection: Selection) -> tuple[Isolation, ...]:
    """Return the isolation facts of every environment that reported any, in the study's order."""

    def trials_of(name: str) -> Iterator[Trial]:
        cells = [cell for cell in plan.cells if cell.environment.name == name]
        return (trial for cell in cells for trial in selection.trials[cell.key].values())

    found = (
        isolation_of(each.name, each.runtime, trials_of(each.name), trials_of(plan.study.baseline))
        for each in plan.study.environments
    )
    return tuple(filter(None, found))


def study_is_precise_enough(plan: Plan, trials: Sequence[Trial]) -> bool:
    """Tell whether the study may stop: this is a look, and every comparison that has figures is precise enough."""
    repetition, done = plan.study.repetition, select(plan, trials).rounds_done
    if not stats.is_look(done, repetition):
        return False
    return all(
        stats.precise_enough(row.pairs.logs, repetition, done)
        for row in paired_rows(plan, trials).rows
        if row.pairs is not None and row.info.judged
    )


def exit_code(codes: Iterable[int]) -> int:
    """Return the code with the highest precedence (EXIT_PRECEDENCE), 0 if there is none."""
    present = set(codes)
    return next((code for code in EXIT_PRECEDENCE if code in present), EXIT_DONE)


def _codes(comparisons: Sequence[Comparison]) -> set[int]:
    """Return the exit codes that the table requires.

    4 if a planned cell is invalid (the baseline and A/A too), did other work than the baseline, or fails more, or if no
    environment that is to be judged could be compared; 1 if an overhead is beyond the limit; 3 if a comparison is
    inconclusive. An unavailable cell among others adds no code: its reason is in the plan and in the report.
    """
    compared = [item for item in comparisons if item.verdict not in NOT_COMPARED]
    codes = set()
    is_judged = all(item.verdict is not Verdict.NOT_JUDGED for item in comparisons)
    nothing = compared and is_judged and all(item.verdict is Verdict.UNAVAILABLE for item in compared)
    if nothing or any(item.verdict in {Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.FAILS} for item in comparisons):
        codes.add(EXIT_CELLS_FAILED)
    if any(item.over_limit for item in comparisons):
        codes.add(EXIT_OVER_LIMIT)
    if any(item.verdict is Verdict.INCONCLUSIVE for item in compared):
        codes.add(EXIT_INCONCLUSIVE)
    return codes


def _thin_codes(selection: Selection) -> set[int]:
    """Return the exit codes of a thin study, which decides nothing: 4 if a launch failed or was invalid."""
    trials = (trial for chosen in selection.trials.values() for trial in chosen.values())
    return {EXIT_CELLS_FAILED for trial in trials if isinstance(trial.outcome, Failed | Invalid)}


def _counts(
    plan: Plan, trials: Sequence[Trial], selection: Selection, comparisons: Sequence[Comparison]
) -> dict[str, int]:
    """Count cells, trials by outcome, trials that count, repeated launches, and comparisons by verdict."""
    outcomes = Counter(type(trial.outcome).__name__.lower() for trial in trials)
    verdicts = Counter(item.verdict for item in comparisons)
    return {
        "cells": len(plan.cells),
        "cells unavailable": sum(cell.key in plan.unavailable for cell in plan.cells),
        "trials": len(trials),
        **{
            f"trials {word}": outcomes[word]
            for word in ("completed", "failed", "invalid", "unavailable", "interrupted")
        },
        "trials that count": sum(len(chosen) for chosen in selection.trials.values()),
        "reruns": sum(selection.reruns.values()),
        "disturbed": sum(is_disturbed(trial) for chosen in selection.trials.values() for trial in chosen.values()),
        "repeated": sum(trial.key.repeat > 0 for trial in trials)
        + sum(int(trial.noise.get("repeated", 0)) for trial in trials),
        "comparisons": len(comparisons),
        **{f"comparisons {verdict.value}": verdicts[verdict] for verdict in Verdict},
    }


def _manifest(plan: Plan, trials: Sequence[Trial], host: Mapping[str, Any]) -> dict[str, Any]:
    study, repetition = plan.study, plan.study.repetition
    return {
        "study": study.name,
        "plan digest": plan.digest,
        "cluster": study.cluster,
        "seed": study.seed,
        "baseline": study.baseline,
        "A/A cells": sum(cell.role is Role.SELF for cell in plan.cells),
        "rounds planned": repetition.rounds,
        "maximum rounds": repetition.max_rounds,
        "blocks per round": repetition.blocks_per_round,
        "turns": _turns(trials) or repetition.turns,
        "confidence": repetition.confidence,
        "margin": study.margin,
        "limit": study.limit,
        **({"link rate, bit/s": study.lab.link_rate_bps} if study.lab.link_rate_bps else {}),
        **({"MPI of workloads": mpis} if (mpis := _workload_mpis(study)) else {}),
        **({"work of launches": "not recorded"} if _lacks_work(plan, trials) else {}),
        **({"networks": networks} if (networks := _networks(plan, trials)) else {}),
        **({"loaded libraries": libraries} if (libraries := differing(plan, trials)) else {}),
        "MPI libraries": sorted({trial.mpi_library for trial in trials if trial.mpi_library}),
        "host": dict(host),
    }


def _lacks_work(plan: Plan, trials: Sequence[Trial]) -> bool:
    """Tell whether nobody knows what the programs of a study did: earlier releases did not record it."""
    return bool(trials) and any(map(is_compared, plan.cells)) and all(trial.work is None for trial in trials)


def _turns(trials: Sequence[Trial]) -> int:
    """Return the most turns that a launch took, 1 if each ran on its own; 0 if none has run."""
    return max((int(trial.counters.get("turns", 1)) for trial in trials if trial.counters), default=0)


def _workload_mpis(study: Study) -> dict[str, str]:
    return {workload.name: workload.mpi for workload in study.workloads if workload.mpi}


def _networks(plan: Plan, trials: Sequence[Trial]) -> dict[str, dict[str, str]]:
    """Return the network facts of each environment, as reported by the first launch that has any."""
    names = {cell.key: cell.environment.name for cell in plan.cells if cell.role is not Role.SELF}
    facts: dict[str, dict[str, str]] = {}
    for trial in trials:
        if trial.facts and trial.key.cell in names:
            facts.setdefault(names[trial.key.cell], dict(trial.facts))
    return facts


def _machine(host: Mapping[str, Any]) -> str:
    if host.get("machine"):
        return str(host["machine"])
    cores, memory = host.get("cores"), host.get("memory_bytes")
    parts = [
        host.get("cpu"),
        f"{cores} cores" if cores else None,
        f"{memory / 2**30:.0f} GiB" if isinstance(memory, int | float) and memory else None,
        f"Linux {host['kernel']}" if host.get("kernel") else None,
        host.get("os"),
    ]
    return ", ".join(str(part) for part in parts if part)
