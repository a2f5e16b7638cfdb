"""Programs as tutorials of MPI have them: `tare quick` runs each with what `--help` says, or says what to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from integration.live import Ended, live, tare

pytestmark = [*live("docker", "apptainer", "mmdebstrap"), pytest.mark.long]
SOURCES = Path(__file__).parent / "tutorials"
COMPILED = {
    "ring": ("mpicc.openmpi", "ring.c"),
    "pi": ("mpicxx.openmpi", "pi.cpp"),
    "heat": ("mpifort.openmpi", "heat.f90"),
    "hybrid": ("mpicc.openmpi", "-fopenmp", "hybrid.c"),
    "io": ("mpicc.openmpi", "io.c"),
    "window": ("mpicc.openmpi", "window.c"),
    "manager": ("mpicc.openmpi", "manager.c"),
}


def built(name: str, folder: Path) -> str:
    subprocess.run((*COMPILED[name], "-o", folder / name), cwd=SOURCES, check=True)
    return f"./{name}"


def quick(folder: Path, *words: str, environments: str = "bare,docker+host,apptainer") -> Ended:
    return tare("quick", "--rounds", "1", "--environments", environments, *words, cwd=folder)


def is_measured(result: Ended, environment: str = "apptainer") -> bool:
    return result.status in (0, 3) and environment in result.stdout


@pytest.mark.parametrize("name", ["ring", "pi", "heat", "hybrid", "window"])
def test_a_program_is_measured_as_it_is(name: str, tmp_path: Path) -> None:
    result = quick(tmp_path, "--", built(name, tmp_path))
    assert is_measured(result), result.stderr


def test_one_that_writes_files_is_told_to_be_let(tmp_path: Path) -> None:
    program = built("io", tmp_path)
    refused = quick(tmp_path, "--", program)
    assert refused.status == 4
    assert "--writable" in refused.stderr
    assert is_measured(quick(tmp_path, "--fresh", "--writable", "--", program))
    assert (tmp_path / "lines.txt").read_text().count("wrote this line") == 2


def test_one_that_starts_processes_is_told_to_be_launched(tmp_path: Path) -> None:
    program = built("manager", tmp_path)
    told = quick(tmp_path, "--", program)
    # Open MPI 4 forwards its output twice, not at all, or, some times, as it is: then it is measured
    assert "start it by `tare launch`" in told.stderr if told.status == 4 else is_measured(told), told.stderr
    for runtime in ("bare", "docker", "apptainer"):
        ran = tare("launch", "--runtime", runtime, "-n", "1", "--", program, cwd=tmp_path)
        # Open MPI 4.1.4 itself, started by hand, ends every third such job by SIGPIPE in MPI_Finalize: a rank writes to
        # the connection of one that has ended.
        assert ran.status == 0 or "signal 13 (Broken pipe)" in ran.stderr, ran.stderr
        assert ran.stdout.count("merged 2") == 2


def test_libraries_of_cmake_and_of_a_makefile_are_shown(tmp_path: Path) -> None:
    shutil.copytree(SOURCES / "waves", tmp_path / "waves")
    here = tmp_path / "waves"
    (here / "lib").mkdir()
    subprocess.run(("make",), cwd=here, check=True)
    subprocess.run(("cmake", "-B", "build", "-DMPI_C_COMPILER=mpicc.openmpi", "."), cwd=here, check=True)
    subprocess.run(("cmake", "--build", "build"), cwd=here, check=True)
    (tmp_path / "elsewhere").mkdir()
    for program in (here / "waves", here / "build/bin/waves"):
        result = quick(tmp_path / "elsewhere", "--fresh", "--", str(program))
        assert is_measured(result), result.stderr


def test_mpi4py_of_the_image_is_measured(tmp_path: Path) -> None:
    shutil.copy(SOURCES / "matvec.py", tmp_path)
    result = quick(tmp_path, "--", "/usr/bin/python3", "matvec.py", environments="bare+image,docker+host,apptainer")
    assert is_measured(result), result.stderr
