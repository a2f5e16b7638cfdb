"""In a user's folder root is the user, and in one of root's it is itself."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.containers.folder_owners import owner_map

pytestmark = pytest.mark.requires("root")
UNKNOWN = 61234


def owned(folder: Path, user: int, group: int) -> str:
    os.chown(folder, user, group)
    return str(folder)


def test_a_folder_of_root_s_is_shown_as_it_is(tmp_path: Path) -> None:
    assert owner_map(owned(tmp_path, 0, 50)) == ""


def test_a_user_s_folder_is_shown_as_root_s_and_nothing_else_in_it_is(tmp_path: Path) -> None:
    assert owner_map(owned(tmp_path, UNKNOWN, 50)) == f"{UNKNOWN} 0 1/50 0 1"
    assert owner_map(str(tmp_path), 59123) == f"{UNKNOWN} 59123 1/50 59123 1"


def test_the_user_s_other_groups_stay_but_not_that_of_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = SimpleNamespace(pw_name="alice", pw_gid=70)
    monkeypatch.setattr(pwd, "getpwuid", {UNKNOWN: alice}.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, 0, 50, 90])
    assert owner_map(owned(tmp_path, UNKNOWN, 50)) == f"{UNKNOWN} 0 1/50 0 1,70 70 1,90 90 1"


def test_what_does_not_exist_is_nobody_s(tmp_path: Path) -> None:
    assert owner_map(str(tmp_path / "gone")) == ""
