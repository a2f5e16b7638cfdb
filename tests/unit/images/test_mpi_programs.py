"""An MPI is found under any name, and programs of one MPI are not started by another's launcher."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tare.errors import MissingTool
from tare.images import kernels, mpi_programs
from tare.images.mpi_programs import MpiProgram, find_launcher, launcher_at, mismatch, on_path, wrapper_at
from tare.mpi import MPIS

OPENMPI_4 = "mpirun (Open MPI) 4.1.6"
OPENMPI_5 = "mpirun (Open MPI) 5.0.7"
HYDRA = "HYDRA build details:\n    Version:                                 4.2.1\n    CC: gcc --with-device=ch4:ucx"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all of PATH, with no MPI of tools/mpis."""

    def find(name: str) -> str | None:
        return shutil.which(name, path=str(tmp_path))

    for module in ("images.mpi_programs", "host.process"):
        monkeypatch.setattr(f"tare.{module}.find", find)
    for module in ("openmpi", "openmpi5", "mpich"):
        monkeypatch.setattr(f"tare.mpi.{module}.find", find)
    monkeypatch.setattr("tare.host.wheels.FOLDER", tmp_path / "none")
    return tmp_path


def launcher(folder: Path, name: str, says: str) -> Path:
    return program(folder, name, f"cat <<'END'\n{says}\nEND\n")


def wrapper(folder: Path, name: str, says: str, option: str) -> Path:
    """Write a wrapper that says its MPI on one option, and passes another on to a compiler that refuses it."""
    return program(
        folder, name, f'case "$1" in {option}) echo "{says}";; *) echo "cc: no input files" >&2; exit 1;; esac\n'
    )


def program(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(f"#!/bin/sh\n{text}")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.parametrize(
    ("says", "title"),
    [
        (OPENMPI_4, "Open MPI 4.1.6"),
        ("mpirun.openmpi (OpenRTE) 4.1.4", "Open MPI 4.1.4"),
        (HYDRA, "MPICH 4.2.1"),
        (INTEL, "Intel MPI 2021.11"),
        ("srun 22.05", "an unknown MPI"),
        ("", "an unknown MPI"),
    ],
)
def test_a_launcher_says_its_mpi(says: str, title: str, tmp_path: Path) -> None:
    assert launcher_at(str(launcher(tmp_path, "mpirun", says))).title == title


@pytest.mark.parametrize(
    ("says", "option", "title"),
    [
        ("mpicc: Open MPI 5.0.7 (Language: C)", "--showme:version", "Open MPI 5.0.7"),
        ("mpicc for MPICH version 4.2.1", "-v", "MPICH 4.2.1"),
        ("mpigcc for the Intel(R) MPI Library 2021.11 for Linux*", "-v", "Intel MPI 2021.11"),
        ("gcc version 12", "-v", "an unknown MPI"),
    ],
)
def test_a_compiler_wrapper_says_its_mpi(says: str, option: str, title: str, tmp_path: Path) -> None:
    assert wrapper_at(str(wrapper(tmp_path, "mpicc", says, option))).title == title


def test_a_wrapper_and_a_launcher_of_one_mpi_fit_and_those_of_two_do_not() -> None:
    four, newer, five = (MpiProgram("/a/mpicc", "openmpi", version) for version in ("4.1.4", "4.1.6", "5.0.7"))
    mpich = MpiProgram("/b/mpirun", "mpich", "4.1.4")
    assert mismatch(four, newer) is None
    assert mismatch(four, MpiProgram("/b/mpirun")) is None
    assert mismatch(four, mpich) == (
        "/a/mpicc compiles with Open MPI 4.1.4, and /b/mpirun launches with MPICH 4.1.4: load one MPI, so that both "
        "come from it"
    )
    assert "compiles with Open MPI 5.0.7" in str(mismatch(five, four))


def test_a_launcher_of_another_mpi_is_passed_over(path: Path) -> None:
    launcher(path, "mpiexec", OPENMPI_4)
    launcher(path, "mpirun", HYDRA)
    assert find_launcher(("mpiexec", "mpirun"), "mpich") == str(path / "mpirun")
    assert find_launcher(("mpiexec", "mpirun"), "openmpi", oldest=5) is None


def test_open_mpi_5_of_the_system_is_used_without_that_of_tools_mpis(path: Path) -> None:
    assert "run tools/mpis" in str(MPIS["openmpi5"].probe())
    launcher(path, "mpirun", OPENMPI_5)
    assert MPIS["openmpi5"].probe() is None
    assert MPIS["openmpi5"].version() == "Open MPI 5.0.7"


def test_an_open_mpi_5_that_crashes_with_several_programs_is_not_available(path: Path) -> None:
    program(path, "mpirun", f"[ \"$1\" = --version ] && echo '{OPENMPI_5}' && exit; kill -SEGV $$\n")
    assert "mpirun crashes when it is given several programs" in str(MPIS["openmpi5"].probe())


def test_an_mpich_that_is_not_debians_is_found_as_mpiexec(path: Path) -> None:
    launcher(path, "mpiexec", HYDRA)
    assert MPIS["mpich"].probe() is None
    assert MPIS["mpich"].version() == "MPICH 4.2.1"


def test_another_mpis_mpiexec_is_not_taken_for_mpichs(path: Path) -> None:
    launcher(path, "mpiexec", OPENMPI_4)
    assert str(MPIS["mpich"].probe()).startswith("MPICH is not installed")


def test_the_compiler_is_the_mpicc_of_path_if_it_belongs_to_the_mpi(path: Path) -> None:
    own = wrapper(path, "mpicc", "mpicc: Open MPI 4.1.6 (Language: C)", "--showme:version")
    launcher(path, "mpirun", OPENMPI_4)
    assert kernels.find_compiler("openmpi") == str(own)
    assert kernels.find_compiler("openmpi5") is None
    assert kernels.find_compiler("mpich") is None


def test_an_mpicc_of_another_mpi_than_mpirun_is_refused_in_a_sentence(path: Path) -> None:
    wrapper(path, "mpicc", "mpicc: Open MPI 4.1.6 (Language: C)", "--showme:version")
    launcher(path, "mpirun", HYDRA)
    assert "launches with MPICH 4.2.1" in str(on_path())
    with pytest.raises(MissingTool, match="load one MPI, so that both come from it"):
        kernels.find_compiler("openmpi")


def test_without_any_wrapper_the_package_with_it_is_named(path: Path) -> None:
    with pytest.raises(MissingTool) as caught:
        kernels.ensure_kernels("openmpi", path / "cache")
    assert "libopenmpi-dev" in caught.value.remedy or "Open MPI with its compiler" in caught.value.remedy
    assert mpi_programs.on_path() is None
