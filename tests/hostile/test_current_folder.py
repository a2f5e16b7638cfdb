"""What a hostile program leaves in the current folder, from a container of root's, gives nobody any right."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from integration.live import live, tare

pytestmark = live("mmdebstrap", "docker", "podman")
ALICE, HERS = 61234, 61235
EVIL = (
    "cp /bin/true plain; mkdir -p a/b; for f in user a/b/group /var/tmp/tare-evil; do cp /bin/true $f; done; "
    "chmod 4755 user /var/tmp/tare-evil; chmod 2755 a/b/group; mknod disk b 254 0; mknod null c 1 3; "
    "{ [ ! -e disk ] && [ ! -e null ]; } || echo devices; stat -c '%u %g %a' user"
)
"""Leaves what a program can leave, and says what it could make while it ran."""
EVERY = (
    "docker",
    "podman",
    pytest.param("apptainer", marks=pytest.mark.requires("apptainer")),
    pytest.param("charliecloud", marks=pytest.mark.requires("charliecloud")),
    pytest.param("podman-rootless", marks=pytest.mark.requires("uidmap")),
)


def left(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return mode and owners of what is in a folder, without folders."""
    found = {str(path.relative_to(folder)): path.lstat() for path in folder.rglob("*") if not path.is_dir()}
    return {name: (each.st_mode, each.st_uid, each.st_gid) for name, each in found.items()}


@pytest.mark.parametrize("runtime", EVERY)
def test_rights_that_a_launch_leaves_are_taken_back_and_named_and_no_device_can_be_made(
    runtime: str, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    shutil.copy("/bin/true", before)
    before.chmod(0o4755)
    done = tare("launch", "--runtime", runtime, "--", "sh", "-c", EVIL, cwd=tmp_path)
    assert done.status == 0, done.stderr
    modes = {name: stat.S_IMODE(mode) for name, (mode, _, _) in left(tmp_path).items()}
    assert modes == {"before": 0o4755, "plain": 0o755, "user": 0o755, "a/b/group": 0o755}
    assert "devices" not in done.stdout
    assert f"{tmp_path}/user: a container left a set-user-ID file of user 0; tare has taken back" in done.stderr
    assert f"{tmp_path}/a/b/group: a container left a set-group-ID file" in done.stderr
    assert "Exception" not in done.stderr
    assert not Path("/var/tmp/tare-evil").exists(), "the machine's /var/tmp is not shown"


@pytest.mark.parametrize("runtime", EVERY)
def test_in_a_users_folder_a_launch_of_root_can_make_nothing_of_root_even_while_it_runs(
    runtime: str, tmp_path: Path
) -> None:
    folder = tmp_path / "alice"
    folder.mkdir()
    os.chown(folder, ALICE, HERS)
    done = tare("launch", "--runtime", runtime, "--", "sh", "-c", EVIL, cwd=folder)
    assert done.status == 0, done.stderr
    assert {(user, group) for _, user, group in left(folder).values()} == {(ALICE, HERS)}
    assert not any(mode & 0o6000 for mode, _, _ in left(folder).values())
    assert f"{folder}/user: a container left a set-user-ID file of user {ALICE}; tare has taken back" in done.stderr
