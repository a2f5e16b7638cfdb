"""`tare doctor --locality` under the MPIs that are here: shared memory is seen, TCP and one core for both are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.live import live, tare

pytestmark = live("mpich")
OPEN_MPI = ("mpirun.openmpi", "--allow-run-as-root", "-n", "2")


@pytest.mark.parametrize("launcher", [(), OPEN_MPI, ("mpirun.mpich", "-n", "2", "-bind-to", "core")])
def test_two_ranks_of_a_site_share_memory(launcher: tuple[str, ...], tmp_path: Path) -> None:
    result = tare("doctor", "--locality", *(("--", *launcher) if launcher else ()), cwd=tmp_path)
    assert result.status == 0, result.stdout + result.stderr
    assert "the two ranks share memory, on cores of their own" in result.stdout


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--mca", "btl", "self,tcp"), "the transport is not shared memory"),
        (
            ("--cpu-set", "0", "--bind-to", "none", "taskset", "-c", "0"),
            "binding collapse: both ranks",
        ),
    ],
)
def test_what_makes_neighbours_slow_is_named(options: tuple[str, ...], part: str, tmp_path: Path) -> None:
    result = tare("doctor", "--locality", "--", *OPEN_MPI, *options, cwd=tmp_path)
    assert result.status == 1, result.stdout + result.stderr
    assert part in result.stdout


def test_a_command_without_locality_is_refused(tmp_path: Path) -> None:
    result = tare("doctor", "--", "mpirun", cwd=tmp_path)
    assert result.status == 2
    assert "only with --locality" in result.stderr
