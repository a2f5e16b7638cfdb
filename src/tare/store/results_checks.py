"""Find impossible values in an untrusted plan or trial, even if their types are right. Pure.

tare never writes such values, and no report could be made of them. Implausible figures of a launch are an exception:
tare 0.1.0 stored any, so they only make their trial invalid, and the other trials are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tare import model
from tare.model.text import printable
from tare.store.plausible import LONGEST_NAME, MOST, RIGHTS, is_time, out_of_bounds, sound_facts, why_no_figures

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

    Its facts are not looked at: `sound_ranks` and `sound_facts` do.
    """
    for value in (trial.key, trial, *trial.ranks, *((trial.work,) if trial.work else ())):
        if found := out_of_bounds(value):
            raise ValueError(f"{found[0]} {found[1]:g}")
    for item in trial.traffic:
        if found := out_of_bounds(item):  # counters never run backwards
            counters = f"the counters of {item.interface} of {item.node}"
            raise ValueError(f"{counters} ran backwards: {found[0]} {found[1]:g}")
    if trial.samples_file and not SAMPLES_FILE.fullmatch(trial.samples_file):
        raise ValueError(f"{trial.samples_file!r:.80} is not a file of samples")
    if isinstance(trial.outcome, model.Completed):
        why = why_no_figures(trial.outcome.metrics, trial.outcome.figures)
        if why:
            return replace(trial, outcome=model.Invalid(reason=why))
    return trial


def sound_ranks(ranks: Sequence[model.RankPlace]) -> tuple[tuple[model.RankPlace, ...], tuple[str, ...]]:
    """Return ranks without damaged facts, and the names of these."""
    kept, named = list[model.RankPlace](), list[str]()
    for place in ranks:
        rights, damaged = sound_facts(place.rights, RIGHTS)
        kept.append(replace(place, rights=rights) if damaged else place)
        named += damaged
    return tuple(kept), tuple(dict.fromkeys(named))


def sound_trial(trial: model.Trial) -> model.Trial:
    """Return a trial that can be read again once it is stored.

    If a value of it is impossible, it is invalid for that reason, and all that was counted during it is left out.
    """
    try:
        return check_trial(trial)
    except (AttributeError, TypeError, ValueError) as error:
        why = f"what was recorded of it is impossible: {printable(str(error))[:LONGEST_NAME]}"
    return replace(
        trial,
        outcome=trial.outcome if isinstance(trial.outcome, model.Failed) else model.Invalid(reason=why),
        elapsed_s=trial.elapsed_s if is_time(trial.elapsed_s) else 0.0,
        startup_s={}, ranks=(), traffic=(), counters={}, node_counters={}, noise={}, work=None,
    )  # fmt: skip
