"""`tare explain`: why the cells of a results folder cost what they cost, with proof and remedy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from tare.analysis.explain import Explained, Measured, ResultsIndex, explain
from tare.analysis.explain.ablation import Ablation, folder_of, stated, studies_of, study_of_group
from tare.analysis.explain.answer import (
    EffectAnswer,
    NotComparable,
    RemedyAnswer,
    answer_of,
    remedy_answer,
    unlike_cells,
)
from tare.analysis.explain.cause import Change, Suspect
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.failed import FailedCell, failed_cells
from tare.analysis.explain.failed_lines import lines_of_failed
from tare.analysis.explain.remedy import REMEDIED, remedies_of
from tare.analysis.explain.remedy import studies_of as remedy_studies_of
from tare.analysis.explain.stored_costs import FOLDER as EXPLAIN
from tare.analysis.explain.stored_costs import ablations_of, compared_of
from tare.analysis.explain.unmeasured_changes import Failures
from tare.analysis.summary.costs import costs_in
from tare.cli import commands
from tare.cli.afterwards.options import ExplainOptions
from tare.cli.output import say
from tare.clusters import CLUSTERS
from tare.errors import EXIT_CELLS_FAILED, EXIT_DONE, EXIT_INCONCLUSIVE, RefusedError, UsageError
from tare.model import Estimate, Study
from tare.model.text import printable
from tare.report import units
from tare.run.trace import check_can_trace, lines_of, read_traces, tracing
from tare.store.codec import encode
from tare.store.results import PLAN
from tare.store.writer import Results, read_only
from tare.system.user_namespace import is_real_root

TRACE: Final = "trace"
"""The folder of what was traced, within the results that it is about."""
TRACED: Final = 3
"""Launches of each cell that are traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedResults:
    """The costs and failed cells of a results folder, and the results in which changed cells are looked for.

    `unlike` are the cells that did other work than the baseline.
    """

    results: Results
    costs: tuple[Explained, ...]
    places: tuple[ResultsIndex, ...]
    failures: tuple[Failures, ...]
    failed: tuple[FailedCell, ...]
    unlike: tuple[NotComparable, ...] = ()


def explain_results(wanted: ExplainOptions) -> int:
    """Print why cells cost what they cost, and return the exit code.

    It is 4 if a cost has no proven cause because a measurement failed, 3 if one has none for another reason, else 0.
    """
    results = read_only(wanted.results)
    study = results.plan.study
    found = _explained(results, wanted)
    if wanted.run and found.costs:
        _measure(studies_of(study, found.costs, rounds=wanted.rounds), results, wanted)
        found = _explained(results, wanted)
        commands.renew_page(wanted.results)
    remedies: tuple[RemedyAnswer, ...] | None = None
    if wanted.remedy:
        proven = remedies_of(found.costs)
        missing = remedy_studies_of(study, proven, found.places, rounds=wanted.rounds)
        if missing:
            _measure(missing, results, wanted)
            found = _explained(results, wanted)
        remedies = tuple(remedy_answer(remedy, found.places, found.failures, study.margin) for remedy in proven)
    if wanted.trace and found.costs:
        _trace(results, found.costs, wanted)
    if wanted.as_json:
        answer = encode(answer_of(found.costs, found.failed, found.unlike, remedies))
        print(json.dumps(answer, indent=1, ensure_ascii=True, allow_nan=False))
    else:
        lines = [*map(_told, found.unlike), *_page(found, wanted), *_remedies(remedies, wanted)]
        print(printable("\n".join(lines), lines=True))
    without_cause = [cost for cost in found.costs if cost.named is None]
    if any(cost.unmeasured for cost in without_cause) or any(remedy.unmeasured for remedy in remedies or ()):
        return EXIT_CELLS_FAILED
    return EXIT_INCONCLUSIVE if without_cause else EXIT_DONE


def _measure(ablations: Iterable[Ablation], results: Results, wanted: ExplainOptions) -> None:
    """Run studies of changed cells; on a cluster that gives nodes to jobs, only within a job."""
    study, folder = results.plan.study, wanted.results
    cluster = CLUSTERS[study.cluster]
    if cluster.runs_jobs and not cluster.in_job:
        command = _command(study, wanted, "--run" if wanted.run else "--remedy")
        raise RefusedError(
            f"the cells of {folder} were measured on cluster {study.cluster}, and this is not a job of it",
            remedy=f"run it within an allocation, `{command}`, or in a batch script such as `tare submit --dry-run` "
            "prints",
        )
    for ablation in ablations:
        below = folder / EXPLAIN / ablation.folder
        say(f"tare: measuring {', '.join(each.name for each in ablation.study.environments)} ({below})")
        commands.measure(_as_stored(ablation.study, below), below, of=results)


def _as_stored(study: Study, folder: Path) -> Study:
    """Return a study with the environments of the results in its folder, if those have all of its own.

    What was measured for more costs is then resumed, and not measured again for some of them.
    """
    if not (folder / PLAN).exists():
        return study
    environments = read_only(folder).plan.study.environments
    return replace(study, environments=environments) if set(study.environments) <= set(environments) else study


def _trace(results: Results, costs: Sequence[Explained], wanted: ExplainOptions) -> None:
    """Trace launches of the costly cells and of their baselines, those that have not been traced yet."""
    study = results.plan.study
    check_can_trace(study.cluster)
    folder = (wanted.results / TRACE).absolute()  # the launches are started in another folder
    known = {(trace.group, trace.environment) for trace in read_traces(folder)}
    groups: defaultdict[str, dict[str, Explained]] = defaultdict(dict)
    for cost in costs:
        cell = cost.evidence.here.cell
        if (cell.group, cell.environment.name) not in known:
            groups[cell.group].setdefault(cell.environment.name, cost)
    for group, rows in groups.items():
        names = (study.baseline, *rows)
        say(f"tare: tracing {', '.join(names)} ({group}); launches are slower, and their figures are not used")
        environments = tuple(stated(study, name) for name in names)
        made = study_of_group(study, environments, next(iter(rows.values())), TRACED)
        once = replace(made, self_comparison=False, repetition=replace(made.repetition, turns=1, reruns=0))
        follow = partial(tracing, folder=folder)
        commands.measure(once, folder / folder_of(group), follow, of=results, fresh=True)


def _command(study: Study, wanted: ExplainOptions, option: str) -> str:
    """Return the command that measures changed cells where the study ran."""
    command = f"tare explain {wanted.results} {option}"
    cluster = CLUSTERS.get(study.cluster)
    if cluster is not None and cluster.runs_jobs:
        nodes = max(placement.nodes for placement in study.placements)
        return f"salloc --nodes={nodes} --exclusive {command}"
    as_root = cluster is None or cluster.needs_root
    return f"sudo {command}" if as_root and not is_real_root() else command


def _explained(results: Results, wanted: ExplainOptions) -> ExplainedResults:
    table, folder = compared_of(results), wanted.results
    known = {f"{cell.group} / {cell.environment.name}" for cell in results.plan.cells}
    if wanted.cell and not any(wanted.cell in name for name in known):
        raise UsageError(
            f"no cell of {folder} has {wanted.cell!r} in its name",
            remedy=f"name one of: {'; '.join(sorted(known)[:20])}",
        )
    ablations = ablations_of(folder)
    every = explain(results.plan, results.trials, table, ablations)
    own = Measured(plan=results.plan, costs=costs_in(table.comparisons))
    cells = failed_cells(results.plan, results.trials)
    return ExplainedResults(
        results=results,
        costs=tuple(cost for cost in every if wanted.cell in _name(cost)),
        places=tuple(map(ResultsIndex, (*ablations, own))),
        failures=tuple(map(Failures, (*ablations, own))),
        failed=tuple(cell for cell in cells if wanted.cell in f"{cell.group} / {cell.environment}"),
        unlike=tuple(
            each for each in unlike_cells(table.comparisons) if wanted.cell in f"{each.group} / {each.environment}"
        ),
    )


def _told(unlike: NotComparable) -> str:
    return f"{unlike.group} / {unlike.environment} is not comparable: {unlike.reason}\n"


def _name(cost: Explained) -> str:
    return f"{cost.evidence.here.cell.group} / {cost.evidence.here.cell.environment.name}"


def _page(found: ExplainedResults, wanted: ExplainOptions) -> Iterator[str]:
    """Yield the lines of the answer: each row that costs something, with its metrics, causes and remedies."""
    costs, traces = found.costs, read_traces(wanted.results / TRACE)
    yield from lines_of_failed(found.failed)
    if not costs:
        yield f"No cell{' that ran' if found.failed else ''} costs anything that could be explained."
        return
    rows: defaultdict[str, list[Explained]] = defaultdict(list)
    for cost in costs:
        rows[_name(cost)].append(cost)
    for row, members in rows.items():
        yield row
        yield from _differing(members[0].evidence)
        for cost in members:
            yield from _of_cost(cost)
        cells = members[0].evidence.here.cell, members[0].evidence.base.cell
        told = lines_of(traces, cells[0].group, cells[0].environment.name, cells[1].environment.name)
        yield from (f"  {line}" for line in told)
        yield ""
    explained = sum(cost.named is not None for cost in costs)
    yield f"costs with a proven cause: {explained} of {len(costs)}"
    if explained < len(costs) and not wanted.run:
        yield f"To measure the suspects: {_command(found.results.plan.study, wanted, '--run')}"


def _differing(evidence: Evidence) -> Iterator[str]:
    """Yield what the nodes of a cell, or of its baseline, differ in: such facts are no clues."""
    for side, whose in ((evidence.here, "its nodes"), (evidence.base, "the baseline's nodes")):
        yield from (f"  {whose} differ, {text}" for text in side.differing)


def _of_cost(cost: Explained) -> Iterator[str]:
    comparison = cost.evidence.comparison
    overhead = "" if comparison.overhead is None else _percent(comparison.overhead)
    yield f"  {cost.evidence.info.label}: {overhead}"
    if words := cost.evidence.added.words:
        yield f"    the added time is {words}"
    named = cost.named
    if named is None:
        yield "    unexplained: " + (
            "no suspect is proven" if cost.suspects else "nothing that was counted speaks for a cause"
        )
    for suspect in cost.suspects:
        yield f"    {suspect.words}{_proof(cost, suspect)}"
        for clue in suspect.clues:
            yield f"      {'+' if clue.weight > 0 else '-'} {clue.text}"
        share = cost.shares.get(suspect.name)
        if suspect.change is not None and share is not None and share.without is not None:
            yield f"      {_changed(suspect.change)}: {_percent(share.without)} against the baseline"
        if suspect is named or named is None:
            yield f"      remedy: {suspect.remedy}"
    for suspect in cost.refuted:
        changed = cost.division.refuted[suspect.name].without
        if suspect.change is not None and changed is not None:
            yield f"    ruled out: {suspect.words} ({_changed(suspect.change)} it is {_percent(changed)})"
    if cost.division.rest is not None:
        yield f"    rest: {_share(cost.division.rest)}"


def _changed(change: Change) -> str:
    """Return what was measured, as the beginning of a line: the suspect by itself, or the cell without it."""
    return f"it alone ({change.words})" if change.adds else f"without it ({change.words})"


def _remedies(remedies: Sequence[RemedyAnswer] | None, wanted: ExplainOptions) -> Iterator[str]:
    """Yield the lines about remedies: each row's costs before and after, and what to paste into a study."""
    if remedies is None:
        return
    if not remedies:
        yield "No cost has a proven cause, so there is no remedy to measure" + ("." if wanted.run else ": add --run.")
    for remedy in remedies:
        yield ""
        yield f"remedy of {remedy.group} / {remedy.environment}: {'; '.join(remedy.changes) or 'no key of a study'}"
        if remedy.left:
            yield f"  not removed, because no key of a study does that in this runtime: {', '.join(remedy.left)}"
        for effect in remedy.effects:
            yield from _effect(effect, wanted)
        if remedy.changes and not remedy.effects:
            yield f"  could not be measured: {remedy.unmeasured}"
        if remedy.fragment:
            yield "  in a study, below `environments:`"
            yield from (f"    {line}" for line in remedy.fragment.splitlines())


def _effect(effect: EffectAnswer, wanted: ExplainOptions) -> Iterator[str]:
    before, after = ("-" if each is None else _percent(each) for each in (effect.before, effect.after))
    yield f"  {effect.label}: before {before}; after {after}: {effect.outcome}"
    folder = wanted.results / EXPLAIN / effect.measured_in if effect.measured_in else wanted.results
    by_remedy = effect.measured_in.startswith(REMEDIED)
    yield f"    measured in {folder}" if by_remedy else f"    already measured as an ablation, in {folder}"


def _proof(cost: Explained, suspect: Suspect) -> str:
    found = cost.shares.get(suspect.name)
    if suspect.name in cost.unmeasured:
        return f" (could not be measured: {cost.unmeasured[suspect.name]})"
    if found is None:
        return " (not measured)" if suspect.change is not None else " (cannot be removed by tare)"
    if found.share is None:
        return " (measured; the cost itself did not show again)"
    state = "proven" if cost.is_proven(suspect.name) else "not proven"
    return f" ({state}: explains {_share(found.share)})"


def _share(share: Estimate) -> str:
    value, low, high = (units.number(100 * each, 0) for each in (share.value, share.low, share.high))
    return f"{value} % [{low}, {high}] of the cost, n = {share.n} rounds"


def _percent(estimate: Estimate) -> str:
    interval = units.overhead_interval(estimate)
    return f"{interval}, n = {estimate.n} rounds"
