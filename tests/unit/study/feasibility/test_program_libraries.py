"""What a program of this machine needs besides itself is shown inside, or told with where it is and what has it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tare.model import Cell, Environment, Placement, Role, Workload
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import program_libraries
from tare.workloads import own_programs
from tare.workloads.own_programs import own_folders
from unit.images.test_linked import LOADER, an_elf
from unit.images.writing import put


def cell(program: Path, **stated: object) -> Cell:
    environment = Environment(name="docker", runtime="docker", network="host", image="debian-openmpi", mpi="openmpi")
    return Cell(
        key="k", group="g", role=Role.ENVIRONMENT, workload=Workload(name="app", command=(str(program),)),
        environment=replace(environment, **stated), placement=Placement(),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Files:
    put(tmp_path, f"image{LOADER}", an_elf(soname="ld-linux-x86-64.so.2"))
    return Files(host_prefix=Path("/none"), rootfs=tmp_path / "image")


def compiled(folder: Path, text: str, *options: str) -> None:
    subprocess.run(("gcc", "-x", "c", "-", *options), input=text, text=True, check=True, cwd=folder)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("libgomp.so.1", "make an image that has it by `tare image add debian-openmpi libgomp1`"),
        ("libsite.so", "show it inside by --bind {0}:{0} -x LD_LIBRARY_PATH={0} (binds: and env: in a study)"),
        ("libgone.so", "libgone.so is not found on this machine either"),
    ],
)
def test_a_missing_library_is_told_with_its_package_or_its_folder(
    name: str, told: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = put(tmp_path, "bin/app", an_elf(name, interpreter=LOADER))
    here = {"libgomp.so.1": Path("/usr/lib/libgomp.so.1"), "libsite.so": tmp_path / "libsite.so"}
    monkeypatch.setattr(own_programs, "_ldd_output", lambda *_: "".join(f"{n} => {f}\n" for n, f in here.items()))
    monkeypatch.setattr(own_programs, "package_of", lambda file: "libgomp1" if "gomp" in file.name else "")
    reason = program_libraries.misfit(cell(app), files)
    assert reason == f"app needs {name}, which the image lacks: {told.format(tmp_path)}"
    own = program_libraries.misfit(cell(app, image="./my.sif"), files)
    assert own
    assert "tare image add" not in own


def test_a_package_of_another_release_may_not_be_in_the_images(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = put(tmp_path, "bin/app", an_elf("libmpi_new.so.9", interpreter=LOADER))
    (tmp_path / "here").write_text("PRETTY_NAME='Debian 14'\n")
    monkeypatch.setattr(program_libraries, "OS_RELEASE", tmp_path / "here")
    monkeypatch.setattr(own_programs, "_ldd_output", lambda *_: "libmpi_new.so.9 => /usr/lib/libmpi_new.so.9\n")
    monkeypatch.setattr(own_programs, "package_of", lambda _: "libmpi-new9")
    for release, is_other in (("Debian 14", False), ("Debian 12", True)):
        put(tmp_path, "image/etc/os-release", f"ID=debian\nPRETTY_NAME='{release}'\n".encode())
        reason = str(program_libraries.misfit(cell(app), files))
        assert "`tare image add debian-openmpi libmpi-new9`" in reason
        assert ("if Debian 12, of which the image is, has the package too; otherwise compile" in reason) == is_other


def test_a_program_of_another_mpi_is_told_to_choose_it(files: Files, tmp_path: Path) -> None:
    app = put(tmp_path, "bin/app", an_elf("libmpich.so.12", interpreter=LOADER))
    reason = program_libraries.misfit(cell(app), files)
    assert reason
    assert reason.startswith("app is built for MPICH, and the MPI of the environment is Open MPI")
    assert "--mpi mpich (mpi: mpich in a study)" in reason


def test_binds_variables_and_the_programs_own_search_paths_count(files: Files, tmp_path: Path) -> None:
    """A library beside `bin`, found by $ORIGIN/../lib, is shown; one of LD_LIBRARY_PATH where the variable is given."""
    for folder in ("pre/bin", "pre/lib", "other"):
        (tmp_path / folder).mkdir(parents=True)
    compiled(tmp_path, "int f(void) { return 7; }", "-shared", "-fPIC", "-o", "pre/lib/libf.so")
    text = "int f(void); int main(void) { return f(); }"
    compiled(tmp_path, text, "-o", "pre/bin/app", "-Lpre/lib", "-lf", "-Wl,-rpath,$ORIGIN/../lib")
    compiled(tmp_path, text, "-o", "other/plain", "-Lpre/lib", "-lf")
    app, plain, lib = tmp_path / "pre/bin/app", tmp_path / "other/plain", str(tmp_path / "pre/lib")
    assert own_folders(app) == (lib,)
    assert own_folders(plain) == ()
    assert own_folders(plain, lib) == (lib,)
    given = (f"LD_LIBRARY_PATH={lib}",)
    assert program_libraries.folders_of([cell(plain, env=given), cell(plain)], {str(plain): plain}) == [lib]

    bare = {"image": "", "runtime": "bare"}
    lacks = program_libraries.misfit(cell(plain, **bare), files)
    assert lacks == f"plain needs libf.so, which this machine lacks: {program_libraries.HERE}"
    assert program_libraries.misfit(cell(plain, env=given, **bare), files) is None
    put(tmp_path, "image/usr/lib/libc.so.6", Path("/lib/x86_64-linux-gnu/libc.so.6").read_bytes())
    put(tmp_path, f"image{LOADER}", Path(LOADER).read_bytes())
    bound = {"env": given, "binds": (f"{lib}:{lib}:ro",)}
    assert program_libraries.misfit(cell(plain, **bound), files) is None
    assert "libf.so" in str(program_libraries.misfit(cell(plain, env=given), files))
    assert program_libraries.misfit(cell(app), replace(files, shown=(str(app.parent), lib))) is None


def test_a_virtual_environment_is_shown_whole(tmp_path: Path) -> None:
    python = put(tmp_path, "venv/bin/python", b"#!/bin/sh\n")
    assert own_folders(python) == ()
    put(tmp_path, "venv/pyvenv.cfg", b"home = /usr/bin\n")
    assert own_folders(python) == (str(tmp_path / "venv"),)
