"""Find impossible values in an untrusted plan or trial, even if their types are right. Pure.

tare never writes such values, and no report could be made of them. Implausible figures of a launch are an exception:
tare 0.1.0 stored any, so they only make their trial invalid, and the other trials are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Final

from tare import model
from tare.store.plausible import MOST_DONE, is_time, why_no_figures

MOST: Final = 1_000_000
"""Largest number of rounds, blocks, ranks and the like in a study (`tare.study.schema`)."""

LATEST_S: Final = 1e11
"""Latest valid time stamp: the year 5000."""

LONGEST_NAME: Final = 400
SAMPLES_FILE: Final = re.compile(r"(samples/)?[A-Za-z0-9._-]{1,200}")


def check_plan(plan: model.Plan) -> None:
    """Raise `ValueError` with the first impossible value in a plan."""
    for complaint in (*_of_study(plan.study), *_of_cells(plan)):
        raise ValueError(complaint)


def _of_study(study: model.Study) -> Iterator[str]:
    repeat = study.repetition
    for what in ("rounds", "blocks_per_round", "max_rounds", "turns"):
        if not 1 <= getattr(repeat, what) <= MOST:
            yield f"{what} is {getattr(repeat, what)}"
    if not 0 <= repeat.reruns <= MOST:
        yield f"reruns is {repeat.reruns}"
    if not 0.5 <= repeat.confidence < 1:
        yield f"confidence is {repeat.confidence:g}"
    for name, value in (("margin", study.margin), ("limit", study.limit), ("half-width", repeat.target_half_width)):
        if value is not None and not 0 < value <= MOST:
            yield f"{name} is {value:g}"
    for published in study.published:
        if published.of_baseline is not None and not 0 < published.of_baseline <= MOST:
            yield f"a published figure is {published.of_baseline:g}"
    if study.baseline not in {environment.name for environment in study.environments}:
        yield f"the baseline {study.baseline!r:.80} is not one of the environments"


def _of_cells(plan: model.Plan) -> Iterator[str]:
    keys = {cell.key for cell in plan.cells}
    if len(keys) != len(plan.cells):
        yield "two cells have the same key"
    if not plan.unavailable.keys() <= keys:
        yield "an unavailable cell is not in the plan"
    baselines = Counter(cell.group for cell in plan.cells if cell.role is model.Role.BASELINE)
    environments = {environment.name for environment in plan.study.environments}
    for cell in plan.cells:
        if baselines[cell.group] != 1:
            yield f"the group {cell.group!r:.80} has {baselines[cell.group]} baselines"
        if cell.role is model.Role.BASELINE and cell.environment.name != plan.study.baseline:
            yield f"the cell {cell.key!r:.80} does not run in the baseline"
        if cell.role is not model.Role.SELF and cell.environment.name not in environments:
            yield f"the environment of the cell {cell.key!r:.80} is not one of the study's"
        if max(len(cell.key), len(cell.group), len(cell.environment.name)) > LONGEST_NAME:
            yield f"a name has more than {LONGEST_NAME} characters"
    rows = Counter((cell.group, cell.role, cell.environment.name) for cell in plan.cells)
    if rows and max(rows.values()) > 1:
        yield "two cells of a group have the same environment"


def check_trial(trial: model.Trial) -> model.Trial:
    """Return the trial, marked invalid if a figure is implausible; raise `ValueError` for other impossible values.

    Its ranks and its traffic are not looked at: `check_ranks` and `check_traffic` do.
    """
    key = trial.key
    for what, number in (
        ("round", key.round),
        ("block", key.block),
        ("attempt", key.attempt),
        ("position", trial.position),
    ):
        if not 0 <= number <= MOST:
            raise ValueError(f"{what} is {number}")
    if not 0 <= trial.started_unix_s <= LATEST_S:
        raise ValueError(f"started_unix_s is {trial.started_unix_s:g}")
    if not is_time(trial.elapsed_s):
        raise ValueError(f"elapsed_s is {trial.elapsed_s:g}")
    if trial.samples_file and not SAMPLES_FILE.fullmatch(trial.samples_file):
        raise ValueError(f"{trial.samples_file!r:.80} is not a file of samples")
    _check_numbers("startup_s", trial.startup_s)
    _check_numbers("counters", trial.counters)
    for place, numbers in trial.node_counters.items():
        _check_numbers(f"node_counters of {place!r:.80}", numbers)
    _check_numbers("noise", trial.noise)
    _check_left(trial.left or {})
    if isinstance(trial.outcome, model.Completed):
        for metric in trial.outcome.metrics:
            if metric.noise:
                _check_numbers(f"noise of {metric.key!r:.80}", metric.noise)
        why = why_no_figures(trial.outcome.metrics, trial.outcome.figures)
        if why:
            return replace(trial, outcome=model.Invalid(reason=why))
    return trial


def check_ranks(ranks: Iterable[model.RankPlace]) -> None:
    """Raise `ValueError` if the number of a rank is impossible."""
    for place in ranks:
        if not 0 <= place.rank <= MOST:
            raise ValueError(f"a rank is number {place.rank}")


def check_traffic(traffic: Iterable[model.InterfaceTraffic]) -> None:
    """Raise `ValueError` if a count of traffic is negative."""
    for item in traffic:
        for field in fields(item):
            number = getattr(item, field.name)
            if isinstance(number, int) and number < 0:
                raise ValueError(f"{field.name} is {number}")


def _check_left(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if not 0 <= count <= MOST:
            raise ValueError(f"left has {name!r:.80} {count} times")


def _check_numbers(what: str, numbers: Mapping[str, float]) -> None:
    for name, number in numbers.items():
        if not abs(number) <= MOST_DONE:
            raise ValueError(f"{what} has {name!r:.80} of {number:g}")
