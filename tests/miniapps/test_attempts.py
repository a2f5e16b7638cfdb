"""attempts finds out what ranks may do, as whom, and leaves nothing behind of what succeeds."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from miniapps.launching import figures, ran, right
from tare.workloads.declared import choice_of
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

NOBODY = 65534
OF_FILES = ("change of a file", "new file", "deletion of a file")
AS_NOBODY = f"attempts:user={NOBODY}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that every user reaches; pytest's own are root's."""
    made = Path(tempfile.mkdtemp(prefix="tare-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def tried(program: Path, spec: str, ranks: int = 2, **env: str) -> dict[str, float]:
    record = right(program, spec, ranks, env=env)
    assert record["operations"] == choice_of(spec).app.operations(choice_of(spec), ranks)
    return figures(record)


def seen(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return the files of a folder, each with its mode, owner, time of change and content."""
    found = {}
    for path in folder.iterdir():
        status = path.stat()
        found[path.name] = (status.st_mode, status.st_uid, status.st_mtime_ns, path.read_bytes())
    return found


@pytest.mark.requires("root")
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_user_without_rights_is_denied_what_root_may_do(program: Path, ranks: int) -> None:
    root, nobody = tried(program, "attempts", ranks), tried(program, AS_NOBODY, ranks)
    assert root["ranks that tried"] == nobody["ranks that tried"] == ranks
    for name in ("mount", "raw socket", "change of owner", "kernel log", "shadow", *OF_FILES):
        assert (root[name], nobody[name]) == (ranks, 0), name
    assert nobody["becoming root"] == 0
    assert "becoming root" not in root, "who is root already does not become it"


@pytest.mark.requires("root")
@pytest.mark.parametrize(
    ("of_folder", "of_file", "allowed"),
    [
        (0o777, 0o666, (2, 2, 2)),
        (0o777, 0o644, (0, 2, 2)),
        (0o755, 0o666, (2, 0, 0)),
        (0o1777, 0o644, (0, 2, 0)),  # as in /tmp, only the owner may delete
        (0o755, 0o644, (0, 0, 0)),
    ],
)
def test_modes_of_a_file_and_its_folder_decide_and_both_stay_as_they_are(
    program: Path, folder: Path, of_folder: int, of_file: int, allowed: tuple[int, ...]
) -> None:
    file = folder / "data"
    file.write_text("valuable")
    file.chmod(of_file)
    folder.chmod(of_folder)
    before = seen(folder)
    found = tried(program, AS_NOBODY, ATTEMPTS_FILE=str(file))
    assert tuple(found[name] for name in OF_FILES) == allowed
    assert seen(folder) == before


@pytest.mark.parametrize("place", ["none", "folder", "folder/none"])
def test_what_is_no_file_is_not_tried_and_stays(program: Path, folder: Path, place: str) -> None:
    (folder / "folder").mkdir()
    found = tried(program, "attempts", ATTEMPTS_FILE=str(folder / place))
    assert not found.keys() & set(OF_FILES)
    assert [path.name for path in folder.iterdir()] == ["folder"]


@pytest.mark.parametrize("path", ["relative", pytest.param(f"/{'x' * 5000}", id="long")])
def test_a_file_that_cannot_be_named_so_ends_the_job(program: Path, path: str) -> None:
    status, record, stderr = ran(program, "attempts", 1, env={"ATTEMPTS_FILE": path})
    assert status not in (0, 2)
    assert record == {}
    assert "ATTEMPTS_FILE is not the absolute path of a file" in stderr


@pytest.mark.requires("root")
@pytest.mark.parametrize(("mode", "allowed"), [(0o666, 2), (0o600, 0)])
def test_the_mode_of_a_socket_decides_who_reaches_its_daemon(
    program: Path, folder: Path, mode: int, allowed: int
) -> None:
    path = folder / "docker.sock"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(path))
        daemon.listen(8)
        path.chmod(mode)
        host = f"unix://{path}"
        assert tried(program, "attempts", DOCKER_HOST=host)["docker socket"] == 2
        assert tried(program, AS_NOBODY, DOCKER_HOST=host)["docker socket"] == allowed
    # nobody listens any longer, at a place of another kind there is no socket, and a path may be too long for one
    for host in (f"unix://{path}", "tcp://127.0.0.1:2375", f"unix:///{'x' * 200}", "u"):
        assert "docker socket" not in tried(program, "attempts", 1, DOCKER_HOST=host)


@pytest.mark.requires("root")
def test_ranks_that_may_not_become_the_user_try_nothing(program: Path, folder: Path) -> None:
    bound = folder / "bound"
    bound.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-setuid "{program}" "$@"\n')
    bound.chmod(0o755)
    assert tried(bound, AS_NOBODY) == {"ranks that tried": 0}
    assert tried(bound, "attempts")["ranks that tried"] == 2


@pytest.mark.requires("root")
def test_nothing_of_what_succeeded_is_left(program: Path) -> None:
    before = left()
    found = tried(program, "attempts")
    assert found["mount"] == found["new file"] == 2
    wait_until(
        lambda: not left() - before, "what is left of other tests' attempts to go: theirs are there for a moment"
    )


def left() -> set[str]:
    """Return what attempts make."""
    mounts = {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "tare-attempt" in line}
    return mounts | {*map(str, [*Path("/tmp").glob("tare-attempt-*"), *Path("/usr/lib").glob(".tare-attempt-*")])}
