"""libtare_wall.so: wall time of applications that know nothing of it."""

from __future__ import annotations

import shutil

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake")]

MPIS = [
    pytest.param("openmpi", marks=pytest.mark.requires("openmpi")),
    pytest.param("mpich", marks=pytest.mark.requires("mpich")),
]


def types(run):
    return [line["type"] for line in run.lines]


@pytest.mark.parametrize("mpi", MPIS)
def test_a_c_application_reports_the_longest_wall_time_of_its_ranks(launch_app, mpi):
    run = launch_app(mpi, "wall_c.c", "50", "300")
    assert run.code == 0, run.stderr
    assert types(run) == ["start", "rank", "rank", "wall", "end"]
    assert run.lines[0]["program"] == "tare-wall"
    (wall,) = run.of_type("wall")
    first, second = wall["rank_wall_s"]
    assert wall["wall_s"] == second
    assert 0.05 <= first < second
    assert 0.3 <= second < 5


@pytest.mark.parametrize("mpi", MPIS)
def test_an_unfinished_line_of_the_application_does_not_hide_the_report(launch_app, mpi):
    run = launch_app(mpi, "wall_c.c", "0", "0")
    assert "unfinished line of the application\n" in run.stdout
    assert types(run)[0] == "start"


@pytest.mark.parametrize("mpi", MPIS)
def test_an_application_without_mpi_init_stays_silent(launch_app, mpi):
    run = launch_app(mpi, "wall_c.c", "none", "0")
    assert run.code == 0
    assert run.stdout.strip() == ""


@pytest.mark.parametrize("app", ["wall_fortran.f90", "wall_f08.f90"])
@pytest.mark.parametrize("mpi", MPIS)
def test_a_fortran_application_is_measured_once(launch_app, mpi, app):
    if shutil.which(f"mpif90.{mpi}") is None or shutil.which("gfortran") is None:
        pytest.skip("this machine cannot: compile Fortran (apt-get install gfortran)")
    run = launch_app(mpi, app)
    assert run.code == 0, run.stderr
    assert types(run) == ["start", "rank", "rank", "wall", "end"]
    assert 0.2 <= run.of_type("wall")[0]["wall_s"] < 5
