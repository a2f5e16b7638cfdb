"""Whether this machine's MPI can be loaded in an image is read from ELF files, here those that a compiler made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tare.images.host_mpi import HostMpi
from tare.images.inside.dynamic_loader import find_linked
from tare.images.inside.versions import symbols_of, versions_of
from tare.study.feasibility import injection

pytestmark = pytest.mark.requires("cmake")
RELEASE = 'const char banner[] = "GNU C Library (Test) stable release version 2.31.";'


def library(path: Path, code: str, *needs: Path, version: str = "") -> Path:
    """Compile a library without the C library; its symbols have a version if one is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source, script = path.with_suffix(".c"), path.with_suffix(".map")
    source.write_text(code)
    options = []
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        options.append(f"-Wl,--version-script={script}")
    folders = [f"-Wl,-rpath-link,{each.parent}" for each in needs]
    named = f"-Wl,-soname,{path.name}"
    argv = ("gcc", "-shared", "-nostdlib", "-fPIC", "-o", path, source, named, *options, *folders, *needs)
    subprocess.run(tuple(map(str, argv)), check=True)
    source.unlink()
    script.unlink(missing_ok=True)
    return path


def program(path: Path, *needs: Path, call: str = "MPI_Init") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    code = f"void {call}(void); void _start(void) {{ {call}(); }}"
    source = path.with_suffix(".c")
    source.write_text(code)
    argv = ("gcc", "-nostdlib", "-o", path, source, "-Wl,--allow-shlib-undefined", *needs)
    subprocess.run(tuple(map(str, argv)), check=True)
    source.unlink()
    return path


@pytest.fixture
def new_libc(tmp_path: Path) -> Path:
    return library(tmp_path / "new/libc.so.6", "void fopen64(void) {}", version="GLIBC_2.34")


@pytest.fixture
def host(tmp_path: Path, new_libc: Path) -> HostMpi:
    """Return an MPI of this machine that needs a new C library."""
    code = "void fopen64(void); void MPI_Init(void) { fopen64(); }"
    library(tmp_path / "host/lib/libmpi.so.40", code, new_libc)
    return HostMpi(
        folder=tmp_path / "host", launcher=tmp_path / "mpirun", shown=(str(tmp_path / "host"),), glibc=(2, 34)
    )


def image(tmp_path: Path, version: str) -> Path:
    rootfs = tmp_path / f"image-{version}"
    library(rootfs / "usr/lib/x86_64-linux-gnu/libc.so.6", f"void fopen64(void) {{}} {RELEASE}", version=version)
    return rootfs


def test_versions_and_symbols_are_those_that_the_compiler_wrote(tmp_path: Path, host: HostMpi, new_libc: Path) -> None:
    mine = host.folder / "lib/libmpi.so.40"
    assert dict(versions_of(mine).needed) == {"libc.so.6": ("GLIBC_2.34",)}
    assert "GLIBC_2.34" in versions_of(new_libc).defined
    defined, wanted = symbols_of(mine)
    assert "MPI_Init" in defined
    assert wanted == {"fopen64"}


def test_what_this_machine_starts_every_day_lacks_nothing() -> None:
    shell = Path("/bin/sh").resolve()
    loaded = find_linked(shell, Path("/")).found
    needed = versions_of(shell).needed
    assert needed
    for name, versions in needed.items():
        assert set(versions) <= versions_of(loaded[name].resolve()).defined
    assert injection._unresolved(shell, (path.resolve() for path in loaded.values())) == []


def test_a_c_library_is_new_enough_or_told_with_file_version_and_release(tmp_path: Path, host: HostMpi) -> None:
    assert injection.misfit(host, "Open MPI 4.1", image(tmp_path, "GLIBC_2.34")) is None
    assert injection.misfit(host, "Open MPI 4.1", image(tmp_path, "GLIBC_2.30")) == (
        "libmpi.so.40 needs GLIBC_2.34, and the image has glibc 2.31: "
        "use an image of a newer distribution, or the image's own MPI (launch: exec)"
    )


def test_a_program_of_the_image_for_another_abi_is_told(tmp_path: Path, host: HostMpi) -> None:
    rootfs = image(tmp_path, "GLIBC_2.34")
    other = library(rootfs / "usr/lib/x86_64-linux-gnu/libmpi.so.12", "void MPI_Init(void) {}")
    app = program(rootfs / "usr/bin/app", other)
    assert injection.misfit(host, "Open MPI 4.1", rootfs, app) == (
        "app is built for libmpi.so.12, and Open MPI 4.1 here is libmpi.so.40: use the image's own MPI (launch: exec)"
    )


def test_a_symbol_that_this_machines_library_lacks_is_told(tmp_path: Path, host: HostMpi) -> None:
    rootfs = image(tmp_path, "GLIBC_2.34")
    newer = library(
        rootfs / "usr/lib/x86_64-linux-gnu/libmpi.so.40", "void MPI_Init(void) {} void MPI_Session_init(void) {}"
    )
    assert injection.misfit(host, "Open MPI 4.1", rootfs, program(rootfs / "usr/bin/old", newer)) is None
    app = program(rootfs / "usr/bin/app", newer, call="MPI_Session_init")
    assert injection.misfit(host, "Open MPI 4.1", rootfs, app) == (
        "app of the image needs MPI_Session_init, which Open MPI 4.1 here does not define: "
        "use the image's own MPI (launch: exec)"
    )


def test_a_version_that_a_replaced_library_lacks_is_told(tmp_path: Path, host: HostMpi) -> None:
    rootfs = image(tmp_path, "GLIBC_2.34")
    library(host.folder / "lib/libstdc++.so.6", "void grow(void) {}", version="GLIBCXX_3.4.30")
    newer = library(rootfs / "usr/lib/x86_64-linux-gnu/libstdc++.so.6", "void grow(void) {}", version="GLIBCXX_3.4.33")
    app = program(rootfs / "usr/bin/app", newer, call="grow")
    assert injection.misfit(host, "Open MPI 4.1", rootfs, app) == (
        "app of the image needs GLIBCXX_3.4.33 of libstdc++.so.6, and this machine's is older: "
        "use the image's own MPI (launch: exec)"
    )


def test_a_program_of_this_machine_is_not_looked_at(tmp_path: Path, host: HostMpi) -> None:
    rootfs = image(tmp_path, "GLIBC_2.34")
    assert injection.misfit(host, "Open MPI 4.1", rootfs, tmp_path / "elsewhere/app") is None
