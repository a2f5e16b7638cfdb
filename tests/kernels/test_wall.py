"""libtare_wall.so: wall time of applications that know nothing of it."""

from __future__ import annotations

import shutil
import subprocess

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
    assert types(run) == ["start", "rank", "rank", "wall", "usage", "end"]
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
def test_lines_of_other_ranks_in_the_middle_of_the_report_do_no_harm(launch_app, mpi):
    run = launch_app(mpi, "wall_talk.c")
    assert run.code == 0, run.stderr
    assert "rank 1 writes line 3999\n" in run.stdout
    assert types(run) == ["start", "rank", "rank", "wall", "usage", "end"]


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
    assert types(run) == ["start", "rank", "rank", "wall", "usage", "end"]
    assert 0.2 <= run.of_type("wall")[0]["wall_s"] < 5


@pytest.mark.parametrize("part", ["wall_local_c.c", "wall_local_fortran.f90"])
@pytest.mark.parametrize("mpi", MPIS)
def test_an_mpi_that_is_loaded_for_one_library_only_is_measured(launch_app, mpi, part):
    if part.endswith(".f90") and shutil.which("gfortran") is None:
        pytest.skip("this machine cannot: compile Fortran (apt-get install gfortran)")
    run = launch_app(mpi, "wall_plain.c", part)
    assert run.code == 0, run.stderr
    assert types(run) == ["start", "rank", "rank", "wall", "usage", "end"]
    assert 0.2 <= run.of_type("wall")[0]["wall_s"] < 5


@pytest.mark.parametrize("order", [("wall_tool.c", "libtare_wall.so"), ("libtare_wall.so", "wall_tool.c")])
@pytest.mark.parametrize("mpi", MPIS)
def test_another_tool_before_or_after_it_sees_each_call_once(launch_app, mpi, order):
    run = launch_app(mpi, "wall_c.c", "50", "50", preload=order)
    assert run.code == 0, run.stderr
    assert run.stderr.count("tool: 1 MPI_Init, MPI_Finalize") == 1
    assert types(run) == ["start", "rank", "rank", "wall", "usage", "end"]
    assert 0.05 <= run.of_type("wall")[0]["wall_s"] < 5


@pytest.mark.requires("openmpi")
def test_a_shell_that_it_is_preloaded_into_loads_no_mpi(build):
    library = build("openmpi") / "libtare_wall.so"
    shell = ("/bin/sh", "-c", "cat /proc/self/maps; :")
    maps = subprocess.run(shell, env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=True).stdout
    assert str(library) in maps
    assert "libmpi" not in maps
    assert "libtare_wall_report" not in maps


@pytest.mark.requires("openmpi")
def test_without_the_library_that_reports_the_program_runs_and_says_why_it_has_no_time(build, launch_app, tmp_path):
    alone = tmp_path / "libtare_wall.so"
    shutil.copy(build("openmpi") / "libtare_wall.so", alone)
    run = launch_app("openmpi", "wall_c.c", "0", "0", preload=(str(alone),))
    assert run.code == 0
    assert "tare-wall: the wall time cannot be reported" in run.stderr
    assert run.lines == []
