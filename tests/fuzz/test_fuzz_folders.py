"""Whatever another user has put into a folder that tare writes to, nothing outside of it is changed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.hostile import snapshot
from tare.errors import TareError
from tare.model.text import printable
from tare.report.export.csv import folder_of_files
from tare.store import results_folder
from tare.store.results import PLAN, SAMPLES, SHARED, TRIALS, TRUNCATED
from tare.system import safe_files
from tare.system.safe_files import folder_at, output_file, private_folder, write_output, write_whole
from unit.stored import PLAN as PLANNED

ORPHAN: Final = f"{SAMPLES}/r0000-b00-a00-c0000.npz"
FILES: Final = (
    PLAN,
    TRIALS,
    SHARED,
    TRUNCATED,
    "lock",
    ORPHAN,
    f"{SAMPLES}/x.npz",
    "out",
    "d/out",
    "d/e/out",
    "report.html",
)
PLACES: Final = (*FILES, *(f"{name}.partial" for name in FILES), SAMPLES, "d", "d/e", ".out.tare-1")
KINDS: Final = ("file", "folder", "link", "link", "link", "hard", "hard", "pipe", "socket", "device")
TARGETS: Final = (
    "OUTSIDE", "OUTSIDE/file", "OUTSIDE/folder", "OUTSIDE/new", "OUTSIDE/folder/new", "../../outside",
    "../outside/file", ".", "..", "d", "/dev/stdout", "/dev/full", "/proc/self/cwd", "loop",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """What the other user puts at a place; a link or a hard link leads to its target. Ours he has moved there."""

    place: str
    kind: str
    target: str
    is_theirs: bool


@dataclass(frozen=True)
class Play:
    """What a folder has, what is written, at which place, and what the other user changes while it is written."""

    entries: tuple[Entry, ...]
    write: str
    place: str
    meanwhile: Entry | None


def lines(name: str) -> Callable[..., None]:
    def write(folder: Path, *_: Any) -> None:
        opened = results_folder.Lines(folder, name)
        try:
            opened.append(b"{}\n")
        finally:
            opened.close()

    return write


def csv(folder: Path, place: Path, move: Callable[[], None]) -> None:
    with folder_of_files(place.parent) as new:
        move()
        with new(place.name) as file:
            file.write(b"new\n")


def output(folder: Path, place: Path, move: Callable[[], None]) -> None:
    with output_file(place) as file:
        move()
        file.write(b"new\n")


def private(folder: Path, place: Path, move: Callable[[], None]) -> None:
    with folder_at(place.parent) as opened, private_folder(opened, place.name) as made:
        move()
        (made / "file").write_text("new\n")
        (made / "file").unlink()


WRITES: Final[dict[str, Callable[[Path, Path, Callable[[], None]], object]]] = {
    "lock": lambda folder, *_: os.close(results_folder.take_lock(folder)),
    "trials": lines(TRIALS),
    "shared": lines(SHARED),
    "torn": lambda folder, *_: results_folder.set_torn_line_aside(folder, 0, b"torn"),
    "plan": lambda folder, *_: results_folder.write_plan(folder, PLANNED, {}),
    "samples": lambda folder, *_: results_folder.write_samples(folder / SAMPLES / "x.npz", {}),
    "folder": lambda folder, place, _: results_folder.make_folder(place),
    "make samples": lambda folder, *_: results_folder.make_samples(folder),
    "orphans": lambda folder, *_: results_folder.remove_orphans(folder, ()),
    "aside": lambda folder, place, _: results_folder.archive_results(place),
    "whole": lambda folder, place, _: write_whole(place, ["new\n"]),
    "text": lambda folder, place, _: write_output(place, ["new\n"]),
    "output": output,
    "csv": csv,
    "private": private,
}
ENTRIES: Final = st.builds(
    Entry,
    place=st.sampled_from(PLACES),
    kind=st.sampled_from(KINDS),
    target=st.sampled_from(TARGETS),
    is_theirs=st.booleans(),
)
PLAYS: Final = st.builds(
    Play,
    entries=st.lists(ENTRIES, min_size=1, max_size=5).map(tuple),
    write=st.sampled_from(sorted(WRITES)),
    place=st.sampled_from((*PLACES, "")),
    meanwhile=st.none() | ENTRIES,
)


class Others:
    """Another user's folder of outputs, and next to it a folder of ours (`outside`) that no command may change."""

    def __init__(self, at: Path, theirs: set[int]) -> None:
        self.folder, self.outside = at / "theirs" / "results", at / "outside"
        self.theirs = theirs
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "file").write_text("what we alone may write\n")
        (self.outside / "file").chmod(0o600)
        (self.outside / "folder" / Path(ORPHAN).name).write_text("what we alone may remove\n")
        self.folder.mkdir(parents=True)
        self.give(self.folder.parent, self.folder)

    def give(self, *paths: Path) -> None:
        self.theirs |= {path.lstat().st_ino for path in paths}

    def put(self, entry: Entry) -> None:
        """Put an entry at its place; another one there is moved aside."""
        path = self.folder / entry.place
        with suppress(OSError):
            if not path.parent.exists():
                path.parent.mkdir(parents=True)
                self.give(*(each for each in path.parents if each.is_relative_to(self.folder)))
            if not path.parent.resolve().is_relative_to(self.folder.resolve()):
                return  # the other user cannot
            if path.is_symlink() or path.exists():
                path.rename(path.with_name(f"{path.name}.was"))
            self._make(path, entry.kind, entry.target.replace("OUTSIDE", str(self.outside)))
            if entry.is_theirs and entry.kind != "hard":
                self.give(path)

    def _make(self, path: Path, kind: str, target: str) -> None:
        if kind == "link":
            path.symlink_to(path.name if target == "loop" else target)
        elif kind == "hard":
            os.link(self.outside / "file", path)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            os.mknod(path, 0o666 | stat.S_IFSOCK)
        elif kind == "device":
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # /dev/full
        elif kind == "folder":
            path.mkdir()
        else:
            path.write_text("{}\n")


@contextmanager
def below(root: Path, number: Iterator[int]) -> Iterator[Path]:
    at = root / str(next(number))
    try:
        yield at
    finally:
        shutil.rmtree(at, ignore_errors=True)


def check(others: Others, play: Play) -> None:
    for entry in play.entries:
        others.put(entry)
    before = snapshot(others.outside)
    told: TareError | OSError | None = None

    def move() -> None:
        if play.meanwhile:
            others.put(play.meanwhile)

    try:
        WRITES[play.write](others.folder, others.folder / play.place, move)
    except (TareError, OSError) as error:
        told = error
    assert snapshot(others.outside) == before
    if isinstance(told, TareError):
        assert told.message == printable(told.message)
        assert str(others.folder.parent) in told.message, "it names the place"
    elif told:  # what writes an output says it with the output's name (cli.output.writing)
        assert told.strerror
        assert not isinstance(told, IsADirectoryError), "a folder in the place of a file is refused"


def test_nothing_outside_of_a_folder_of_another_user_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, own = count(), safe_files._owner
    theirs: set[int] = set()
    monkeypatch.setattr(safe_files, "_owner", lambda found: 54321 if found.st_ino in theirs else own(found))

    def one(play: Play) -> None:
        with below(tmp_path, numbers) as at:
            theirs.clear()
            check(Others(at, theirs), play)

    fuzz(PLAYS, one)
