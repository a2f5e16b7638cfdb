"""Keep a study's results so that killing the tool at any instant loses at most the trial that was running.

    results/NAME/
      plan.json                 the expanded study, facts about the host, versions; written last, by renaming
      trials.jsonl              one line a trial, appended and synced as it ends: the commit record
      samples/                  one .npz a trial (uncompressed), renamed into place before the trial's line is written
      trials.jsonl.truncated    what a torn last line held, kept aside
      lock                      held while a `tare run` writes here

Lines are never changed or deleted. A block that was broken off gets a line with the outcome `Interrupted` for each cell
that has none, and `remaining_blocks` then hands it out again as its next attempt; `counted` picks the trials
that count. The lock is a POSIX one (`lockf`), because a forked child does not inherit it: a pod holder that
outlives a killed run must not keep the folder shut, as it would with `flock`.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
import types
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from tare import __version__, model
from tare.errors import InfrastructureError, ResultsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[np.float64]]

FORMAT: Final = 1
PLAN: Final = "plan.json"
TRIALS: Final = "trials.jsonl"
TRUNCATED: Final = "trials.jsonl.truncated"
SAMPLES: Final = "samples"
LOCK: Final = "lock"
_PARTIAL: Final = ".partial"
_OURS: Final = frozenset({PLAN, TRIALS, TRUNCATED, SAMPLES, LOCK, PLAN + _PARTIAL})
_SAMPLES_NAME: Final = re.compile(r"r\d+-b\d+-a\d+-c\d+\.npz(\.partial)?")
_COLUMN: Final = re.compile(r"[A-Za-z0-9_.:=,+@/-]{1,200}")

T = TypeVar("T")
BlockKey = tuple[int, int, int]


# --- dataclasses <-> JSON ---------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Return JSON data for a value of the model.

    A dataclass becomes an object with its class's name as `type`; floats are exact (those that JSON has no word for
    become text).
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [encode(inner) for inner in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return encode(value.item())
    raise TypeError(f"{type(value).__name__} cannot be stored")


def decode(cls: type[T], data: Any) -> T:
    """Return the value of type `cls` that `encode` made `data` from.

    Keys that the class does not have are ignored and keys that are missing take their defaults, so that a field can
    be added without a new format. Raises `ValueError` where the data does not fit.
    """
    return _decode(cls, data)  # type: ignore[no-any-return]


def _decode(wanted: Any, data: Any) -> Any:
    origin = get_origin(wanted)
    if wanted is Any:
        return data
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(wanted), data)
    if origin is tuple:
        return tuple(_decode(get_args(wanted)[0], inner) for inner in _expect(data, list))
    if origin is Mapping:
        inner_type = get_args(wanted)[1]
        return {key: _decode(inner_type, inner) for key, inner in _expect(data, dict).items()}
    if wanted is float:
        if isinstance(data, str) and data not in ("nan", "inf", "-inf"):
            raise ValueError(f"{data!r} is not a number")
        return float(_expect(data, int, float, str))
    if is_dataclass(wanted):
        return _decode_dataclass(wanted, data)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted(data)
    return _expect(data, wanted)


def _decode_union(members: Sequence[Any], data: Any) -> Any:
    if data is None:
        if type(None) in members:
            return None
        raise ValueError("a value is missing")
    choices = [member for member in members if member is not type(None)]
    if len(choices) == 1:
        return _decode(choices[0], data)
    name = _expect(data, dict).get("type")
    for choice in choices:
        if choice.__name__ == name:
            return _decode(choice, data)
    raise ValueError(f"{name!r} is none of {', '.join(choice.__name__ for choice in choices)}")


def _decode_dataclass(wanted: Any, data: Any) -> Any:
    given = _expect(data, dict)
    if given.get("type", wanted.__name__) != wanted.__name__:
        raise ValueError(f"{given['type']} stands where {wanted.__name__} should")
    values = {}
    for name, hint, needed in _fields_of(wanted):
        if name in given:
            values[name] = _decode(hint, given[name])
        elif needed:
            raise ValueError(f"{wanted.__name__} lacks {name}")
    return wanted(**values)


@cache
def _fields_of(wanted: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(wanted)
    return tuple((f.name, hints[f.name], f.default is MISSING and f.default_factory is MISSING) for f in fields(wanted))


def _expect(data: Any, *allowed: type) -> Any:
    if not isinstance(data, allowed) or (isinstance(data, bool) and bool not in allowed):
        raise ValueError(f"{data!r:.60} stands where {' or '.join(kind.__name__ for kind in allowed)} should")
    return data


# --- results that are read --------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Results:
    """What a results folder holds. `truncated` is the number of torn last lines that were found in it, ever.

    `facts` is what the runner wrote about host, versions and images; `revisions` are earlier statements of the
    study, when rounds, margin or the like were changed between runs.
    """

    path: Path
    plan: model.Plan
    facts: Mapping[str, Any]
    trials: list[model.Trial]
    truncated: int = 0
    revisions: tuple[Mapping[str, Any], ...] = ()

    def columns(self, trial: model.Trial) -> Columns:
        """Return the samples of a trial by column, read now; nothing for a trial that left none.

        Raises `ResultsError` when the file is missing or damaged.
        """
        if not trial.samples_file:
            return {}
        import numpy as np  # takes 0.1 s that `tare plan` need not pay

        path = self.path / SAMPLES / Path(trial.samples_file).name
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except FileNotFoundError:
            raise ResultsError(f"{path} is missing, and a trial in {TRIALS} refers to it") from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ResultsError(f"{path} is damaged: {error}") from error


def read_only(path: Path) -> Results:
    """Return what a results folder holds, also while a run writes to it; locks and repairs nothing.

    A torn last line is left out and counted. Raises `ResultsError` when the folder is no results folder.
    """
    if not path.is_dir():
        raise ResultsError(f"{path}: there is no such results folder", remedy="`tare run STUDY.yaml` makes one")
    header = _read_plan(path)
    plan = _plan_of(path, header)
    trials, torn_at, _ = _read_trials(path / TRIALS, plan)
    return Results(
        path=path,
        plan=plan,
        facts=header.get("facts", {}),
        trials=trials,
        truncated=_count_notes(path) + (torn_at is not None),
        revisions=tuple(header.get("revisions", ())),
    )


def _read_plan(path: Path) -> dict[str, Any]:
    file = path / PLAN
    try:
        header = json.loads(file.read_bytes())
        version = header["format"]
    except FileNotFoundError:
        raise ResultsError(f"{path} is not a results folder: it has no {PLAN}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{file} is damaged: {error}") from None
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from error
    if not isinstance(version, int) or version > FORMAT:
        raise ResultsError(
            f"{path} was written in format {version}, and this tare reads formats up to {FORMAT}",
            remedy="update tare, or use another folder",
        )
    return dict(header)


def _plan_of(path: Path, header: Mapping[str, Any]) -> model.Plan:
    try:
        return decode(model.Plan, header["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{path / PLAN} is damaged: {error}") from None


def _read_trials(file: Path, plan: model.Plan) -> tuple[list[model.Trial], int | None, bytes]:
    """Return the trials, the offset where a torn last line begins (None: all lines are whole), and its bytes."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return [], None, b""
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from error
    lines = data.split(b"\n")
    torn_at = len(data) - len(lines[-1]) if lines[-1] else None
    whole = lines[:-1]
    if torn_at is None and whole and not _is_json(whole[-1]):
        torn_at = len(data) - len(whole.pop()) - 1
    cells = {cell.key for cell in plan.cells}
    seen: set[model.TrialKey] = set()
    trials = []
    for number, line in enumerate(whole, start=1):
        try:
            trial = decode(model.Trial, json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise ResultsError(
                f"{file}:{number}: this line is no trial ({error})",
                remedy="lines are never changed by tare: restore the file from a copy, or begin afresh (--fresh)",
            ) from None
        if trial.key in seen:
            raise ResultsError(f"{file}:{number}: this trial is there twice: {_told(trial.key)}")
        if trial.key.cell not in cells:
            raise ResultsError(f"{file}:{number}: the plan has no cell {trial.key.cell!r}")
        seen.add(trial.key)
        trials.append(trial)
    return trials, torn_at, b"" if torn_at is None else data[torn_at:]


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _told(key: model.TrialKey) -> str:
    return f"{key.cell}, round {key.round}, block {key.block}, attempt {key.attempt}"


def _count_notes(path: Path) -> int:
    try:
        return (path / TRUNCATED).read_bytes().count(b"\n")
    except OSError:
        return 0


# --- what was run, and what is still to run ---------------------------------------------------------------------


def attempts(trials: Iterable[model.Trial]) -> dict[BlockKey, dict[str, model.Trial]]:
    """Return the trials by (round, block, attempt) and then by cell."""
    found: defaultdict[BlockKey, dict[str, model.Trial]] = defaultdict(dict)
    for trial in trials:
        found[trial.key.round, trial.key.block, trial.key.attempt][trial.key.cell] = trial
    return dict(found)


def is_complete(plan: model.Plan, block: dict[str, model.Trial]) -> bool:
    """Say whether one attempt at a block has a trial of every cell that can run, and was not interrupted."""
    return not _is_interrupted(block) and all(cell in block for cell in _can_run(plan))


def remaining_blocks(
    plan: model.Plan, trials: Iterable[model.Trial], *, rounds: int | None = None
) -> Iterator[BlockKey]:
    """Yield (round, block, attempt) of every block without a complete attempt, in order.

    A block that was broken off comes again whole, as its next attempt, so that pairs stay pairs; where no cell can
    run there is nothing. `rounds` looks
    further than the study's own number of rounds (up to `max_rounds` the runner may go on).
    """
    if not _can_run(plan):
        return
    done = attempts(trials)
    complete = {key[:2] for key, block in done.items() if is_complete(plan, block)}
    repeat = plan.study.repetition
    for round_ in range(repeat.rounds if rounds is None else rounds):
        for block in range(repeat.blocks_per_round):
            if (round_, block) not in complete:
                tried = [key[2] for key in done if key[:2] == (round_, block)]
                yield round_, block, max(tried, default=-1) + 1


def counted(plan: model.Plan, trials: Iterable[model.Trial]) -> tuple[model.Trial, ...]:
    """Return the trials that count: those of each block's last complete attempt, in order of (round, block)."""
    last: dict[tuple[int, int], tuple[int, dict[str, model.Trial]]] = {}
    for (round_, block, attempt), found in attempts(trials).items():
        if is_complete(plan, found) and attempt >= last.get((round_, block), (-1, {}))[0]:
            last[round_, block] = (attempt, found)
    return tuple(trial for key in sorted(last) for trial in last[key][1].values())


def _is_interrupted(block: Mapping[str, model.Trial]) -> bool:
    return any(isinstance(trial.outcome, model.Interrupted) for trial in block.values())


def _can_run(plan: model.Plan) -> list[str]:
    return [cell.key for cell in plan.cells if cell.key not in plan.unavailable]


# --- results that are written -----------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Store(Results):
    """A results folder that is open for writing and locked; close it, or use it as a context manager.

    `interrupted` is the number of blocks that were found broken off when the folder was opened.
    """

    interrupted: int = 0
    _lock: int = -1
    _file: int = -1
    _end: int = 0

    @classmethod
    def create_or_open(
        cls, path: Path, plan: model.Plan, facts: Mapping[str, Any] | None = None, *, fresh: bool = False
    ) -> Store:
        """Return the store at `path`: a new one, or the one to go on with when the plan's digest is the same.

        `facts["identity"]` holds what must not change between runs of one study (kernel, CPU, MPI version, image
        digests): runs from unlike hosts are not merged. With `fresh` earlier results are moved to
        `NAME.previous-N`. Raises `ResultsError` when the folder belongs to something else, is damaged or is in use.
        """
        lock = -1
        try:
            _make_folder(path)
            lock = _take_lock(path)
            if fresh and (path / PLAN).exists():
                _move_aside(path)
                os.close(lock)
                lock = -1
                _make_folder(path)
                lock = _take_lock(path)
            start = cls._open if (path / PLAN).exists() else cls._create
            return start(path, plan, facts or {}, lock)
        except OSError as error:
            _close(lock)
            raise ResultsError(f"{path} cannot be written: {error.strerror}") from error
        except BaseException:
            _close(lock)
            raise

    def append(self, trial: model.Trial, columns: Columns | None = None) -> model.Trial:
        """Store a trial and its samples and return it as stored (`samples_file` set).

        When this returns, the trial is on the disk. Raises `InfrastructureError` when it cannot be written; the folder
        is then as it was before.
        """
        if self._file < 0:
            raise ResultsError(f"{self.path} is closed")
        try:
            if columns:
                name = self._samples_name(trial.key)
                _write_samples(self.path / SAMPLES / name, columns)
                trial = replace(trial, samples_file=f"{SAMPLES}/{name}")
            self._write_lines([trial])
        except OSError as error:
            raise InfrastructureError(
                f"the trial {_told(trial.key)} cannot be written to {self.path}: {error.strerror}",
                remedy="make room, then give the same command again: it goes on where it stopped",
            ) from error
        return trial

    def close(self) -> None:
        """Close the files and let go of the lock; can be called again."""
        _close(self._file)
        _close(self._lock)
        self._file = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _create(cls, path: Path, plan: model.Plan, facts: Mapping[str, Any], lock: int) -> Store:
        (path / SAMPLES).mkdir(exist_ok=True)
        file = _open_trials(path)
        _write_plan(path, plan, {"created_unix_s": time.time(), "facts": encode(facts), "revisions": []})
        return cls(path=path, plan=plan, facts=facts, trials=[], _file=file, _lock=lock)

    @classmethod
    def _open(cls, path: Path, plan: model.Plan, facts: Mapping[str, Any], lock: int) -> Store:
        header = _read_plan(path)
        stored = _plan_of(path, header)
        _refuse_other_study(path, stored, plan)
        _refuse_other_host(path, header.get("facts", {}), facts)
        trials, torn_at, torn = _read_trials(path / TRIALS, plan)
        _refuse_lost_cells(path, plan, trials)
        (path / SAMPLES).mkdir(exist_ok=True)
        if torn_at is not None:
            _cut_off(path, torn_at, torn)
        _remove_orphans(path, trials)
        file = _open_trials(path)
        store = cls(
            path=path,
            plan=plan,
            facts=header.get("facts", {}),
            trials=trials,
            truncated=_count_notes(path),
            _file=file,
            _lock=lock,
            _end=os.fstat(file).st_size,
        )
        store.interrupted = store._mark_interrupted(stored)
        if stored.study != plan.study:
            header.setdefault("revisions", []).append({"study": encode(stored.study), "until_unix_s": time.time()})
        if stored != plan:
            _write_plan(path, plan, header)
        store.revisions = tuple(header.get("revisions", ()))
        return store

    def _mark_interrupted(self, planned: model.Plan) -> int:
        """Write a line for each cell that a broken attempt lacks; return how many attempts were found broken.

        `planned` is the plan under which they ran. Blocks run one after the other, so only the attempt of the last
        line can be broken, and one whose marking was itself broken off.
        """
        found = attempts(self.trials)
        marked = {key for key, block in found.items() if _is_interrupted(block)}
        if self.trials:
            last = self.trials[-1].key
            marked.add((last.round, last.block, last.attempt))
        broken = 0
        for round_, block, attempt in sorted(marked):
            ran = found[round_, block, attempt]
            missing = [cell for cell in _can_run(planned) if cell not in ran]
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
        index = next((i for i, cell in enumerate(self.plan.cells) if cell.key == key.cell), None)
        if index is None:
            raise ValueError(f"the plan has no cell {key.cell!r}")
        return f"r{key.round:04d}-b{key.block:02d}-a{key.attempt:02d}-c{index:04d}.npz"

    def _write_lines(self, trials: Sequence[model.Trial]) -> None:
        """Append lines in one write and sync; a write that fails half-way is taken back."""
        data = b"".join(json.dumps(encode(trial), separators=(",", ":")).encode() + b"\n" for trial in trials)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)
        self.trials.extend(trials)


def _close(number: int) -> None:
    if number >= 0:
        os.close(number)


def _make_folder(path: Path) -> None:
    """Make the folder, or check that what is there is ours or empty."""
    if path.exists() and not path.is_dir():
        raise ResultsError(f"{path} is a file: results need a folder")
    path.mkdir(parents=True, exist_ok=True)
    if (path / PLAN).exists():
        return
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in _OURS)
    if foreign:
        raise ResultsError(
            f"{path} is not a results folder and not empty (it has {foreign[0]})", remedy="name another folder"
        )
    if (path / TRIALS).exists() and (path / TRIALS).stat().st_size:
        raise ResultsError(f"{path} has trials but no {PLAN}", remedy="restore it from a copy, or name another folder")


def _take_lock(path: Path) -> int:
    number = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(number, 20, 0).decode(errors="replace").strip()
        os.close(number)
        raise ResultsError(
            f"another tare writes to {path} now (process {owner or 'unknown'})",
            remedy="wait until it has ended, or name another folder",
        ) from None
    os.ftruncate(number, 0)
    os.pwrite(number, f"{os.getpid()}\n".encode(), 0)
    return number


def _move_aside(path: Path) -> None:
    number = 1
    while (aside := path.with_name(f"{path.name}.previous-{number}")).exists():
        number += 1
    path.rename(aside)


def _open_trials(path: Path) -> int:
    return os.open(path / TRIALS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _write_plan(path: Path, plan: model.Plan, header: Mapping[str, Any]) -> None:
    """Write plan.json whole or not at all."""
    stated = dict(header) | {"format": FORMAT, "tool": f"tare {__version__}", "plan": encode(plan)}
    partial = path / (PLAN + _PARTIAL)
    with partial.open("w") as file:
        json.dump(stated, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path / PLAN)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _refuse_other_study(path: Path, stored: model.Plan, plan: model.Plan) -> None:
    if stored.digest == plan.digest:
        return
    names = [f.name for f in fields(model.Study)]
    differ = ", ".join(name for name in names if getattr(stored.study, name) != getattr(plan.study, name)) or "form"
    raise ResultsError(
        f"{path} holds the results of another study ({stored.study.name}); they differ in {differ}",
        remedy="name another folder, or move these results aside and begin afresh with --fresh",
    )


def _refuse_other_host(path: Path, stored: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    before, now = stored.get("identity", {}), encode(facts.get("identity", {}))
    changed = [key for key in now if now[key] != before.get(key, now[key])]
    if changed:
        told = "; ".join(f"{key} was {before[key]!r} and is {now[key]!r}" for key in changed)
        raise ResultsError(
            f"{path} was measured elsewhere or on other software: {told}",
            remedy="runs from unlike hosts are not merged: name another folder, or begin afresh with --fresh",
        )


def _refuse_lost_cells(path: Path, plan: model.Plan, trials: Sequence[model.Trial]) -> None:
    for trial in trials:
        reason = plan.unavailable.get(trial.key.cell)
        if reason is not None and isinstance(trial.outcome, model.Completed):
            raise ResultsError(
                f"{path} has trials of {trial.key.cell!r}, which cannot run now: {reason}",
                remedy="make it available again and repeat the command, or begin afresh with --fresh",
            )


def _cut_off(path: Path, offset: int, torn: bytes) -> None:
    """Keep a torn last line aside, then cut it off."""
    note = {"unix_s": time.time(), "offset": offset, "text": torn.decode(errors="backslashreplace")}
    with (path / TRUNCATED).open("a") as file:
        file.write(json.dumps(note) + "\n")
        file.flush()
        os.fsync(file.fileno())
    with (path / TRIALS).open("r+b") as trials:
        trials.truncate(offset)
        os.fsync(trials.fileno())


def _remove_orphans(path: Path, trials: Sequence[model.Trial]) -> None:
    """Remove sample files without a trial: the tool was ended between writing them and the trial's line."""
    kept = {Path(trial.samples_file).name for trial in trials if trial.samples_file}
    for file in (path / SAMPLES).iterdir():
        if file.name not in kept and _SAMPLES_NAME.fullmatch(file.name):
            file.unlink()


def _write_samples(path: Path, columns: Columns) -> None:
    """Write an .npz file whole or not at all; `np.savez` is not used because it takes no column named `file`."""
    import numpy as np

    partial = path.with_name(path.name + _PARTIAL)
    with partial.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, column in columns.items():
                if not _COLUMN.fullmatch(name):
                    raise ValueError(f"{name!r} cannot name a column of samples")
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(column), allow_pickle=False)
        file.flush()
        os.fdatasync(file.fileno())
    partial.replace(path)
