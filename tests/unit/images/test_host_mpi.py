"""What is collected of this machine's MPI, and in which images it can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.errors import InfrastructureError
from tare.host.process import Result
from tare.images import host_mpi
from tare.images.host_mpi import LIBC, HostMpi, find_libraries, glibc_needed, glibc_of

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
    "name",
    [
        *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libresolv.so.2"),
        *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld64.so.2"),
    ],
)
def test_the_c_library_is_left_to_the_image(name: str) -> None:
    assert LIBC.fullmatch(name)


@pytest.mark.parametrize("name", ["libcrypt.so.1", "libcap.so.2", "libmpi.so.40", "libmunge.so.2", "libgcc_s.so.1"])
def test_other_libraries_with_such_names_are_taken(name: str) -> None:
    assert not LIBC.fullmatch(name)


def test_each_library_that_the_loader_found_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_mpi, "find", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        host_mpi, "run", lambda argv, **_: Result(argv=argv, status=0, stdout=SAID, stderr="", elapsed_s=0.1)
    )
    folder = Path("/lib/x86_64-linux-gnu")
    assert find_libraries([Path("/usr/bin/orted")]) == (folder / "libopen-rte.so.40", folder / "libz.so.1")


def test_without_the_loader_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_mpi, "find", lambda name: None)
    with pytest.raises(InfrastructureError, match="ldd, which finds the libraries of the MPI, is not installed"):
        find_libraries([Path("/usr/bin/orted")])


def test_the_newest_version_that_a_file_asks_for_counts_as_a_number(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(asks_for("2.2.5", "2.34", "2.4", "2.9"))
    assert glibc_needed(file) == (2, 34)
    file.write_bytes(b"\x7fELF static")
    assert glibc_needed(file) == (0, 0)


@pytest.mark.parametrize("place", ["lib/x86_64-linux-gnu", "usr/lib64", "lib"])
def test_the_c_library_of_an_image_is_found_where_distributions_have_it(place: str, tmp_path: Path) -> None:
    assert glibc_of(tmp_path) is None
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (folder / "libc.so.6").write_bytes(asks_for("2.2.5", "2.36"))
    assert glibc_of(tmp_path) == (2, 36)


def test_a_daemon_and_its_ranks_are_told_where_what_is_shown_is() -> None:
    mine = HostMpi(folder=Path("/cache/x"), launcher=Path("/cache/x/bin/mpirun"), shown=("/cache/x",), glibc=(2, 34))
    assert mine.environment == (f"PATH=/cache/x/bin:{host_mpi.PATH}", "LD_LIBRARY_PATH=/cache/x/lib")


@pytest.mark.parametrize(
    "place",
    ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib64", "lib64", "lib"],
)
def test_the_c_library_of_an_image_is_found_on_every_architecture(place: str, tmp_path: Path) -> None:
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "libc.so.6").write_bytes(asks_for("2.17", "2.28"))
    assert glibc_of(tmp_path) == (2, 28)
