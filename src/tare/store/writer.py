"""Store a study's results so that killing tare at any moment loses at most the running trial.

    results/NAME/
      plan.json                 the expanded study, facts about the host, versions; written last, by renaming
      trials.jsonl              one line a trial, its whole record, appended and synced as it ends: the commit record
      shared.jsonl              of tare 0.2.0: what its lines refer to (`tare.store.shared`)
      samples/                  one .npz a trial (uncompressed), renamed into place before the trial's line is written
      trials.jsonl.truncated    the contents of torn last lines
      lock                      held while a `tare run` writes here

Lines are never changed or deleted. When a block was interrupted, each cell without a trial gets a line with the outcome
`Interrupted`, and `Ledger.remaining` then returns the block as its next attempt (`tare.store.schedule`). Only
`tare.analysis.summary.select` decides which launches count. `tare.store.results` reads a folder without writing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tare import model
from tare.errors import InfrastructureError, ResultsError
from tare.model.text import bytes_label
from tare.store.codec import decode, encode
from tare.store.results import (
    FORMAT,
    MOST_BYTES,
    PLAN,
    SAMPLES,
    TRIALS,
    Results,
    count_notes,
    decode_plan,
    key_text,
    parse_looks,
    read_only,
    read_plan,
    scan,
)
from tare.store.results_checks import sound_trial
from tare.store.results_folder import (
    Lines,
    archive_results,
    close_file,
    make_folder,
    make_samples,
    remove_orphans,
    set_torn_line_aside,
    take_lock,
    write_plan,
    write_samples,
)
from tare.store.schedule import Ledger, can_run
from tare.store.trial_lines import encode_line
from tare.system.fault import reach
from tare.system.signals import uninterrupted

if TYPE_CHECKING:
    from tare.store.results import Columns

__all__ = [
    "Results",
    "Store",
    "decode",
    "encode",
    "read_only",
]


@dataclass(slots=True, kw_only=True)
class Store(Results):
    """A results folder that is open for writing and locked; close it, or use it as a context manager.

    `interrupted` is the number of interrupted blocks found when the folder was opened, `ledger` what is stored.
    """

    interrupted: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    _lock: int = -1
    _file: Lines | None = None
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of trials."""
        return len(self.ledger.keys)

    @classmethod
    def create_or_open(
        cls, path: Path, plan: model.Plan, facts: Mapping[str, Any] | None = None, *, fresh: bool = False
    ) -> Store:
        """Return the store at `path`: a new one, or the existing one to resume if it holds results of the same study.

        `facts["identity"]` holds the facts that must not change between runs of one study (kernel, CPU, MPI version,
        image digests): runs from unlike hosts are not merged. With `fresh`, earlier results are moved to
        `NAME.previous-N`. Raises `ResultsError` if the folder belongs to something else, is damaged or is in use.
        """
        lock = -1
        try:
            make_folder(path)
            lock = take_lock(path)
            if fresh and (path / PLAN).exists():
                archive_results(path)
                os.close(lock)
                lock = -1
                make_folder(path)
                lock = take_lock(path)
            start = cls._open if (path / PLAN).exists() else cls._create
            return start(path, plan, facts or {}, lock)
        except OSError as error:
            close_file(lock)
            raise ResultsError(f"{path} cannot be written: {error.strerror}") from error
        except BaseException:
            close_file(lock)
            raise

    def append(self, trial: model.Trial, columns: Columns | None = None) -> model.Trial:
        """Store a trial and its samples and return it as stored (`samples_file` set).

        When this returns, the trial is on disk; an interrupt takes effect then. Raises `InfrastructureError` if it
        cannot be written; the folder is then unchanged.
        """
        trial = sound_trial(trial)
        if self._file is None:
            raise ResultsError(f"{self.path} is closed")
        try:
            with uninterrupted():
                if columns:
                    name = self._samples_name(trial.key)
                    write_samples(self.path / SAMPLES / name, columns)
                    trial = replace(trial, samples_file=f"{SAMPLES}/{name}")
                    reach("store:after-samples")
                self._write_lines([trial])
        except OSError as error:
            raise InfrastructureError(
                f"the trial {key_text(trial.key)} cannot be written to {self.path}: {error.strerror}",
                remedy="free some disk space, then run the same command again to resume",
            ) from error
        reach("store:after-trial")
        return trial

    def note_look(self, rounds_done: int) -> None:
        """Record that a run ended by itself after so many rounds: showing its verdicts spends error probability."""
        if rounds_done > 0 and rounds_done not in self.looks:
            self.looks = tuple(sorted({*self.looks, rounds_done}))
            self._write_header(looks=list(self.looks))

    def note_facts(self, **facts: Any) -> None:
        """Record facts that are known only once the cluster is up."""
        if any(self.facts.get(name) != value for name, value in encode(facts).items()):
            self.facts = {**self.facts, **encode(facts)}
            self._write_header(facts=encode(self.facts))

    def _write_header(self, **changed: Any) -> None:
        try:
            write_plan(self.path, self.plan, {**read_plan(self.path), **changed})
        except OSError as error:
            raise InfrastructureError(
                f"{self.path / PLAN} cannot be written: {error.strerror}",
                remedy="free some disk space, then run the same command again",
            ) from error

    def close(self) -> None:
        """Close the files and release the lock; may be called more than once."""
        if self._file is not None:
            self._file.close()
        close_file(self._lock)
        self._file = None
        self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _create(cls, path: Path, plan: model.Plan, facts: Mapping[str, Any], lock: int) -> Store:
        make_samples(path)
        store = cls(path=path, plan=plan, facts=encode(facts), _trials=[], _lock=lock)
        store._file = Lines(path, TRIALS)
        write_plan(path, plan, {"created_unix_s": time.time(), "facts": encode(facts), "revisions": [], "looks": []})
        return store

    @classmethod
    def _open(cls, path: Path, plan: model.Plan, facts: Mapping[str, Any], lock: int) -> Store:
        header = read_plan(path)
        stored = decode_plan(path, header)
        _refuse_other_study(path, stored, plan)
        _refuse_other_host(path, header.get("facts", {}), facts)
        read = scan(path, plan)
        _refuse_lost_cells(path, plan, read.ledger)
        make_samples(path)
        if read.torn_at is not None:
            set_torn_line_aside(path, read.torn_at, read.torn)
        remove_orphans(path, read.samples)
        store = cls(
            path=path,
            plan=plan,
            facts=header.get("facts", {}),
            ledger=read.ledger,
            truncated=count_notes(path),
            _lock=lock,
        )
        if header["format"] < FORMAT:
            write_plan(path, stored, header)  # before the first line that an earlier release cannot read
        store._file = Lines(path, TRIALS)
        store.interrupted = store._mark_interrupted(stored)
        if stored.study != plan.study:
            header.setdefault("revisions", []).append({"study": encode(stored.study), "until_unix_s": time.time()})
        if stored != plan:
            write_plan(path, plan, header)
        store.revisions = tuple(header.get("revisions", ()))
        store.looks = parse_looks(header)
        return store

    def _mark_interrupted(self, planned: model.Plan) -> int:
        """Write a line for each cell that an interrupted attempt lacks; return the number of interrupted attempts.

        `planned` is the plan under which they ran. Blocks run one after the other, so only two attempts can be
        incomplete: the attempt of the last line, and one whose marking was itself interrupted.
        """
        ledger = self.ledger
        marked = {*ledger.interrupted, *((ledger.last,) if ledger.last else ())}
        broken = 0
        for round_, block, attempt in sorted(marked):
            ran = ledger.attempts[round_, block, attempt]
            missing = [cell for cell in can_run(planned) if cell not in ran]
            broken += bool(missing)
            markers = [
                model.Trial(
                    key=model.TrialKey(cell=cell, round=round_, block=block, attempt=attempt),
                    position=position,
                    started_unix_s=time.time(),
                    elapsed_s=0.0,
                    outcome=model.Interrupted(),
                )
                for position, cell in enumerate(missing, start=len(ran))
            ]
            if markers:
                self._write_lines(markers)
        return broken

    def _samples_name(self, key: model.TrialKey) -> str:
        if not self._numbers:
            self._numbers = {cell.key: number for number, cell in enumerate(self.plan.cells)}
        index = self._numbers.get(key.cell)
        if index is None:
            raise ValueError(f"the plan has no cell {key.cell!r}")
        repeat = f"-n{key.repeat:02d}" if key.repeat else ""
        return f"r{key.round:04d}-b{key.block:02d}-a{key.attempt:02d}-c{index:04d}{repeat}.npz"

    def _write_lines(self, trials: Sequence[model.Trial]) -> None:
        """Append the lines of trials in one write and sync; a file that could not be read again is not written."""
        if self._file is None:
            raise ResultsError(f"{self.path} is closed")
        lines = b"".join(map(encode_line, trials))
        if self._file.end + len(lines) > MOST_BYTES:
            raise InfrastructureError(
                f"{self.path / TRIALS} is full: at most {bytes_label(MOST_BYTES)} of it are read",
                remedy="`tare report` shows what is there; measure more in another folder (--results)",
            )
        self._file.append(lines)
        for trial in trials:
            self.ledger.add(trial.key, type(trial.outcome).__name__)
        if self._trials is not None:
            self._trials.extend(trials)


def _refuse_other_study(path: Path, stored: model.Plan, plan: model.Plan) -> None:
    if stored.digest == plan.digest or _what_is_measured(stored.study) == _what_is_measured(plan.study):
        return  # a new key in the study format changes the digest alone; older results have its default
    names = [f.name for f in fields(model.Study)]
    differ = ", ".join(name for name in names if getattr(stored.study, name) != getattr(plan.study, name)) or "form"
    raise ResultsError(
        f"{path} holds the results of another study ({stored.study.name}); they differ in {differ}",
        remedy="name another folder, or archive these results and start over with --fresh",
    )


def _what_is_measured(study: model.Study) -> model.Study:
    """Return a study without its name and its stopping and judging rules, as `tare.study.plan.cells.digest` does."""
    blocks = model.Repetition(blocks_per_round=study.repetition.blocks_per_round, turns=study.repetition.turns)
    return replace(study, name="", margin=0.0, limit=None, published=(), repetition=blocks)


def _refuse_other_host(path: Path, stored: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    before, now = stored.get("identity", {}), encode(facts.get("identity", {}))
    changed = [key for key in now if now[key] != before.get(key, now[key])]
    if changed:
        changes = "; ".join(f"{key} was {before[key]!r} and is {now[key]!r}" for key in changed)
        raise ResultsError(
            f"{path} was measured elsewhere or on other software: {changes}",
            remedy="results of different hosts or programs are not merged: choose another folder with --results, "
            "or start over with --fresh",
        )


def _refuse_lost_cells(path: Path, plan: model.Plan, ledger: Ledger) -> None:
    for cell, reason in plan.unavailable.items():
        if cell in ledger.completed:
            raise ResultsError(
                f"{path} has trials of {cell!r}, which cannot run now: {reason}",
                remedy="make it available and run the same command again, or start over with --fresh",
            )
