"""Read a results folder without changing it. `tare.store.writer` describes its contents and writes it."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare import model
from tare.errors import ResultsError
from tare.store.codec import decode
from tare.store.damage import MOST_DAMAGED, RESTORE, Damage, damage_of, damage_text, facts_text, too_many
from tare.store.plausible import sound_host
from tare.store.results_checks import check_plan
from tare.store.sample_files import read_samples
from tare.store.schedule import Ledger
from tare.store.shared import Shared, read_parts
from tare.store.trial_lines import TrialLines, read_key
from tare.system.foreign_files import make_printable, read_json, read_regular

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[np.float64]]

FORMAT: Final = 2
"""Of 2, lines may refer to shared.jsonl, as those of 0.2.0 do; format 1 becomes 2 when a run resumes it."""
PLAN: Final = "plan.json"
TRIALS: Final = "trials.jsonl"
SHARED: Final = "shared.jsonl"
TRUNCATED: Final = "trials.jsonl.truncated"
SAMPLES: Final = "samples"
MOST_BYTES: Final = 1 << 30
"""Largest file size: a study of a week writes some ten MB of trials and a launch at most some hundred MB of samples."""

COLUMN: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.:=,+@/-]{1,200}")
"""Valid names of sample columns."""
DAMAGES: Final = (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile)
"""What NumPy and zipfile raise for a damaged file; RuntimeError: encrypted, NotImplementedError: an unknown method."""


@dataclass(slots=True, kw_only=True)
class Results:
    """The contents of a results folder.

    `truncated` is the number of torn last lines found in it since it was created. `facts` are the runner's facts about
    host, versions and images. `revisions` are earlier versions of the study, from when rounds, margin or the like were
    changed between runs. `looks` are the numbers of rounds, ascending, after which a run ended and showed verdicts.
    `damaged` are the lines that were left out (`read_only` with `skip_damaged`), `damaged_facts` the names of facts.
    """

    path: Path
    plan: model.Plan
    facts: Mapping[str, Any]
    truncated: int = 0
    revisions: tuple[Mapping[str, Any], ...] = ()
    looks: tuple[int, ...] = ()
    damaged: tuple[Damage, ...] = ()
    damaged_facts: tuple[str, ...] = ()
    _trials: list[model.Trial] | None = None

    @property
    def trials(self) -> list[model.Trial]:
        """Return the trials; a run that resumes earlier results reads them when they are first used."""
        if self._trials is None:
            self._trials = read_trials(self.path, self.plan).trials
        return self._trials

    @property
    def caveats(self) -> tuple[str, ...]:
        """Return warnings about what was read, for the report."""
        lines = (damage_text(self.damaged),) if self.damaged else ()
        return (*lines, facts_text(self.damaged_facts)) if self.damaged_facts else lines

    def columns(self, trial: model.Trial) -> Columns:
        """Read and return the samples of a trial by column; empty if the trial has none.

        Raises `ResultsError` if the file is missing or damaged.
        """
        return self.reader(trial)()

    def reader(self, trial: model.Trial) -> Callable[[], Columns]:
        """Return what `columns` would do for a trial, as a function that does not need the trial."""
        if not trial.samples_file:
            return dict
        return partial(columns_at, self.file(trial))

    def file(self, trial: model.Trial) -> str:
        """Return the path of the samples of a trial that has some."""
        return f"{self.path}/{SAMPLES}/{trial.samples_file.rpartition('/')[2]}"


def columns_at(path: str) -> Columns:
    """Read and return the samples of a file by column; raise `ResultsError` if it is missing or damaged."""
    try:
        columns = read_samples(path, MOST_BYTES)
        if wrong := next((name for name in columns if not _is_column(name)), None):
            raise ValueError(f"{wrong!r:.80} cannot name a column of samples")
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing, but a trial in {TRIALS} refers to it") from None
    except DAMAGES as error:
        raise ResultsError(f"{path} is damaged: {error}") from error
    return columns


@lru_cache(maxsize=4096)
def _is_column(name: str) -> bool:
    return COLUMN.fullmatch(name) is not None


@dataclass(slots=True, kw_only=True)
class StoredTrials:
    """The trials of a folder, the bytes of a torn last line, and the lines and facts that were left out."""

    trials: list[model.Trial]
    torn: bytes
    damaged: tuple[Damage, ...] = ()
    damaged_facts: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Scan:
    """What a run must know of a folder to resume it; its trials are not decoded.

    `torn_at` is the offset of a torn last line of trials.jsonl (None: all lines are complete) and `torn` its bytes.
    """

    ledger: Ledger
    samples: set[str]
    torn_at: int | None
    torn: bytes


def read_only(path: Path, *, skip_damaged: bool = False) -> Results:
    """Return the contents of a results folder for display, even while a run writes to it; lock and repair nothing.

    A torn last line is skipped and counted. Texts are made printable, because the folder may come from someone else.
    With `skip_damaged`, damaged lines are left out and listed in `damaged`. Raises `ResultsError` if the folder is not
    a results folder, or for a damaged line; with `skip_damaged` only if no line can be used or too many cannot.
    """
    if not path.is_dir():
        raise ResultsError(f"results folder {path} not found", remedy="`tare run STUDY.yaml` creates one")
    header = make_printable(read_plan(path))
    plan = decode_plan(path, header)
    stored = read_trials(path, plan, to_show=True, skip_damaged=skip_damaged)
    facts, damaged = sound_host(header.get("facts", {}))
    return Results(
        path=path,
        plan=plan,
        facts=facts,
        _trials=stored.trials,
        truncated=count_notes(path) + bool(stored.torn),
        revisions=tuple(header.get("revisions", ())),
        looks=parse_looks(header),
        damaged=stored.damaged,
        damaged_facts=(*stored.damaged_facts, *damaged),
    )


def read_plan(path: Path) -> dict[str, Any]:
    """Return the contents of plan.json undecoded: the plan, the facts and earlier versions of the study."""
    file = path / PLAN
    try:
        header = read_json(read_regular(file, MOST_BYTES))
        version = header["format"]
        _check_header(header)
    except FileNotFoundError:
        raise ResultsError(f"{path} is not a results folder: it has no {PLAN}", remedy="name another folder") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{file} is damaged: {error}", remedy=RESTORE) from None
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from error
    if version > FORMAT:
        raise ResultsError(
            f"{path} was written in format {version}; this tare reads formats up to {FORMAT}",
            remedy="update tare, or use another folder",
        )
    return dict(header)


def parse_looks(header: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers of rounds after which verdicts were shown.

    0.1.0 stored only the previously requested numbers of rounds, in the revisions; those are used then.
    """
    noted = header.get("looks")
    if noted is None:
        noted = [_rounds_of(revision) for revision in header.get("revisions", ())]
    return tuple(
        sorted({rounds for rounds in noted if isinstance(rounds, int) and not isinstance(rounds, bool) and rounds > 0})
    )


def _rounds_of(revision: Mapping[str, Any]) -> Any:
    study = revision.get("study")
    repetition = study.get("repetition") if isinstance(study, dict) else None
    return repetition.get("rounds") if isinstance(repetition, dict) else None


def _check_header(header: dict[str, Any]) -> None:
    if isinstance(header["format"], bool) or not isinstance(header["format"], int):
        raise ValueError("its format is not a number")
    if not isinstance(header.get("facts", {}), dict):
        raise ValueError("its facts are not a mapping")
    if not isinstance(header.get("facts", {}).get("identity", {}), dict):
        raise ValueError("the identity in its facts is not a mapping")
    revisions = header.get("revisions", [])
    if not isinstance(revisions, list) or not all(isinstance(revision, dict) for revision in revisions):
        raise ValueError("its revisions are not a list of mappings")
    if not isinstance(header.get("looks", []), list | type(None)):
        raise ValueError("its looks are not a list")


def decode_plan(path: Path, header: Mapping[str, Any]) -> model.Plan:
    """Return the plan from a header that `read_plan` returned."""
    try:
        plan = decode(model.Plan, header["plan"])
        check_plan(plan)
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{path / PLAN} is damaged: {error}", remedy=RESTORE) from None
    return plan


def read_trials(path: Path, plan: model.Plan, *, to_show: bool = False, skip_damaged: bool = False) -> StoredTrials:
    """Return the trials of a folder. With `to_show`, texts are made printable; `read_only` describes `skip_damaged`."""
    data, end, shared, damaged = _read_files(path, to_show=to_show, skip_damaged=skip_damaged)
    lines = TrialLines(shared, to_show=to_show)
    trials, seen = [], set[model.TrialKey]()
    cells = {cell.key for cell in plan.cells}
    for number, line in enumerate(_split(data, end), start=1):
        try:
            trial = lines.decode(line)
            known = len(seen)
            seen.add(trial.key)
            if trial.key.cell not in cells or len(seen) == known:
                raise _not_of_plan(path, number, trial.key, cells)
        except (ValueError, TypeError, ResultsError) as error:
            complaint = error if isinstance(error, ResultsError) else _not_a_trial(path, number, error)
            if not skip_damaged:
                raise complaint from None
            damaged.append(damage_of(path / TRIALS, number, complaint))
            if len(damaged) > MOST_DAMAGED:
                raise too_many(path, damaged[0]) from None
            continue
        trials.append(trial)
    if damaged and not trials:
        raise ResultsError(f"no line of {path / TRIALS} can be used: {damaged[0]}", remedy=RESTORE)
    facts = tuple(sorted(lines.damaged_facts))
    return StoredTrials(trials=trials, torn=data[end:], damaged=tuple(damaged), damaged_facts=facts)


def scan(path: Path, plan: model.Plan) -> Scan:
    """Return what a run must know to resume a folder; each line is parsed, and its key and outcome are decoded."""
    data, end, *_ = _read_files(path)
    ledger, samples = Ledger(), set[str]()
    cells = frozenset(cell.key for cell in plan.cells)
    for number, line in enumerate(_split(data, end), start=1):
        try:
            key, outcome, file = read_key(line)
        except (ValueError, TypeError) as error:
            raise _not_a_trial(path, number, error) from None
        ledger.add(key, outcome)
        if len(ledger.keys) < number or key.cell not in cells:
            raise _not_of_plan(path, number, key, cells)
        if file:
            samples.add(file)
    torn = data[end:]
    return Scan(ledger=ledger, samples=samples, torn_at=end if torn else None, torn=torn)


def _not_a_trial(path: Path, number: int, error: Exception) -> ResultsError:
    return ResultsError(
        f"{path / TRIALS}:{number}: this line is not a trial ({error})",
        remedy=f"tare never changes a line: {RESTORE}",
    )


def _not_of_plan(path: Path, number: int, key: model.TrialKey, cells: Collection[str]) -> ResultsError:
    if key.cell not in cells:
        return ResultsError(f"{path / TRIALS}:{number}: the plan has no cell {key.cell!r}", remedy=RESTORE)
    return ResultsError(f"{path / TRIALS}:{number}: this trial occurs twice: {key_text(key)}", remedy=RESTORE)


def _read_files(
    path: Path, *, to_show: bool = False, skip_damaged: bool = False
) -> tuple[bytes, int, Shared, list[Damage]]:
    """Return trials.jsonl, where its valid lines end, the parts that they share, and their damaged lines."""
    data = _read_lines(path / TRIALS)
    shared, bad = read_parts(_read_lines(path / SHARED), MOST_DAMAGED if skip_damaged else 0, to_show=to_show)
    complaints = [
        ResultsError(f"{path / SHARED}:{number}: this line is damaged", remedy=f"tare never changes a line: {RESTORE}")
        for number in bad
    ]
    if len(bad) > MOST_DAMAGED:
        raise too_many(path)
    if bad and not skip_damaged:
        raise complaints[0]
    end = data.rfind(b"\n") + 1
    if end == len(data) and end and not _is_json(data[(last := data.rfind(b"\n", 0, end - 1) + 1) : end]):
        end = last
    damaged = [damage_of(path / SHARED, number, error) for number, error in zip(bad, complaints, strict=True)]
    return data, end, shared, damaged


def _read_lines(file: Path) -> bytes:
    try:
        return read_regular(file, MOST_BYTES)
    except FileNotFoundError:
        return b""
    except ValueError as error:
        raise ResultsError(f"{file} is damaged: {error}", remedy=RESTORE) from None
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from error


def _split(data: bytes, end: int) -> Iterator[bytes]:
    """Yield the lines of data up to `end`, without a list of all of them."""
    start = 0
    while start < end:
        stop = data.index(b"\n", start)
        yield data[start:stop]
        start = stop + 1


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def key_text(key: model.TrialKey) -> str:
    """Return a trial's key as text for a message."""
    repeat = f", repeat {key.repeat}" if key.repeat else ""
    return f"{key.cell}, round {key.round}, block {key.block}, attempt {key.attempt}{repeat}"


def count_notes(path: Path) -> int:
    """Return the number of torn last lines that were put aside so far."""
    try:
        return read_regular(path / TRUNCATED, MOST_BYTES).count(b"\n")
    except (OSError, ValueError):
        return 0
