"""The cache has whole entries, one maker each, stays within its limit and keeps what is in use."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from tare.clusters.pods import in_lab
from tare.daemons import docker
from tare.errors import CommandFailed, InfrastructureError, ResultsError, UsageError
from tare.images import cache, usage
from tare.images.__main__ import tasks
from tare.images.cache import locked, remove_abandoned, silent, write_atomically
from tare.images.kernels import newest_program
from tare.images.usage import DEFAULT_LIMIT_BYTES, entries, limit_bytes, mark_used, prune, size_of, used_unix_s
from tare.system import safe_files
from waiting import wait_until

DAY_S = 86400.0
NOW_S = 1_700_000_000.0
KEEPS = (
    "import sys; from pathlib import Path; from tare.images.usage import mark_used; "
    "mark_used(Path(sys.argv[1])); print('kept', flush=True); sys.stdin.read()"
)


def entry(cache: Path, name: str, *, kilobytes: int = 8, days_ago: float = 1.0) -> Path:
    place = cache / name
    place.mkdir(parents=True)
    (place / "content").write_bytes(os.urandom(kilobytes * 1024))
    used = NOW_S - days_ago * DAY_S
    os.utime(place, (used, used))
    return place


def left(cache: Path) -> list[str]:
    return sorted(found.name for found in entries(cache))


def test_the_least_recently_used_goes_first_until_the_cache_is_within_its_limit(tmp_path: Path) -> None:
    for name, days in [("images/a", 3), ("sif/b", 9), ("kernels/c", 1), ("docker/n0-0", 6)]:
        entry(tmp_path, name, days_ago=days)
    each = size_of(tmp_path / "images/a")
    removed = prune(2 * each, tmp_path, now_unix_s=NOW_S)
    assert [found.name for found in removed] == ["sif/b", "docker/n0-0"]
    assert left(tmp_path) == ["images/a", "kernels/c"]


def test_an_entry_is_measured_once_and_again_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def counted(folder: Path) -> int:
        measured.append(folder.name)
        return size_of(folder)

    monkeypatch.setattr(usage, "size_of", counted)
    entry(tmp_path, "images/a")
    (first,), (again,) = entries(tmp_path), entries(tmp_path)
    assert (first, measured) == (again, ["a"])
    prune(0, tmp_path)
    entry(tmp_path, "images/a", kilobytes=100)
    (anew,) = entries(tmp_path)
    assert anew.size_bytes > first.size_bytes + 90_000
    assert measured == ["a", "a"]
    entry(tmp_path, "docker/n0-0")
    listed = tmp_path / "docker/n0-0/image/overlay2/repositories.json"
    listed.parent.mkdir(parents=True)
    for later_s in (-60, 60):
        entries(tmp_path)
        listed.write_text("{}")
        os.utime(listed, (time.time() + later_s, time.time() + later_s))
    assert measured == ["a", "a", "n0-0"]
    entries(tmp_path)
    assert measured == ["a", "a", "n0-0", "n0-0"]
    (tmp_path / "images/a/rootfs.tar").write_bytes(bytes(200_000))  # a user's own image is packed when it is needed
    later = time.time() + 60
    os.utime(tmp_path / "images/a", (later, later))
    sizes = {found.name: found.size_bytes for found in entries(tmp_path)}
    assert sizes["images/a"] > anew.size_bytes + 190_000


def test_only_what_nobody_used_for_long_or_an_interrupted_removal_left_goes_while_there_is_room(tmp_path: Path) -> None:
    entry(tmp_path, "kernels/old", days_ago=61)
    entry(tmp_path, "host-mpi/young", days_ago=59)
    said: list[str] = []
    prune(DEFAULT_LIMIT_BYTES, tmp_path, said.append, now_unix_s=NOW_S)
    assert (left(tmp_path), said) == (["host-mpi/young"], ["cache: removed kernels/old (not used for 60 days)"])
    entry(tmp_path, "docker/n0-0")
    leftover = entry(tmp_path, "docker/.unfinished-gone-17-n1-0")
    being_filled = entry(tmp_path, "images/.unfinished-x")
    handle = os.open(tmp_path / "images/.lock-.unfinished-x", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    prune(10**12, tmp_path, now_unix_s=NOW_S)
    os.close(handle)
    assert not leftover.exists()
    assert being_filled.exists()
    assert left(tmp_path) == ["docker/n0-0", "host-mpi/young"]


def test_what_another_process_uses_stays_and_goes_when_it_has_ended(tmp_path: Path) -> None:
    place, began_s = entry(tmp_path, "images/a", days_ago=100), time.time()
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert (other.stdout.readline(), prune(0, tmp_path)) == ("kept\n", ())
        assert place.is_dir()
        other.communicate("")
    assert used_unix_s(place) > began_s - 1
    assert [found.place for found in prune(0, tmp_path)] == [place]
    assert [path.name for path in place.parent.iterdir()] == []


def test_what_a_daemon_or_a_link_has_stays(tmp_path: Path) -> None:
    entry(tmp_path, "docker/n0-0")
    entry(tmp_path, "docker/stays-lab-n0")
    with (tmp_path / "docker/n0-0.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert prune(0, tmp_path, now_unix_s=NOW_S) == ()
    assert len(prune(0, tmp_path, now_unix_s=NOW_S)) == 1
    assert (tmp_path / "docker/stays-lab-n0").is_dir()
    elsewhere = entry(tmp_path, "elsewhere/a")
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots/a").symlink_to(elsewhere)
    assert len(prune(0, tmp_path, now_unix_s=time.time())) == 1
    assert (elsewhere / "content").is_file()
    began_s = time.time()
    mark_used(tmp_path / "images/new")
    assert not (tmp_path / "images").exists()
    assert used_unix_s(tmp_path / "images/new") > began_s - 1


@pytest.mark.parametrize(("text", "expected"), [("", DEFAULT_LIMIT_BYTES), ("5GB", 5_000_000_000), ("0", 0)])
def test_the_limit_is_the_environment_s_or_twenty_gigabytes(text: str, expected: int) -> None:
    assert limit_bytes(text) == expected


def test_the_limit_is_a_size_and_images_and_kernels_are_prepared_in_turn() -> None:
    with pytest.raises(UsageError, match="TARE_CACHE_LIMIT is 'much' is not a size"):
        limit_bytes("much")
    for unknown in ((), ("nonsense",), ("nonsense", "image")):
        with pytest.raises(UsageError, match="name what to prepare"):
            tasks(unknown)
    made = tasks(("kernels", "openmpi", "mpich", "openmpi5", "image", "debian-openmpi", "debian-mpich"))
    assert [task.args[0] for task in made] == ["debian-openmpi", "openmpi", "debian-mpich", "mpich", "openmpi5"]
    assert [task.args[0] for task in tasks(("kernels",))] == ["openmpi"]
    assert [task.args[0] for task in tasks(("image",))] == ["debian-openmpi"]


def test_two_entries_are_made_side_by_side(tmp_path: Path) -> None:
    meet = threading.Barrier(2)

    def make(name: str) -> None:
        target = tmp_path / name
        with locked(target, what=name, progress=silent), write_atomically(target) as work:
            meet.wait()  # both are at work now
            (work / "file").write_text(name)

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(make, ("one", "two")))
    assert [(tmp_path / name / "file").read_text() for name in ("one", "two")] == ["one", "two"]
    assert not list(tmp_path.glob(".unfinished-*"))


def test_other_hosts_of_an_nfs_see_the_lock_of_what_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS sends locks of files to its server; a lock of a folder is seen on its own host alone."""
    flock = fcntl.flock

    def of_nfs(handle: int, how: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    with write_atomically(tmp_path / "one") as work:
        remove_abandoned(tmp_path)
        assert work.is_dir()
    assert {each.name for each in tmp_path.iterdir()} == {"one", ".lock"}


def test_an_entry_is_waited_for_while_another_makes_it(tmp_path: Path) -> None:
    target, told, order = tmp_path / "one", list[str](), list[str]()

    def second() -> None:
        with locked(target, what="kernels", progress=told.append):
            order.append("second")

    with ThreadPoolExecutor(max_workers=1) as pool:
        with locked(target, what="kernels", progress=silent):
            other = pool.submit(second)
            wait_until(lambda: told)
            order.append("first")
        other.result()
    assert (order, len(told)) == (["first", "second"], 1)
    assert "another process is building it" in told[0]


def test_a_cache_without_leftovers_is_kept_and_one_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-abandoned").mkdir()
    with write_atomically(tmp_path / "one") as first, write_atomically(tmp_path / "two") as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not (tmp_path / ".unfinished-abandoned").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError) as caught, locked(tmp_path / "file" / "one", what="x", progress=silent):
        pass
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_root_uses_no_cache_that_another_user_can_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "theirs" / "tare"
    place = entry(cache, "kernels/one")
    cache.parent.chmod(0o777)
    monkeypatch.setattr(safe_files, "is_real_root", lambda: True)
    with pytest.raises(ResultsError, match="so root's cache must not be in it") as caught:
        mark_used(place)
    assert caught.value.remedy == "set TARE_CACHE to a folder that only root can change"
    with pytest.raises(ResultsError, match="so root's cache must not be in it"):
        newest_program("tare-kernels", cache)
    monkeypatch.setenv("TARE_CACHE", str(cache))
    for use in (docker.data_folder, in_lab.pause_archive):
        with pytest.raises(ResultsError, match="so root's cache must not be in it"):
            use()
    monkeypatch.setattr(safe_files, "is_real_root", lambda: False)
    mark_used(place)


def test_what_a_killed_build_has_mounted_is_found_and_stops_no_other_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / ".unfinished-killed"
    (tree / "a b").mkdir(parents=True)
    lines = (f"1 0 0:1 / {place} rw - t t rw" for place in (tree, f"{tree}/proc/sys", f"{tree}/a\\040b", f"{tree}-not"))
    table = tmp_path / "mountinfo"
    table.write_text("\n".join(lines) + "\n")
    assert cache.mounted_below(tree, table) == [tree / "proc/sys", tree / "a b", tree]
    error = CommandFailed("rm failed", argv=("rm",), status=1, stderr_tail="it's on a different device")
    monkeypatch.setattr(cache, "remove_tree", mock.Mock(side_effect=error))
    remove_abandoned(tmp_path)
    assert tree.exists()
    monkeypatch.undo()
    remove_abandoned(tmp_path)
    assert not tree.exists()
