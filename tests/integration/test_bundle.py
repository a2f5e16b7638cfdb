"""A bundle sets up an ordinary user's folder on a machine without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import TARE, live, write_study

pytestmark = live()
USER = 34567


def as_user_without_network(*argv: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user with a home of theirs, in a network namespace that has no route."""
    become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs")
    environment = ("env", "-i", f"HOME={folder}", "PATH=/usr/local/bin:/usr/bin:/bin")
    command = ("unshare", "--net", *become, *environment, *map(str, argv))
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def readable() -> Iterator[Path]:
    # not below pytest's own folder: every start of pytest, also by another test, takes it from other users again
    folder = Path(tempfile.mkdtemp(prefix="tare-bundle-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_bundle_brings_tare_without_a_network(readable: Path) -> None:
    file = readable / "tare.pyz"
    written = subprocess.run((*TARE, "bundle", file), capture_output=True, text=True, check=False)
    assert written.returncode == 0, written.stderr
    home = readable / "home"
    home.mkdir()
    os.chown(home, USER, USER)

    routes = as_user_without_network("cat", "/proc/net/route", folder=home)
    assert (routes.returncode, routes.stdout.splitlines()[1:]) == (0, []), "a route leads out of the namespace"
    installed = as_user_without_network(sys.executable, file, home / "here", folder=home)
    assert installed.returncode == 0, installed.stderr
    tare = home / "here/venv/bin/tare"
    assert f"Next: {tare} doctor" in installed.stdout
    assert sorted(path.name for path in (home / "here").iterdir()) == ["venv"]

    doctor = as_user_without_network(tare, "doctor", "--all", folder=home)
    assert "ok      MPI openmpi" in doctor.stdout, doctor.stderr
    study = write_study(home, "study", ["bare", "bare+bridge"])
    plan = as_user_without_network(tare, "plan", study, folder=home)
    assert plan.returncode == 0, plan.stderr
    assert "2 can run here" in plan.stdout, plan.stdout
    again = as_user_without_network(sys.executable, file, home / "here", folder=home)
    assert again.returncode == 0, again.stderr
