"""An MPI is found under any name, on this machine and in an image, and not started by another's launcher."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tare.errors import InfrastructureError, MissingTool
from tare.images import host_mpi, kernels, mpi_programs
from tare.images.host_mpi import LIBC, HostMpi, find_libraries, glibc_needed, glibc_of
from tare.images.inside.inspect import contains, mpi_of
from tare.images.mpi_programs import MpiProgram, find_launcher, launcher_at, mismatch, on_path, wrapper_at
from tare.mpi import MPIS
from tare.system.process import Result
from unit.images.writing import link, put
from unit.scripts import script, speaker

OPENMPI_4 = "mpirun (Open MPI) 4.1.6"
OPENMPI_5 = "mpirun (Open MPI) 5.0.7"
HYDRA = "HYDRA build details:\n    Version:                                 4.2.1\n    CC: gcc --with-device=ch4:ucx"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all of PATH, with no MPI of tools/mpis."""

    def find(name: str) -> str | None:
        return shutil.which(name, path=str(tmp_path))

    for module in ("images.mpi_programs", "system.process"):
        monkeypatch.setattr(f"tare.{module}.find", find)
    for module in ("openmpi", "openmpi5", "mpich"):
        monkeypatch.setattr(f"tare.mpi.{module}.find", find)
    monkeypatch.setattr("tare.images.mpi_wheels.FOLDER", tmp_path / "none")
    return tmp_path


def wrapper(folder: Path, name: str, says: str, option: str) -> Path:
    """Write a wrapper that says its MPI on one option, and passes another on to a compiler that refuses it."""
    text = f'case "$1" in {option}) echo "{says}";; *) echo "cc: no input files" >&2; exit 1;; esac'
    return script(folder / name, text)


@pytest.mark.parametrize(
    ("says", "title"),
    [
        (OPENMPI_4, "Open MPI 4.1.6"), ("mpirun.openmpi (OpenRTE) 4.1.4", "Open MPI 4.1.4"), (HYDRA, "MPICH 4.2.1"),
        (INTEL, "Intel MPI 2021.11"), ("srun 22.05", "an unknown MPI"), ("", "an unknown MPI"),
    ],
)  # fmt: skip
def test_a_launcher_says_its_mpi(says: str, title: str, tmp_path: Path) -> None:
    assert launcher_at(str(speaker(tmp_path / "mpirun", says))).title == title


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


CRASHES = f"[ \"$1\" = --version ] && echo '{OPENMPI_5}' && exit; kill -SEGV $$\n"


@pytest.mark.parametrize(
    ("mpi", "programs", "reason", "version"),
    [
        ("openmpi5", {}, "run tools/mpis", ""),
        ("openmpi5", {"mpirun": OPENMPI_5}, None, "Open MPI 5.0.7"),
        ("openmpi5", {"mpirun": CRASHES}, "mpirun crashes when it is given another host", ""),
        ("mpich", {"mpiexec": HYDRA}, None, "MPICH 4.2.1"),
        ("mpich", {"mpiexec": OPENMPI_4}, "MPICH is not installed", ""),
    ],
)
def test_an_mpi_is_there_if_a_launcher_of_its_own_is_and_works(
    mpi: str, programs: dict[str, str], reason: str | None, version: str, path: Path
) -> None:
    for name, says in programs.items():
        script(path / name, says) if "kill" in says else speaker(path / name, says)
    found = MPIS[mpi].probe()
    assert (reason in str(found)) if reason else found is None
    assert not version or MPIS[mpi].version() == version


@pytest.mark.parametrize("says", [OPENMPI_4, HYDRA])
def test_the_compiler_is_the_mpicc_of_path_if_it_belongs_to_the_mpi_and_mpirun(says: str, path: Path) -> None:
    own = wrapper(path, "mpicc", "mpicc: Open MPI 4.1.6 (Language: C)", "--showme:version")
    speaker(path / "mpirun", says)
    if says == OPENMPI_4:
        assert [kernels.find_compiler(mpi) for mpi in ("openmpi", "openmpi5", "mpich")] == [str(own), None, None]
    else:
        assert "launches with MPICH 4.2.1" in str(on_path())
        with pytest.raises(MissingTool, match="load one MPI, so that both come from it"):
            kernels.find_compiler("openmpi")


def test_a_launcher_of_another_mpi_is_passed_over_and_a_missing_wrapper_is_told(path: Path) -> None:
    with pytest.raises(MissingTool) as caught:
        kernels.ensure_kernels("openmpi", path / "cache")
    assert "libopenmpi-dev" in caught.value.remedy or "Open MPI with its compiler" in caught.value.remedy
    assert mpi_programs.on_path() is None
    speaker(path / "mpiexec", OPENMPI_4)
    speaker(path / "mpirun", HYDRA)
    assert find_launcher(("mpiexec", "mpirun"), "mpich") == str(path / "mpirun")
    assert find_launcher(("mpiexec", "mpirun"), "openmpi", oldest=5) is None


def test_debians_open_mpi_is_found_with_its_versions_and_programs(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/libc.so.6")
    assert mpi_of(tmp_path) is None
    libraries = "usr/lib/x86_64-linux-gnu"
    put(tmp_path, f"{libraries}/libmpi.so.40.30.4", b"Open MPI v%d.%d.%d\x00a\x004.1.4\x00b")
    link(tmp_path, f"{libraries}/libmpi.so.40", "libmpi.so.40.30.4")
    put(tmp_path, f"{libraries}/pmix2/lib/libpmix.so.2.6.2", b"\x002.9.0\x00OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2)")
    link(tmp_path, f"{libraries}/libpmix.so.2", "pmix2/lib/libpmix.so.2.6.2")
    put(tmp_path, "usr/bin/orted")
    put(tmp_path, "usr/bin/orterun")
    link(tmp_path, "usr/bin/mpirun", "/etc/alternatives/mpirun")
    link(tmp_path, "etc/alternatives/mpirun", "/usr/bin/orterun")
    link(tmp_path, "lib", "usr/lib")
    found = mpi_of(tmp_path)
    assert found is not None
    assert (found.family, found.soname, found.version, found.pmix) == ("openmpi", "libmpi.so.40", "4.1.4", "4.2.2")
    assert found.library == f"/{libraries}/libmpi.so.40"
    assert (found.launcher, found.daemon) == ("/usr/bin/mpirun", "/usr/bin/orted")


@pytest.mark.parametrize(
    ("library", "family"), [("libmpich.so.12", "mpich"), ("libmpi.so.12", "mpich"), ("libmpi.so.40", "openmpi")]
)
def test_an_mpi_of_ones_own_in_opt_brings_programs_beside_it(tmp_path: Path, library: str, family: str) -> None:
    daemon = {"openmpi": "prted", "mpich": "hydra_pmi_proxy"}[family]
    put(tmp_path, f"opt/mpi/5.0.3/lib/{library}", b"\x005.0.3\x00")
    put(tmp_path, f"opt/mpi/5.0.3/bin/{daemon}")
    found = mpi_of(tmp_path)
    assert found is not None
    assert ((found.family, found.version), found.daemon) == ((family, "5.0.3"), f"/opt/mpi/5.0.3/bin/{daemon}")
    assert found.launcher == ""


def test_a_text_is_found_wherever_it_is_in_a_file_and_in_no_pipe(tmp_path: Path) -> None:
    put(tmp_path, "large", bytes((1 << 20) - 3) + b"rdmav34" + bytes(99))
    assert contains(tmp_path / "large", b"rdmav34")
    assert not contains(tmp_path / "large", b"rdmav35")
    os.mkfifo(tmp_path / "pipe")
    assert not contains(tmp_path / "pipe", b"x")


SAID = """/usr/bin/orted:
\tlinux-vdso.so.1 (0x00007ffd)
\tlibopen-rte.so.40 => /lib/x86_64-linux-gnu/libopen-rte.so.40 (0x00007f12)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f11)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f13)
/usr/lib/plugin.so:
\tlibopen-rte.so.40 => /lib/x86_64-linux-gnu/libopen-rte.so.40 (0x00007f12)
\tlibmissing.so.1 => not found
\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f10)
"""


def asks_for(*versions: str) -> bytes:
    return b"\x7fELF" + b"".join(f"\0GLIBC_{version}\0".encode() for version in versions)


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 libresolv.so.2", True),
        ("ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld64.so.2", True),
        ("libcrypt.so.1 libcap.so.2 libmpi.so.40 libmunge.so.2 libgcc_s.so.1", False),
    ],
)
def test_the_c_library_is_left_to_the_image_and_others_with_such_names_are_not(names: str, left: bool) -> None:
    assert [bool(LIBC.fullmatch(name)) for name in names.split()] == [left] * len(names.split())


def test_each_library_that_the_loader_found_is_taken_once_or_nothing_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_mpi, "find", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        host_mpi, "run", lambda argv, **_: Result(argv=argv, status=0, stdout=SAID, stderr="", elapsed_s=0.1)
    )
    folder = Path("/lib/x86_64-linux-gnu")
    assert find_libraries([Path("/usr/bin/orted")]) == (folder / "libopen-rte.so.40", folder / "libz.so.1")
    monkeypatch.setattr(host_mpi, "find", lambda name: None)
    with pytest.raises(InfrastructureError, match="ldd, which finds the libraries of the MPI, is not installed"):
        find_libraries([Path("/usr/bin/orted")])


def test_the_newest_version_that_a_file_asks_for_counts_and_what_is_shown_is_told(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(asks_for("2.2.5", "2.34", "2.4", "2.9"))
    assert glibc_needed(file) == (2, 34)
    file.write_bytes(b"\x7fELF static")
    assert glibc_needed(file) == (0, 0)
    mine = HostMpi(folder=Path("/cache/x"), launcher=Path("/cache/x/bin/mpirun"), shown=("/cache/x",), glibc=(2, 34))
    assert mine.environment == (f"PATH=/cache/x/bin:{host_mpi.PATH}", "LD_LIBRARY_PATH=/cache/x/lib")


@pytest.mark.parametrize(
    "place",
    ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu",
     "usr/lib64", "lib64", "lib"],
)  # fmt: skip
def test_the_c_library_of_an_image_is_found_where_distributions_have_it(place: str, tmp_path: Path) -> None:
    assert glibc_of(tmp_path) is None
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "libc.so.6").write_bytes(asks_for("2.2.5", "2.36"))
    assert glibc_of(tmp_path) == (2, 36)
