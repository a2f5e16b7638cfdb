"""The cache stays within its limit, and what is in use stays in the cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tare.errors import UsageError
from tare.images import usage
from tare.images.usage import DEFAULT_LIMIT_BYTES, entries, limit_bytes, mark_used, prune, size_of, used_unix_s

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


def test_an_entry_is_measured_once_and_again_after_it_was_removed_or_a_daemon_s_images_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_nothing_goes_while_there_is_room_but_what_nobody_used_for_long(tmp_path: Path) -> None:
    entry(tmp_path, "kernels/old", days_ago=61)
    entry(tmp_path, "host-mpi/young", days_ago=59)
    said: list[str] = []
    prune(DEFAULT_LIMIT_BYTES, tmp_path, said.append, now_unix_s=NOW_S)
    assert left(tmp_path) == ["host-mpi/young"]
    assert said == ["cache: removed kernels/old (not used for 60 days)"]


def test_what_another_process_uses_stays_and_goes_when_it_has_ended(tmp_path: Path) -> None:
    place, began_s = entry(tmp_path, "images/a", days_ago=100), time.time()
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "kept\n"
        assert prune(0, tmp_path) == ()
        assert place.is_dir()
        other.communicate("")
    assert used_unix_s(place) > began_s - 1
    assert [found.place for found in prune(0, tmp_path)] == [place]
    assert [path.name for path in place.parent.iterdir()] == []


def test_a_folder_that_a_lab_s_daemon_has_stays(tmp_path: Path) -> None:
    entry(tmp_path, "docker/n0-0")
    entry(tmp_path, "docker/stays-lab-n0")
    with (tmp_path / "docker/n0-0.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert prune(0, tmp_path, now_unix_s=NOW_S) == ()
    assert len(prune(0, tmp_path, now_unix_s=NOW_S)) == 1
    assert (tmp_path / "docker/stays-lab-n0").is_dir()


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    elsewhere = entry(tmp_path, "elsewhere/a")
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots/a").symlink_to(elsewhere)
    assert len(prune(0, tmp_path, now_unix_s=time.time())) == 1
    assert (elsewhere / "content").is_file()


def test_using_what_is_not_there_yet_is_noted_all_the_same(tmp_path: Path) -> None:
    began_s = time.time()
    mark_used(tmp_path / "images/new")
    assert not (tmp_path / "images").exists()
    assert used_unix_s(tmp_path / "images/new") > began_s - 1


@pytest.mark.parametrize(("text", "expected"), [("", DEFAULT_LIMIT_BYTES), ("5GB", 5_000_000_000), ("0", 0)])
def test_the_limit_is_the_environment_s_or_twenty_gigabytes(text: str, expected: int) -> None:
    assert limit_bytes(text) == expected


def test_a_limit_that_is_no_size_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match="TARE_CACHE_LIMIT is 'much' is not a size"):
        limit_bytes("much")


def test_what_an_interrupted_removal_left_is_removed_next_time(tmp_path: Path) -> None:
    entry(tmp_path, "docker/n0-0")
    leftover = entry(tmp_path, "docker/.unfinished-gone-17-n1-0")
    being_filled = entry(tmp_path, "images/.unfinished-x")
    handle = os.open(being_filled, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    prune(10**12, tmp_path, now_unix_s=NOW_S)
    os.close(handle)
    assert not leftover.exists()
    assert being_filled.exists()
    assert left(tmp_path) == ["docker/n0-0"]
