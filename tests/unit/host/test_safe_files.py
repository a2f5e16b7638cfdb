"""Root writes results into folders of ordinary users, and is not led out of them by a link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.cli.commands import write_whole
from tare.errors import ResultsError
from tare.host import safe_files
from tare.store import results_folder
from tare.store.results import PLAN, SAMPLES, SHARED, TRIALS, TRUNCATED
from unit.stored import PLAN as PLANNED

SECRET = "what root alone may write\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(SECRET)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "results"
    made.mkdir()
    return made


def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every link be another user's, and every folder: the caller has another number."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(safe_files, "_owner", lambda found: 54321)


WRITES: dict[str, Callable[[Path], object]] = {
    "lock": results_folder.take_lock,
    TRIALS: lambda path: results_folder.open_lines(path, TRIALS),
    SHARED: lambda path: results_folder.open_lines(path, SHARED),
    TRUNCATED: lambda path: results_folder.set_torn_line_aside(path, 0, b"torn"),
}
REPLACES: dict[str, Callable[[Path], object]] = {
    f"{PLAN}.partial": lambda path: results_folder.write_plan(path, PLANNED, {}),
    PLAN: lambda path: results_folder.write_plan(path, PLANNED, {}),
    f"{SAMPLES}/r0000-b00-a00-c0000.npz.partial": lambda path: results_folder.write_samples(
        path / SAMPLES / "r0000-b00-a00-c0000.npz", {}
    ),
    "report.html": lambda path: write_whole(path / "report.html", ["<html>"]),
    "report.html.partial": lambda path: write_whole(path / "report.html", ["<html>"]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_file_of_the_folder_that_is_a_link_is_refused_with_its_name(name: str, folder: Path, victim: Path) -> None:
    (folder / name).symlink_to(victim)
    with pytest.raises(ResultsError, match=rf"{name} is a symbolic link: tare does not write to it"):
        WRITES[name](folder)
    assert victim.read_text() == SECRET


def test_devices_pipes_and_torn_lines_behind_links_are_refused(folder: Path, victim: Path) -> None:
    (folder / TRIALS).symlink_to(victim)
    with pytest.raises(ResultsError, match=f"{TRIALS} is a symbolic link"):
        results_folder.set_torn_line_aside(folder, 0, b"torn")
    assert victim.read_text() == SECRET
    os.mkfifo(folder / "lock")
    with pytest.raises(ResultsError, match="lock is not a regular file"):
        results_folder.take_lock(folder)


@pytest.mark.parametrize("name", REPLACES)
def test_a_file_that_is_written_whole_replaces_a_link_and_does_not_follow_it(
    name: str, folder: Path, victim: Path
) -> None:
    (folder / SAMPLES).mkdir()
    (folder / name).symlink_to(victim)
    REPLACES[name](folder)
    assert victim.read_text() == SECRET
    assert not any(entry.is_symlink() for entry in folder.rglob("*"))


@pytest.mark.parametrize("make", [results_folder.make_folder, results_folder.make_samples, results_folder.take_lock])
def test_a_link_of_another_user_s_on_the_way_is_refused_and_nothing_is_made_behind_it(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "user").symlink_to(elsewhere)
    foreign(monkeypatch)
    with pytest.raises(ResultsError, match=r"user is a symbolic link of another user \(uid 54321\)"):
        make(tmp_path / "user" / "study")
    assert list(elsewhere.iterdir()) == []


def test_samples_and_earlier_results_are_not_reached_through_a_link_either(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    orphan = elsewhere / "r0000-b00-a00-c0000.npz"
    orphan.write_text(SECRET)
    (folder / SAMPLES).symlink_to(elsewhere)
    foreign(monkeypatch)
    with pytest.raises(ResultsError, match="samples is a symbolic link of another user"):
        results_folder.remove_orphans(folder, ())
    with pytest.raises(ResultsError, match="samples is a symbolic link of another user"):
        results_folder.write_samples(folder / SAMPLES / "x.npz", {})
    assert [entry.name for entry in elsewhere.iterdir()] == [orphan.name]


def test_a_hard_link_in_another_user_s_folder_is_refused(
    folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(victim, folder / TRIALS)
    os.close(results_folder.open_lines(folder, TRIALS))  # in a folder of one's own it is a copy that a backup keeps
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ResultsError, match="has another hard link"):
        results_folder.open_lines(folder, TRIALS)


def test_links_of_one_s_own_and_of_root_are_followed_unless_they_lead_in_a_circle(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "up").symlink_to(real / ".." / "real")
    (tmp_path / "relative").symlink_to("up")
    results_folder.make_folder(tmp_path / "relative" / "a" / "b")
    assert (real / "a" / "b").is_dir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        results_folder.make_folder(tmp_path / "a")


def test_no_descriptor_stays_open(folder: Path, victim: Path) -> None:
    (folder / TRIALS).symlink_to(victim)
    (folder / "a").symlink_to("a")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(ResultsError):
            results_folder.open_lines(folder, TRIALS)
        with pytest.raises(OSError, match="Too many"):
            results_folder.make_folder(folder / "a" / "x")
        results_folder.make_samples(folder)
    assert os.listdir("/proc/self/fd") == before
