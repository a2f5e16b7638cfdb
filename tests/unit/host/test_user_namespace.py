"""An ordinary user's command starts itself anew as root of a user namespace, and knows afterwards that it is one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.containers.held import enter
from tare.errors import InfrastructureError, MissingTool
from tare.host import user_namespace
from tare.host.paths import RUN_FOLDER, run_folder

Seen = list[tuple[tuple[str, ...], dict[str, str]]]


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    seen: Seen = []
    monkeypatch.setattr(user_namespace, "replace", lambda argv, env: seen.append((tuple(argv), dict(env))))
    monkeypatch.setattr(user_namespace, "probe", lambda: None)
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path / "tare"))
    return seen


def test_root_stays_as_it_is_and_others_are_refused_with_the_remedy(
    became: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    user_namespace.become_root()
    assert became == []
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    (tmp_path / "tare").mkdir()
    with pytest.raises(InfrastructureError, match=r"belongs to another user .*\n  remove it, or set XDG"):
        user_namespace.become_root()
    assert became == []
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        user_namespace, "probe", lambda: "ordinary users may not create user namespaces on this machine"
    )
    with pytest.raises(MissingTool, match="run as root, or have an administrator allow it"):
        user_namespace.become_root()
    assert became == []


def test_the_command_is_started_anew_with_its_arguments_and_the_user_s_folder(
    became: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: tmp_path.stat().st_uid or 1000)
    monkeypatch.setattr(sys, "argv", ["tare", "run", "a.yaml"])
    if tmp_path.stat().st_uid == 0:
        (tmp_path / "tare").mkdir()
        os.chown(tmp_path / "tare", 1000, 1000)
    user_namespace.become_root()
    ((argv, variables),) = became
    assert argv == (*user_namespace.UNSHARE, sys.executable, "-P", "-m", "tare.cli.app", "run", "a.yaml")
    assert variables[RUN_FOLDER] == str(tmp_path / "tare")
    assert (tmp_path / "tare").is_dir()


@pytest.mark.parametrize(
    ("euid", "uid_map", "real"),
    [
        (0, "         0          0 4294967295\n", True), (0, "         0      65534          1\n", False),
        (1000, "         0          0 4294967295\n", False),
    ],
)  # fmt: skip
def test_root_of_a_user_namespace_is_not_root_of_the_machine(
    euid: int, uid_map: str, real: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "uid_map").write_text(uid_map)
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: euid)
    assert user_namespace.is_real_root(tmp_path / "uid_map") is real


@pytest.mark.parametrize(
    ("euid", "real", "words"),
    [(0, True, ["--all"]), (0, False, ["--mount", "--net"]), (1000, False, ["--user", "--preserve-credentials"])],
)
def test_a_node_is_entered_as_far_as_one_may(
    euid: int, real: bool, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.containers.held.is_real_root", lambda: real)
    monkeypatch.setattr("tare.containers.held.os.geteuid", lambda: euid)
    argv = enter(7)
    assert argv[:3] == ("nsenter", "-t", "7")
    assert set(words) <= set(argv)
    assert ("--user" in argv) == (euid != 0)
    assert ("--all" in argv) == real


@pytest.mark.parametrize(("flags", "of_root"), [(0, "/run/tare"), (os.ST_NOEXEC, "/var/lib/tare")])
def test_the_folder_of_states_is_where_it_is_said_to_be(
    flags: int, of_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags if path == "/run" else 0))
    monkeypatch.setenv(RUN_FOLDER, "/somewhere/tare")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run_folder() == Path("/somewhere/tare")
    monkeypatch.delenv(RUN_FOLDER)
    assert run_folder() == Path(of_root)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert run_folder() == Path("/run/user/1000/tare")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert run_folder() == Path(f"/tmp/tare-{os.getuid()}")
