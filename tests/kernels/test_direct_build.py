"""Without CMake, the MPI's compiler wrapper alone builds the same programs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernels.builds import check
from tare.images import direct_build, kernels
from tare.images.direct_build import Lists, build_kernels
from tare.images.kernels import ensure_kernels, has_cmake
from tare.images.recipe import source_files
from tare.images.sources import kernels_source, miniapps_source

pytestmark = pytest.mark.requires("openmpi", "cmake")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the kernels, built by an `mpicc.openmpi` that has no other tool by name."""
    folder = tmp_path_factory.mktemp("direct")
    wrapper = shutil.which("mpicc.openmpi")
    assert wrapper is not None
    build_kernels(kernels_source(), Path(wrapper), folder)
    return folder


def test_it_installs_the_files_that_cmake_installs(prefix: Path) -> None:
    by_cmake = ensure_kernels("openmpi").prefix
    files = {path.relative_to(by_cmake) for path in by_cmake.rglob("*") if path.is_file()}
    kept = {path for path in files if not path.name.startswith("tare-miniapps")}
    assert {path.relative_to(prefix) for path in prefix.rglob("*") if path.is_file()} == kept
    assert (prefix / "bin/tare-run").read_bytes() == (by_cmake / "bin/tare-run").read_bytes()


def test_the_kernels_run_with_two_ranks(prefix: Path, launch) -> None:
    run = launch("barrier:iterations=3,warmup=1", program=prefix / "bin/tare-kernels")
    assert run.code == 0, run.stderr
    assert len(run.of_type("rank")) == 2


@pytest.mark.parametrize("file", ["lib/libtare_wall.so", "bin/tare-cores"])
def test_what_calls_no_mpi_is_not_linked_with_it(prefix: Path, file: str) -> None:
    shown = check("readelf", "--dynamic", prefix / file)
    assert "(NEEDED)" in shown
    assert "libmpi" not in shown


KERNEL_TARGETS = (
    "tare_common", "tare-kernels", "tare_wall", "tare_wall_report", "make-modules", "tare-startup", "tare-pair",
    "tare-cores",
)  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "names"),
    [(kernels_source(), KERNEL_TARGETS), (miniapps_source(), ("tare_apps", "tare_once", "tare-miniapps"))],
)
def test_every_source_of_the_lists_exists_and_every_source_is_in_a_list(folder: Path, names: tuple[str, ...]) -> None:
    listed = {source.path for name in names for source in Lists(folder).sources(name)}
    present = {path for path in source_files(folder) if path.suffix == ".c"}
    assert listed == present


def test_options_of_a_single_source_are_read() -> None:
    options = {source.path.name: source.options for source in Lists(miniapps_source()).sources("tare_apps")}
    assert options["ep.c"] == ("-ffast-math",)
    assert options["cg_matrix.c"] == ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")
    assert options["is.c"] == ()
    assert {option for its in options.values() for option in its} <= set(direct_build.OPTIONAL)


@pytest.mark.parametrize(("version", "enough"), [("3.25.1", True), ("4.0.0", True), ("3.18.4", False), ("none", False)])
def test_a_cmake_that_is_too_old_is_not_used(
    version: str, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cmake").write_text(f"#!/bin/sh\necho cmake version {version}\n")
    (tmp_path / "cmake").chmod(0o755)
    monkeypatch.setattr(kernels.process, "find", lambda _name: str(tmp_path / "cmake"))
    assert has_cmake() is enough


def test_where_cmake_fails_the_wrapper_builds_alone(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cmake").write_text('#!/bin/sh\n[ "$1" = --version ] && echo cmake version 3.30.0 || exit 1\n')
    (tmp_path / "bin/cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(
        kernels, "build_kernels", lambda _source, _wrapper, work: shutil.copytree(prefix, work, dirs_exist_ok=True)
    )
    monkeypatch.setattr(kernels, "build_miniapps", lambda *_: None)
    said: list[str] = []
    build = ensure_kernels("openmpi", tmp_path / "cache", said.append)
    assert build.program.is_file()
    assert any("CMake failed; compiling with" in line for line in said)
