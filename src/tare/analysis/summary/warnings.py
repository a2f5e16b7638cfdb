"""Warnings that the figures of a study are doubtful as a whole; the report shows them before the headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tare.analysis.summary.compare import JudgedTable
from tare.analysis.summary.headline import signed
from tare.analysis.summary.select import Selection
from tare.model import Comparison, MetricInfo, Plan, Verdict
from tare.model.text import printable, processes_text
from tare.store.damage import facts_text
from tare.store.plausible import DAMAGED_FACTS

OFTEN: Final = 0.5
"""Above this share of launches a state of the machine is reported as a warning."""
CROWDED: Final = "running threads"
"""The fact about workloads whose ranks have more running threads than cores, a sentence each."""
THIN: Final = "This was a thin run: it shows that the study runs, and its figures decide nothing"
MOVED: Final = 0.1
"""Above this share of samples elsewhere a launch's vCPUs count as migrated; one of twenty may be an outlier."""


def warnings_of(plan: Plan, selection: Selection, infos: Sequence[MetricInfo], table: JudgedTable) -> tuple[str, ...]:
    """Return the warnings.

    Facts were left out, the baseline differs from itself, launches left processes behind, a cell always failed, vCPUs
    migrated all the time.
    """
    return (
        *_thin(plan),
        *_damaged(plan, selection),
        *_self_differs(infos, table),
        *_left_behind(plan, selection),
        *_always_failed(table.comparisons),
        *_migrated(plan, selection),
    )


def crowded_fact(facts: Mapping[str, Any], workload: str, sentence: str) -> dict[str, Any]:
    """Return the fact that a workload's ranks have too few cores, with what is known of others; none without it."""
    return {CROWDED: {**(facts.get(CROWDED) or {}), workload: sentence}} if sentence else {}


def crowded(facts: Mapping[str, Any]) -> Iterator[str]:
    """Warn of workloads whose ranks have more running threads than cores, as their first launch showed."""
    known = facts.get(CROWDED)
    for name, sentence in known.items() if isinstance(known, Mapping) else ():
        yield printable(f"{name}: {sentence}")


def _thin(plan: Plan) -> Iterator[str]:
    if plan.study.thin:
        yield THIN


def _damaged(plan: Plan, selection: Selection) -> Iterator[str]:
    trials = (trial for cell in plan.cells for trial in selection.trials[cell.key].values())
    if names := {name for trial in trials for name in trial.facts.get(DAMAGED_FACTS, "").split(", ") if name}:
        yield facts_text(sorted(names))


def _self_differs(infos: Sequence[MetricInfo], table: JudgedTable) -> Iterator[str]:
    labels = {(info.group, info.key): info.label for info in infos}
    for columns, what, verdict in (
        (table.self_differs, "baseline", "verdict"),
        (table.self_mean_differs, "baseline's mean", "verdict on means"),
    ):
        texts = []
        for item in table.comparisons:
            column = (item.group, item.metric)
            found = item.overhead if columns is table.self_differs or item.mean is None else item.mean.overhead
            if item.verdict is Verdict.NOISE_FLOOR and column in columns:
                texts.append(labels[column] + (f" ({signed(found)})" if found is not None else ""))
        if texts:
            yield (
                f"The {what} differs from itself on {', '.join(texts)}, so no {verdict} is given there. "
                "Something in this study is not random: check order, placement and drift"
            )


def _left_behind(plan: Plan, selection: Selection) -> Iterator[str]:
    """Warn of cells whose launches left processes behind: they ran beside what the launch did last."""
    texts = []
    for cell in plan.cells:
        trials = selection.trials[cell.key].values()
        left = [Counter(trial.left) for trial in trials if trial.left]
        if left:
            names = processes_text(sum(left, Counter[str]()))
            texts.append(f"{cell.environment.name} in {cell.group}: {names} in {len(left)} of {len(trials)}")
    if texts:
        yield (
            f"Launches left processes behind, which were ended before the next launch: {'; '.join(texts)} launches. "
            "They may have slowed the launch that started them"
        )


def _always_failed(comparisons: Sequence[Comparison]) -> Iterator[str]:
    reported = set()
    for item in comparisons:
        rate = item.failures
        if rate is None or rate.failed < rate.launches or (item.group, item.environment) in reported:
            continue
        reported.add((item.group, item.environment))
        yield f"Every launch of {item.environment} in {item.group} failed (n = {rate.launches}): {item.reason}"


def _migrated(plan: Plan, selection: Selection) -> Iterator[str]:
    trials = [trial for cell in plan.cells for trial in selection.trials[cell.key].values()]
    known = [trial for trial in trials if "core_hand_over_s" in trial.noise]
    moved = sum(trial.noise.get("cores_elsewhere", 0.0) > MOVED for trial in known)
    if known and moved > OFTEN * len(known):
        yield (
            f"The host migrated this machine's vCPUs during {moved} of {len(known)} launches. Figures are adjusted "
            "for it where possible; request dedicated cores, or measure at another time"
        )
