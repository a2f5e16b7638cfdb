"""What programs of images leave with rights of its own in a folder of the host loses them; all else stays.

In a user's folder root is the user, and in one of root's it is itself.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.runtimes.containers import rights_sweep as module
from tare.runtimes.containers.folder_owners import owner_map
from tare.runtimes.containers.rights_sweep import BITS, CAPABILITIES, swept

SYS_ADMIN = bytes.fromhex("0100000200002000000000000000000000000000")
"""The attribute of a file with CAP_SYS_ADMIN, permitted and effective (capabilities(7))."""

pytestmark = pytest.mark.requires("root")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@contextmanager
def launch(*folders: Path) -> Iterator[list[str]]:
    """Sweep folders around what happens in the block, and yield the list of what is said."""
    said: list[str] = []
    with swept([str(each) for each in folders], said.append):
        yield said


def put(path: Path, mode: int = 0o755) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def bits(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode) & BITS


def with_capabilities(path: Path) -> Path:
    os.setxattr(path, CAPABILITIES, SYS_ADMIN)
    return path


def test_files_of_all_kinds_with_rights_lose_them_and_each_is_named(folder: Path) -> None:
    (folder / "a/b").mkdir(parents=True)
    with launch(folder) as said:
        user, group, both = put(folder / "user", 0o4755), put(folder / "a/group", 0o2755), put(folder / "a/b/c", 0o6711)
        capable = with_capabilities(put(folder / "capable"))
        os.mknod(folder / "a/disk", stat.S_IFBLK | 0o644, os.makedev(254, 0))
        os.mknod(folder / "memory", stat.S_IFCHR | 0o644, os.makedev(1, 1))
    assert [bits(each) for each in (user, group, both)] == [0, 0, 0]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (user, both)] == [0o755, 0o711]
    assert CAPABILITIES not in os.listxattr(capable)
    assert not (folder / "a/disk").exists()
    assert not (folder / "memory").exists()
    assert sorted(said) == [
        f"{folder}/a/b/c: a container left a set-user-ID file of user 0; tare has taken back its rights",
        f"{folder}/a/disk: a container left a device node; tare has removed it",
        f"{folder}/a/group: a container left a set-group-ID file of group 0; tare has taken back its rights",
        f"{folder}/capable: a container left a file with capabilities; tare has taken back its rights",
        f"{folder}/memory: a container left a device node; tare has removed it",
        f"{folder}/user: a container left a set-user-ID file of user 0; tare has taken back its rights",
    ]


def test_what_was_there_before_stays_and_so_does_what_has_no_rights(folder: Path) -> None:
    user, capable = put(folder / "user", 0o4755), with_capabilities(put(folder / "capable"))
    os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with launch(folder) as said:
        os.mkfifo(folder / "pipe")
        (folder / "shared").mkdir()
        (folder / "shared").chmod(0o2775)  # new files get its group: no right of a program's
        (folder / "link").symlink_to(user)
        put(folder / "plain")
    assert said == []
    assert bits(user) == stat.S_ISUID
    assert CAPABILITIES in os.listxattr(capable)
    assert {"null", "pipe", "shared", "link", "plain"} <= {each.name for each in folder.iterdir()}
    assert bits(folder / "shared") == stat.S_ISGID


def test_a_file_that_had_rights_before_loses_them_if_its_content_changed(folder: Path) -> None:
    user = put(folder / "user", 0o4755)
    before = user.stat()
    with launch(folder) as said:
        user.write_text("#!/bin/bash\n")
        user.chmod(0o4755)
        os.utime(user, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert bits(user) == 0
    assert len(said) == 1


def test_no_link_is_followed_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    with launch(folder) as said:
        victim = put(tmp_path / "victim", 0o4755)
        (folder / "file").symlink_to(victim)
        (folder / "folder").symlink_to(tmp_path)
    assert said == []
    assert bits(victim) == stat.S_ISUID


def test_a_folder_that_somebody_puts_a_link_in_place_of_is_the_one_that_was_opened(
    folder: Path, tmp_path: Path
) -> None:
    with launch(folder):
        evil = put(folder / "evil", 0o4755)
        folder.rename(tmp_path / "moved")
        (tmp_path / "system").mkdir()
        victim = put(tmp_path / "system/evil", 0o4755)
        folder.symlink_to(tmp_path / "system")
    assert bits(victim) == stat.S_ISUID
    assert bits(tmp_path / "moved" / evil.name) == 0


def test_folders_may_be_nested_deeper_than_files_can_be_open_or_paths_be_long(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY)
    try:
        with launch(folder) as said:
            for _ in range(1100):
                os.mkdir("deep", dir_fd=at)
                os.mkdir("e", dir_fd=at)
                at, above = os.open("deep", os.O_RDONLY, dir_fd=at), at
                os.close(above)
            made = os.open("evil", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=at)
            os.fchmod(made, 0o4755)
        assert os.fstat(made).st_mode & BITS == 0
        assert [len(sentence) < 300 for sentence in said] == [True]
        os.close(made)
        os.close(at)
    finally:
        subprocess.run(("rm", "-rf", folder), check=True)


def test_a_file_that_is_bound_alone_is_looked_at_itself(folder: Path) -> None:
    data, other = put(folder / "data"), folder / "other"
    with launch(data) as said:
        data.chmod(0o4755)
        put(other, 0o4755)
    assert (bits(data), bits(other)) == (0, stat.S_ISUID)
    assert said == [f"{data}: a container left a set-user-ID file of user 0; tare has taken back its rights"]


def test_a_folder_with_too_many_files_is_left_alone_and_named_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BEFORE", 3)
    for number in range(4):
        put(folder / f"{number}", 0o4755)
    with launch(folder) as said:
        assert [f"in {folder} will stay: it has more than 3 files" in sentence for sentence in said] == [True]
    assert all(bits(folder / f"{number}") for number in range(4))
    assert len(said) == 1


def test_a_folder_that_is_filled_up_meanwhile_is_searched_as_far_as_may_be_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_AFTER", 5)
    with launch(folder) as said:
        for number in range(9):
            put(folder / f"{number}", 0o4755)
    assert "may be there still: it has more than 5 files" in said[-1]
    assert sum(bits(folder / f"{number}") == 0 for number in range(9)) == 5


def test_of_many_files_only_some_are_named_and_all_lose_their_rights(folder: Path) -> None:
    with launch(folder) as said:
        for number in range(25):
            put(folder / f"{number}", 0o4755)
    assert [bits(each) for each in folder.iterdir()] == [0] * 25
    assert len(said) == module.MOST_TOLD + 1
    assert said[-1].endswith("containers left 15 more such files, which were treated in this way")


def test_a_name_cannot_speak_to_the_terminal(folder: Path) -> None:
    with launch(folder) as said:
        put(folder / "a\x1b]0;PWN\x07\nb", 0o4755)
    assert said[0].startswith(f"{folder}/a\\x1b]0;PWN\\x07\\nb: a container left")


def test_it_happens_after_a_failed_launch_too(folder: Path) -> None:
    with pytest.raises(RuntimeError), launch(folder):  # noqa: PT012  # both are what happens
        put(folder / "evil", 0o4755)
        raise RuntimeError
    assert bits(folder / "evil") == 0


def test_what_cannot_be_changed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with launch(folder) as said:
        evil = put(folder / "evil", 0o4755)
        monkeypatch.setattr(os, "chmod", refuse)
    (sentence,) = said
    assert sentence.startswith(f"{evil}: a container left a set-user-ID file of user 0, which cannot be changed (Op")
    assert sentence.endswith("remove it, or other users can use its rights")


def test_an_ordinary_users_folder_is_not_searched_for_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_real_root", lambda: False)
    with launch(folder) as said:
        evil = put(folder / "evil", 0o4755)
    assert (bits(evil), said) == (stat.S_ISUID, [])


# --- who owns what is shown ----------------------------------------------------------------------------------------


UNKNOWN = 61234


def owned(folder: Path, user: int, group: int) -> str:
    os.chown(folder, user, group)
    return str(folder)


def test_a_folder_of_root_s_is_shown_as_it_is_and_what_does_not_exist_is_nobody_s(tmp_path: Path) -> None:
    assert owner_map(owned(tmp_path, 0, 50)) == ""
    assert owner_map(str(tmp_path / "gone")) == ""


def test_a_user_s_folder_is_shown_as_root_s_and_nothing_else_in_it_is(tmp_path: Path) -> None:
    assert owner_map(owned(tmp_path, UNKNOWN, 50)) == f"{UNKNOWN} 0 1/50 0 1"
    assert owner_map(str(tmp_path), 59123) == f"{UNKNOWN} 59123 1/50 59123 1"


def test_the_user_s_other_groups_stay_but_not_that_of_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = SimpleNamespace(pw_name="alice", pw_gid=70)
    monkeypatch.setattr(pwd, "getpwuid", {UNKNOWN: alice}.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, 0, 50, 90])
    assert owner_map(owned(tmp_path, UNKNOWN, 50)) == f"{UNKNOWN} 0 1/50 0 1,70 70 1,90 90 1"
