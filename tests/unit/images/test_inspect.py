"""Which MPI is in an image is told by its files, whatever its links say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tare.images.inside.below import inside
from tare.images.inside.inspect import contains, mpi_of


def put(root: Path, path: str, content: bytes = b"x") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def link(root: Path, path: str, target: str) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def test_an_image_without_an_mpi_has_none(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/libc.so.6")
    assert mpi_of(tmp_path) is None


def test_debians_open_mpi_is_found_with_its_versions_and_programs(tmp_path: Path) -> None:
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
def test_an_mpi_of_ones_own_in_opt_brings_its_programs_from_beside_it(
    tmp_path: Path, library: str, family: str
) -> None:
    daemon = {"openmpi": "prted", "mpich": "hydra_pmi_proxy"}[family]
    put(tmp_path, f"opt/mpi/5.0.3/lib/{library}", b"\x005.0.3\x00")
    put(tmp_path, f"opt/mpi/5.0.3/bin/{daemon}")
    found = mpi_of(tmp_path)
    assert found is not None
    assert (found.family, found.version) == (family, "5.0.3")
    assert found.daemon == f"/opt/mpi/5.0.3/bin/{daemon}"
    assert found.launcher == ""


def test_links_lead_nowhere_outside_of_the_image(tmp_path: Path) -> None:
    root = tmp_path / "image"
    put(tmp_path, "outside", b"secret")
    put(root, "real")
    link(root, "absolute", "/real")
    link(root, "up", "../../../../outside")
    link(root, "round", "round")
    assert inside(root, "/absolute") == root / "real"
    assert inside(root, "up") is None
    assert inside(root, "/round") is None
    assert inside(root, "/none") is None


def test_a_text_is_found_wherever_it_is_in_a_file_and_in_no_pipe(tmp_path: Path) -> None:
    put(tmp_path, "large", bytes((1 << 20) - 3) + b"rdmav34" + bytes(99))
    assert contains(tmp_path / "large", b"rdmav34")
    assert not contains(tmp_path / "large", b"rdmav35")
    os.mkfifo(tmp_path / "pipe")
    assert not contains(tmp_path / "pipe", b"x")
