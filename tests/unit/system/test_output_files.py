"""What a user names as an output or as results is written without following another user's link."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.cli.commands import write_whole
from tare.cli.output import write_page
from tare.errors import ResultsError
from tare.report.export.csv import folder_of_files
from tare.store import results_folder
from tare.store.results import PLAN, SAMPLES, TRIALS, TRUNCATED
from tare.system import safe_files
from tare.system.safe_files import check_only_root_changes, folder_at, output_file, write_output
from unit.stored import PLAN as PLANNED

SECRET = "what root alone may write\n"
Give = Callable[[Path], Path]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Return what makes an entry another user's."""
    given: set[int] = set()
    own = safe_files._owner
    monkeypatch.setattr(safe_files, "_owner", lambda found: 54321 if found.st_ino in given else own(found))

    def to_another(path: Path) -> Path:
        given.add(path.lstat().st_ino)
        return path

    return to_another


@pytest.fixture
def theirs(tmp_path: Path, give: Give) -> Path:
    """Return a folder of another user."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    return give(folder)


def page(path: Path) -> None:
    write_page(path, "new\n")


def csv_file(path: Path) -> None:
    with folder_of_files(path.parent) as new, new(path.name) as file:
        file.write(b"new\n")


@pytest.mark.parametrize("write", [page, csv_file])
@pytest.mark.parametrize("name", ["out", "out.partial"])
@pytest.mark.parametrize("is_theirs", [True, False])  # a link of root's may have been moved there
def test_a_link_in_another_user_s_folder_is_replaced_and_what_it_leads_to_stays(
    write: Callable[[Path], None], name: str, is_theirs: bool, theirs: Path, victim: Path, give: Give
) -> None:
    (theirs / name).symlink_to(victim)
    if is_theirs:
        give(theirs / name)
    write(theirs / "out")
    assert victim.read_text() == SECRET
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert (theirs / "out").read_text() == "new\n"
    assert not (theirs / "out").is_symlink()
    assert os.listdir(theirs) == ["out"]


def test_nothing_is_made_where_a_dangling_link_of_theirs_leads(theirs: Path, tmp_path: Path, give: Give) -> None:
    (theirs / "out").symlink_to(tmp_path / "new")
    give(theirs / "out")
    page(theirs / "out")
    assert not (tmp_path / "new").exists()
    assert (theirs / "out").read_text() == "new\n"


def test_links_on_the_way_are_refused_if_another_user_made_or_may_have_moved_them(
    theirs: Path, tmp_path: Path, give: Give
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (theirs / "moved").symlink_to(target)
    (tmp_path / "planted").symlink_to(target)
    give(tmp_path / "planted")
    with pytest.raises(ResultsError, match=r"moved is a symbolic link in a folder of another user \(uid 54321\)"):
        page(theirs / "moved" / "out")
    with pytest.raises(ResultsError, match=r"planted is a symbolic link of another user \(uid 54321\)"):
        csv_file(tmp_path / "planted" / "out")
    assert not list(target.iterdir())


def test_a_link_of_one_s_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "latest").symlink_to("pages/today")
    for _ in range(2):
        page(tmp_path / "latest")
        assert (tmp_path / "pages" / "today").read_text() == "new\n"
        assert (tmp_path / "latest").is_symlink()


def test_a_hard_link_is_replaced_and_the_other_name_keeps_its_content(tmp_path: Path, victim: Path) -> None:
    os.link(victim, tmp_path / "out")
    page(tmp_path / "out")
    assert victim.read_text() == SECRET
    assert (tmp_path / "out").read_text() == "new\n"


def test_the_mode_of_an_older_file_is_kept_and_a_new_one_has_that_of_the_umask(tmp_path: Path, victim: Path) -> None:
    page(victim)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        page(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkdir, "is a folder"),
        (os.mkfifo, "is a pipe or a device that another user may have put there"),
    ],
)
def test_folders_and_pipes_of_others_in_a_file_s_place_are_refused(
    make: Callable[[Path], None], why: str, theirs: Path, give: Give
) -> None:
    make(theirs / "out")
    give(theirs / "out")
    with pytest.raises(ResultsError, match=f"out {why}"):
        page(theirs / "out")


def test_a_device_that_a_link_of_theirs_leads_to_is_not_written_to(theirs: Path, give: Give) -> None:
    (theirs / "out").symlink_to("/dev/null")
    give(theirs / "out")
    page(theirs / "out")
    assert (theirs / "out").is_file()
    page(Path("/dev/null"))
    give(Path("/dev/null"))
    with pytest.raises(ResultsError, match="is a pipe or a device that another user"):
        page(Path("/dev/null"))


def test_pipes_of_one_s_own_and_open_descriptors_are_written_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append((tmp_path / "pipe").read_text()))
    reader.start()
    page(tmp_path / "pipe")
    reader.join()
    assert seen == ["new\n"]
    page(Path("/dev/stdout"))
    page(Path("/dev/fd/1"))
    page(Path("/proc/self/fd/1"))
    assert capfd.readouterr().out == "new\n" * 3


def test_a_folder_that_is_replaced_by_a_link_meanwhile_is_written_to_all_the_same(tmp_path: Path) -> None:
    folder, moved, elsewhere = (tmp_path / name for name in ("folder", "moved", "elsewhere"))
    folder.mkdir()
    elsewhere.mkdir()
    with output_file(folder / "out") as file:
        folder.rename(moved)
        folder.symlink_to(elsewhere)
        file.write(b"new\n")
    assert (moved / "out").read_text() == "new\n"
    assert not list(elsewhere.iterdir())


def test_after_an_error_the_older_file_stays_and_nothing_else(tmp_path: Path) -> None:
    page(tmp_path / "out")

    def parts():  # type: ignore[no-untyped-def]
        yield "half"
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="full"):
        write_output(tmp_path / "out", parts())
    assert (tmp_path / "out").read_text() == "new\n"
    assert os.listdir(tmp_path) == ["out"]


def test_links_in_a_circle_end_and_names_with_two_dots_mean_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"), output_file(tmp_path / "a"):
        pass
    page(tmp_path / "none" / ".." / "out")
    assert (tmp_path / "out").read_text() == "new\n"
    for name in ("/", str(tmp_path)):
        with pytest.raises((ResultsError, OSError)):
            page(Path(name))


def test_no_descriptor_stays_open(tmp_path: Path, theirs: Path, give: Give) -> None:
    os.mkfifo(theirs / "pipe")
    give(theirs / "pipe")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        page(tmp_path / "out")
        for name in ("pipe", "."):
            with pytest.raises(ResultsError):
                page(theirs / name)
    assert os.listdir("/proc/self/fd") == before


def test_root_starts_no_program_that_writes_where_another_user_can_put_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    check_only_root_changes(Path("/proc"), "job")
    monkeypatch.setattr(safe_files, "is_real_root", lambda: True)
    check_only_root_changes(Path("/proc"), "job")
    with pytest.raises(ResultsError, match="can be changed by another user, so root's job must not be in it"):
        check_only_root_changes(folder, "job")
    with folder_at(folder):
        pass


# --- folders of results -------------------------------------------------------------------------------------------


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
def test_a_file_that_is_written_replaces_a_link_and_does_not_follow_it(name: str, folder: Path, victim: Path) -> None:
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


def test_samples_are_not_reached_through_a_link(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_hard_link_of_another_user_is_refused(folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(victim, folder / TRIALS)
    os.close(results_folder.open_lines(folder, TRIALS))  # in a folder of one's own it is a copy that a backup keeps
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ResultsError, match="has another hard link"):
        results_folder.open_lines(folder, TRIALS)


def test_links_of_others_are_refused_and_ones_own_are_followed_unless_in_a_circle(tmp_path: Path) -> None:
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


def test_no_descriptor_of_a_results_folder_stays_open(folder: Path, victim: Path) -> None:
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
