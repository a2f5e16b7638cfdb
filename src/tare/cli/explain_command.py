"""`tare explain`: why the cells of a results folder cost what they cost, with proof and remedy."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.cli import commands, session
from tare.cli.session import EXPLAIN, ablations_of
from tare.errors import EXIT_DONE, EXIT_INCONCLUSIVE, UsageError
from tare.explain import Explained, explain
from tare.explain.ablation import ROUNDS, studies_of
from tare.explain.cause import Suspect
from tare.host.user_namespace import is_real_root
from tare.model import Estimate
from tare.model.text import printable
from tare.report import units
from tare.store.writer import Results, read_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to explain: a results folder, and a part of the names of cells ("": all). `run` measures the suspects."""

    folder: Path
    cell: str = ""
    run: bool = False
    rounds: int = ROUNDS


def explain_results(wanted: Wanted) -> int:
    """Print why cells cost what they cost; return 3 if a cost is left without a proven cause, else 0."""
    results = read_only(wanted.folder)
    costs = _costs(results, wanted)
    if wanted.run and costs:
        for ablation in studies_of(results.plan.study, costs, rounds=wanted.rounds):
            folder = wanted.folder / EXPLAIN / ablation.folder
            _say(f"tare: measuring {', '.join(each.name for each in ablation.study.environments)} ({folder})")
            commands.measure(ablation.study, folder)
        costs = _costs(results, wanted)
    print(printable("\n".join(_page(costs, wanted)), lines=True))
    return EXIT_DONE if all(cost.named for cost in costs) else EXIT_INCONCLUSIVE


def _costs(results: Results, wanted: Wanted) -> tuple[Explained, ...]:
    summary = session.summary_of(results)
    known = {f"{cell.group} / {cell.environment.name}" for cell in results.plan.cells}
    if wanted.cell and not any(wanted.cell in name for name in known):
        raise UsageError(
            f"no cell of {wanted.folder} has {wanted.cell!r} in its name",
            remedy=f"name one of: {'; '.join(sorted(known)[:20])}",
        )
    every = explain(results.plan, results.trials, summary, ablations_of(wanted.folder))
    return tuple(cost for cost in every if wanted.cell in _name(cost))


def _name(cost: Explained) -> str:
    return f"{cost.evidence.here.cell.group} / {cost.evidence.here.cell.environment.name}"


def _page(costs: Sequence[Explained], wanted: Wanted) -> Iterator[str]:
    """Yield the lines of the answer: each row that costs something, with its metrics, causes and remedies."""
    if not costs:
        yield "No cell costs anything that could be explained."
        return
    rows: defaultdict[str, list[Explained]] = defaultdict(list)
    for cost in costs:
        rows[_name(cost)].append(cost)
    for row, members in rows.items():
        yield row
        for cost in members:
            yield from _of_cost(cost)
        yield ""
    explained = sum(cost.named is not None for cost in costs)
    yield f"{explained} of {len(costs)} costs have a proven cause."
    if explained < len(costs) and not wanted.run:
        yield f"To measure the suspects: {'' if is_real_root() else 'sudo '}tare explain {wanted.folder} --run"


def _of_cost(cost: Explained) -> Iterator[str]:
    comparison = cost.evidence.comparison
    overhead = "" if comparison.overhead is None else _percent(comparison.overhead)
    yield f"  {cost.evidence.info.label}: {overhead}"
    named = cost.named
    if named is None:
        yield "    unexplained" + ("" if cost.suspects else ": nothing that was counted speaks for a cause")
    for suspect in cost.suspects:
        yield f"    {suspect.words}{_proof(cost, suspect)}"
        for clue in suspect.clues:
            yield f"      {'+' if clue.weight > 0 else '-'} {clue.text}"
        share = cost.shares.get(suspect.name)
        if suspect.change is not None and share is not None and share.without is not None:
            yield f"      measured with {suspect.change.words}: {_percent(share.without)} against the baseline"
        if suspect is named or named is None:
            yield f"      remedy: {suspect.remedy}"
    if cost.rest is not None:
        yield f"    not explained: {_share(cost.rest)}"


def _proof(cost: Explained, suspect: Suspect) -> str:
    found = cost.shares.get(suspect.name)
    if found is None:
        return " (not measured)" if suspect.change is not None else " (cannot be removed by tare)"
    if found.share is None:
        return " (measured; the cost itself did not show again)"
    state = "proven" if cost.is_proven(suspect.name) else "not proven"
    return f" ({state}: explains {_share(found.share)})"


def _share(share: Estimate) -> str:
    interval = f"[{100 * share.low:.0f}, {100 * share.high:.0f}]"
    return f"{100 * share.value:.0f} % {interval} of the cost, n = {share.n} rounds"


def _percent(estimate: Estimate) -> str:
    interval = units.overhead_interval(estimate)
    return f"{interval}, n = {estimate.n} rounds"


def _say(message: str) -> None:
    print(printable(message), file=sys.stderr, flush=True)
