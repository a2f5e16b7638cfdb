"""A device that is passed arrives in a container, and no other does; nothing is privileged."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.live import live, tare

pytestmark = live("mmdebstrap", "docker", "podman")
TUN = Path("/dev/net/tun")
SAY = (
    "for path in /dev/net/tun /dev/fuse; do "
    '[ -c "$path" ] && (exec 3<>"$path") 2>/dev/null && echo "opened $path"; done; true'
)


def opened(runtime: str, folder: Path, *options: str) -> list[str]:
    """Return which devices a rank in a container of a runtime could open."""
    done = tare("launch", "--runtime", runtime, *options, "--", "sh", "-c", SAY, cwd=folder)
    assert done.status == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not TUN.exists(), reason="this machine cannot: its kernel has no tun")
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_device_that_is_passed_can_be_opened_in_each_container_and_no_other(runtime: str, tmp_path: Path) -> None:
    two = ("--containers-per-node", "2", "-n", "2")
    assert opened(runtime, tmp_path, "--device", str(TUN), *two) == [f"opened {TUN}"] * 2
    assert opened(runtime, tmp_path) == []


@pytest.mark.requires("apptainer", "charliecloud")
@pytest.mark.skipif(not TUN.exists(), reason="this machine cannot: its kernel has no tun")
@pytest.mark.parametrize("runtime", ["apptainer", "charliecloud"])
def test_a_runtime_that_shows_the_node_s_devices_shows_it_too(runtime: str, tmp_path: Path) -> None:
    assert f"opened {TUN}" in opened(runtime, tmp_path, "--device", str(TUN))
