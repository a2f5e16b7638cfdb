"""`python -m tare.images` ends the programs that it has started when a signal ends it, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unit.images.writing import put, root
from waiting import wait_until

MMDEBSTRAP = """#!/bin/sh
trap 'echo undone > {0}/undone; kill $!; exit 1' TERM
sh -c 'sleep 600; : {0}' &
: > {0}/started
wait
"""
"""It undoes what it has mounted when it is ended, as the real one does."""


def of(folder: Path) -> list[str]:
    """Return the processes that name a folder in their command line: they have a pid namespace of their own."""
    found = subprocess.run(("pgrep", "--full", str(folder)), capture_output=True, text=True, check=False)
    return found.stdout.split()


@root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_what_an_image_is_built_with(number: signal.Signals, tmp_path: Path) -> None:
    put(tmp_path, "bin/mmdebstrap", MMDEBSTRAP.format(tmp_path).encode())
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TARE_CACHE": str(tmp_path / "cache")}
    argv = (sys.executable, "-m", "tare.images", "image", "debian-openmpi")
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as building:
        wait_until((tmp_path / "started").exists)
        assert len(of(tmp_path)) >= 2, "it and its child"
        building.send_signal(number)
        _, said = building.communicate()
    assert building.returncode == 130
    assert said.splitlines()[-1] == "tare: interrupted: cleaned up; run the same command again"
    wait_until(lambda: not of(tmp_path))
    assert (tmp_path / "undone").exists()
    assert list((tmp_path / "cache").glob("*/.unfinished*")) == []


MAINS = {
    "cli/app.py", "images/__main__.py", "cli/bundle/install.py",
}  # fmt: skip
"""Programs that start others and wait for them. The rest starts none, or handles signals itself."""
ALONE = {
    "runtimes/containers/idmapped.py", "cli/doctor/locality_probe.py", "cli/doctor/noise_probe.py",
    "system/holder.py", "images/inside/unpack.py", "clusters/pods/enter.py", "mpi/launch/agent.py",
    "mpi/fake_program.py",
    "agent/remote/bootstrap.py", "workloads/drivers/jones2009.py",
}  # fmt: skip


def test_every_program_of_ours_that_waits_for_others_ends_them_when_a_signal_ends_it() -> None:
    sources = Path(__file__).parents[3] / "src/tare"
    programs = {
        file.relative_to(sources).as_posix(): text
        for file in sources.rglob("*.py")
        if 'if __name__ == "__main__":' in (text := file.read_text())
    }
    assert programs.keys() - ALONE == MAINS, "say of a new program whether it waits for others"
    for name in MAINS:
        assert "end_as_interrupt()" in programs[name] or "signal.default_int_handler" in programs[name], name
