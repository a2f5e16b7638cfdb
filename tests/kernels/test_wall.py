"""libtare_wall.so: wall time of applications that know nothing of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.conftest import WALL
from kernels.launching import TICK_S, Run, execute
from tare.workloads.parts import of_launch

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

every_mpi = pytest.mark.parametrize("mpi", ["openmpi", pytest.param("mpich", marks=pytest.mark.requires("mpich"))])
fortran = pytest.mark.skipif(
    shutil.which("gfortran") is None, reason="this machine cannot: compile Fortran (apt-get install gfortran)"
)


def measured(run: Run) -> list[float]:
    """Return the wall time of each rank in ticks, of an application that does nothing between its two calls."""
    assert run.code == 0, run.stderr
    assert run.types == ["start", "rank", "rank", "wall", "usage", "work", "end"]
    (wall,) = run.of_type("wall")
    assert wall["wall_s"] == max(wall["rank_wall_s"])
    return [round(wall_s / TICK_S, 3) for wall_s in wall["rank_wall_s"]]


@every_mpi
def test_the_longest_time_of_all_ranks_is_reported_after_an_unfinished_line_of_the_application(launch_app, mpi):
    clocks = (
        f'TARE_TICK_NS=$((1000 + 500 * ${{{ {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}[mpi] }}})) "$@"'
    )
    run = launch_app(mpi, "wall_c.c", wrapper=("sh", "-c", clocks, "sh"))
    assert measured(run) == [1, 1.5]
    assert run.lines[0]["program"] == "tare-wall"
    assert "unfinished line of the application\n" in run.stdout


@every_mpi
def test_the_parts_of_a_launch_with_a_key_are_marked_with_it(launch_app, mpi):
    run = launch_app(mpi, "wall_talk.c", wrapper=("env", "TARE_PADDING=00ff00ff00ff00ff:x"))
    assert not run.types
    measured(replace(run, stdout=of_launch(run.stdout, "00ff00ff00ff00ff")))


@every_mpi
def test_lines_of_other_ranks_in_the_middle_of_the_report_do_no_harm(launch_app, mpi):
    run = launch_app(mpi, "wall_talk.c")
    measured(run)
    assert "rank 1 writes line 3999\n" in run.stdout


@pytest.mark.parametrize(
    ("mpi", "app", "arguments"),
    [
        pytest.param("openmpi", "wall_fortran.f90", (), marks=fortran),
        pytest.param("openmpi", "wall_f08.f90", (), marks=fortran),
        pytest.param("mpich", "wall_fortran.f90", (), marks=fortran),
        pytest.param("mpich", "wall_f08.f90", (), marks=fortran),
        ("openmpi", "wall_plain.c", ("wall_local_c.c",)),
        ("mpich", "wall_plain.c", ("wall_local_c.c",)),
        pytest.param("openmpi", "wall_plain.c", ("wall_local_fortran.f90",), marks=fortran),
    ],
)
def test_fortran_and_an_mpi_that_is_loaded_for_one_library_only_are_measured_once(launch_app, mpi, app, arguments):
    assert measured(launch_app(mpi, app, *arguments)) == [1, 1]


@pytest.mark.parametrize("order", [("wall_tool.c", WALL), (WALL, "wall_tool.c")])
@every_mpi
def test_another_tool_before_or_after_it_sees_each_call_once(launch_app, mpi, order):
    run = launch_app(mpi, "wall_c.c", preload=(*order, "ticks.c"))
    assert measured(run) == [1, 1]
    assert run.stderr.count("tool: 1 MPI_Init, MPI_Finalize") == 1


def test_a_program_that_calls_no_mpi_stays_silent_and_loads_none(build):
    library = build("openmpi") / WALL
    run = execute("/bin/sh", "-c", "cat /proc/self/maps; :", env={"LD_PRELOAD": str(library)})
    assert str(library) in run.stdout
    assert "libmpi" not in run.stdout
    assert "libtare_wall_report" not in run.stdout


@every_mpi
def test_an_mpi_application_that_does_not_initialise_stays_silent(launch_app, build, mpi):
    launch_app(mpi, "wall_c.c")
    done = subprocess.run(
        (build(mpi) / "wall_c.app", "none"),
        env={"LD_PRELOAD": str(build(mpi) / WALL)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout + done.stderr == ""


def test_without_the_library_that_reports_the_program_runs_and_says_why_it_has_no_time(build, launch_app, tmp_path):
    alone = tmp_path / WALL
    shutil.copy(build("openmpi") / WALL, alone)
    run = launch_app("openmpi", "wall_c.c", preload=(str(alone),))
    assert run.code == 0
    assert "tare-wall: the wall time cannot be reported" in run.stderr
    assert run.lines == []


@every_mpi
def test_what_the_program_did_is_reported_without_mpi_init_and_without_the_library_itself(launch_app, mpi, tmp_path):
    (tmp_path / "input").write_bytes(b"x" * 30_000)
    run = launch_app(mpi, "wall_work.c", str(tmp_path), preload=(WALL, "wall_tool.c"))
    assert run.code == 0, run.stderr
    (work,) = run.of_type("work")
    # Beyond what it reads and writes itself, the library reads /proc a few times, and MPI wakes a thread.
    assert [round(value, -3) for value in work["rank_read_bytes"]] == [30_000, 30_000]
    assert [round(value, -3) for value in work["rank_written_bytes"]] == [70_000, 0]
    assert work["rank_threads"] == [3, 3]
    assert all(value >= 0 for value in work["rank_user_s"])
    assert [name.startswith("wall_tool") for name in work["preloads"]] == [True]


@pytest.mark.parametrize(("name", "threads"), [("libapp.so", 1), ("libucs.so.0", 0)])
def test_threads_that_libraries_of_an_mpi_start_are_not_the_programs(build, tmp_path, name, threads):
    """Debian 13's UCX starts one when Python loads the MPI, and that of an image none."""
    source = Path(__file__).parent / "apps/wall_loaded.c"
    app, library = tmp_path / "app", tmp_path / name
    subprocess.run(("cc", "-DPART", "-shared", "-fPIC", source, "-o", library), check=True)
    subprocess.run(("mpicc.openmpi", source, "-o", app, "-ldl"), check=True)
    run = execute(str(app), str(library), env={"LD_PRELOAD": str(build("openmpi") / WALL), "PATH": os.environ["PATH"]})
    assert run.code == 0, run.stderr
    (work,) = run.of_type("work")
    assert work["rank_threads"] == [threads]


def test_a_library_that_the_linker_does_not_find_is_not_reported_as_preloaded(launch_app):
    run = launch_app("openmpi", "wall_c.c", preload=(WALL, "/opt/nowhere/libnone.so"))
    (work,) = run.of_type("work")
    assert work["preloads"] == []


@pytest.mark.requires("mpich")
@pytest.mark.parametrize(("brought", "started"), [("openmpi", "openmpi"), ("mpich", "openmpi"), ("openmpi", "mpich")])
def test_an_mpi_that_a_program_brings_is_used_for_the_report_or_named(build, tmp_path, brought, started):
    """Open MPI and MPICH in one process would hang."""
    source = Path(__file__).parent / "apps/wall_brought.c"
    part, app = tmp_path / "part.so", tmp_path / "app"
    subprocess.run((f"mpicc.{brought}", "-DPART", "-shared", "-fPIC", source, "-o", part), check=True)
    subprocess.run(("cc", source, "-o", app, "-ldl"), check=True)
    run = execute(str(app), str(part), env={"LD_PRELOAD": str(build(started) / WALL), "PATH": os.environ["PATH"]})
    assert run.code == 0, run.stderr
    told = "tare-wall: the program has another MPI: /" in run.stderr
    assert (run.types == ["start", "rank", "wall", "usage", "work", "end"], told) == (
        brought == started,
        brought != started,
    )
