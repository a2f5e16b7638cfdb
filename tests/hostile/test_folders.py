"""Folders of other users: results with links, pickles and bombs, places of outputs with links, a folder of state."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fuzz.hostile import snapshot
from integration.live import Ended, live, tare, write_study
from tare.system.paths import RUN_FOLDER

pytestmark = live()
GIVEN = Path(__file__).parents[1] / "data" / "results-0.1.0"
ALICE = 61234
SAMPLES = "samples/r0000-b00-a00-c0000.npz"


def given(folder: Path) -> None:
    """Make everything in a folder another user's."""
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, ALICE, ALICE)


def told(result: Ended, *codes: int) -> Ended:
    assert result.status in codes, result.stderr
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    return result


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return a results folder of another user."""
    shutil.copytree(GIVEN, tmp_path / "theirs")
    given(tmp_path / "theirs")
    return tmp_path / "theirs"


class Pickled:
    """Runs a command where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.place),)


def samples(array: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("latency:8/max_s.npy", array)
    return packed.getvalue()


def bomb() -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 27,)})
    return samples(head.getvalue() + bytes(1 << 27))


@pytest.mark.parametrize("planted", ["pickle", "bomb", "links", "pipe", "nested"])
def test_a_results_folder_of_somebody_else_is_read_or_refused_and_runs_nothing(
    planted: str, theirs: Path, victim: Path
) -> None:
    before = snapshot(victim)
    if planted == "pickle":
        array = io.BytesIO()
        np.lib.format.write_array(array, np.array([Pickled(victim / "ran")], dtype=object), allow_pickle=True)
        (theirs / SAMPLES).write_bytes(samples(array.getvalue()))
    elif planted == "bomb":
        (theirs / SAMPLES).write_bytes(bomb())
    elif planted == "links":
        (theirs / "trials.jsonl").unlink()
        (theirs / "trials.jsonl").symlink_to("/dev/zero")
    elif planted == "pipe":
        (theirs / "plan.json").unlink()
        os.mkfifo(theirs / "plan.json")
    else:
        (theirs / "plan.json").write_text("[" * 100_000)
    given(theirs)
    place = victim.parent / "out"
    place.mkdir()
    for words in (
        ("report", theirs), ("explain", theirs), ("report", theirs, "--format", "csv", "-o", place / "csv"),
        ("report", theirs, "--html", place / "page.html"), ("compare", theirs, theirs),
    ):  # fmt: skip
        told(tare(*words, cwd=victim.parent), 0, 1, 2, 3)
        assert snapshot(victim) == before


@pytest.mark.parametrize("kind", ["link", "hard link", "link on the way"])
def test_outputs_of_root_in_a_folder_of_another_user_change_nothing_outside_of_it(
    kind: str, theirs: Path, victim: Path
) -> None:
    before = snapshot(victim)
    names = ("page.html", "table.json", "csv/samples.csv", "figures/x.svg")
    for name in (*names, *(f"{name}.partial" for name in names)):
        place = theirs / name
        if kind == "link on the way":
            (theirs / "way").is_symlink() or (theirs / "way").symlink_to(victim)
        else:
            place.parent.mkdir(exist_ok=True)
            (place.symlink_to if kind == "link" else place.hardlink_to)(victim / "secret")
    given_links(theirs)
    at = theirs / "way" if kind == "link on the way" else theirs
    for words in (
        ("--html", at / "page.html"), ("--format", "json", "-o", at / "table.json"),
        ("--format", "csv", "-o", at / "csv"), ("--format", "csv", "-o", at / "x.zip"), ("--figures", at / "figures"),
    ):  # fmt: skip
        result = told(tare("report", theirs, *words, cwd=theirs.parent), *((2,) if "way" in at.name else (0, 1, 3)))
        assert "way" not in at.name or "is a symbolic link of another user (uid 61234)" in result.stderr
        assert snapshot(victim) == before


def given_links(folder: Path) -> None:
    """Make the folders and links another user's; what a hard link leads to stays root's."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink() or path.is_dir():
            os.lchown(path, ALICE, ALICE)


@pytest.mark.parametrize("kind", ["owned by another user", "written to by others", "a link"])
def test_a_folder_of_state_that_another_user_may_have_made_is_not_believed(
    kind: str, tmp_path: Path, victim: Path
) -> None:
    state = tmp_path / "state"
    if kind == "a link":
        state.symlink_to(victim)
        os.lchown(state, ALICE, ALICE)
    else:
        state.mkdir(mode=0o700)
        (state / "s1-evil").mkdir()
        (state / "s1-evil" / "owner.json").write_text('{"pid": 1, "lab": "s1", "start": 0}')
        if kind == "owned by another user":
            given(state)
        else:
            state.chmod(0o777)
    before = snapshot(state.resolve()), snapshot(victim)
    study = write_study(tmp_path, "state", ["bare"], cluster="local", a_a="true", placements="[1x2]")
    for words in (("run", study), ("clean",), ("lab", "status"), ("lab", "up")):
        result = told(tare(*words, cwd=tmp_path, env={RUN_FOLDER: str(state)}), 5)
        assert f"{state} " in result.stderr
    assert (snapshot(state.resolve()), snapshot(victim)) == before
