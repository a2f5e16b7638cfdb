"""The launch of MPICH names hosts, transport and devices; which mpiexec is taken for MPICH."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from factory_job import job_of
from launches import launch_argv, make_job, settings, values
from tare.images import MPI_OF, RECIPES
from tare.launch import Entry, Host
from tare.launch.ways import variables_of
from tare.model import Placement, RankOrder
from tare.mpi.mpich import WAYS, Mpich
from tare.study import parse

UCX = """HYDRA build details:
    Version:                                 4.0.2
    Configure options:                       '--with-device=ch4:ucx'"""


def test_every_host_is_named_with_its_ranks_and_no_host_by_an_address() -> None:
    argv = launch_argv("mpich", make_job(ranks=2))
    assert values(argv, "-hosts") == ["n0:2,n1:2"]
    assert values(argv, "-n") == ["4"]


def test_hydra_gives_ranks_to_hosts_in_turn_that_have_one_place_each() -> None:
    job = make_job(ranks=2)
    argv = launch_argv("mpich", replace(job, placement=replace(job.placement, rank_order=RankOrder.CYCLIC)))
    assert values(argv, "-hosts") == ["n0:1,n1:1"]
    assert values(argv, "-n") == ["4"]


def test_pods_whose_interfaces_differ_are_told_their_own() -> None:
    argv = launch_argv("mpich", make_job(interfaces=("eth0", "data1"), programs=("inside", "outside")))
    first, second = argv[: argv.index(":")], argv[argv.index(":") :]
    assert settings(first, "-env") == [("UCX_NET_DEVICES", "eth0")]
    assert settings(second, "-env") == [("UCX_NET_DEVICES", "data1")]
    assert values(argv, "-n") == ["1", "1"]
    assert first[-2:] == ("inside", "two words")
    assert second[-2:] == ("outside", "two words")


def test_only_the_padding_is_taken_from_the_environment_of_the_launcher() -> None:
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


# --- its image ----------------------------------------------------------------------------------------------------


def test_an_environment_that_names_no_image_has_the_one_with_its_mpi() -> None:
    text = """
    environments: {bare: {mpi: mpich}, bare+image: {mpi: mpich}, docker: {mpi: mpich}, own: {runtime: docker,
      network: bridge, mpi: mpich, image: true}}
    workloads: {micro: {kernels: [barrier]}}
    """
    found = {each.name: each.image for each in parse(text).environments}
    assert found == {"bare": "", "bare+image": "debian-mpich", "docker": "debian-mpich", "own": "debian-mpich"}


def test_the_mpi_of_an_image_is_that_of_its_recipe() -> None:
    assert {name: make().mpi for name, make in RECIPES.items()} == dict(MPI_OF)


# --- which mpiexec ------------------------------------------------------------------------------------------------


def fake_mpiexec(folder: Path, name: str, says: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all there is to find programs in."""
    monkeypatch.setattr("tare.mpi.mpich.find", lambda name: shutil.which(name, path=str(tmp_path)))
    return tmp_path


def test_the_version_is_read_from_what_mpiexec_says(only: Path) -> None:
    fake_mpiexec(only, "mpiexec.mpich", UCX)
    assert Mpich().version() == "MPICH 4.0.2"
    assert Mpich().probe() is None


def test_an_mpich_over_another_network_library_is_not_taken(only: Path) -> None:
    fake_mpiexec(only, "mpiexec.mpich", UCX.replace("ucx", "ofi"))
    assert "without UCX" in str(Mpich().probe())


def test_another_mpi_under_the_same_name_is_not_taken_for_mpich(only: Path) -> None:
    fake_mpiexec(only, "mpiexec.mpich", "mpirun (Open MPI) 4.1.4")
    assert "is not MPICH but 'mpirun (Open MPI) 4.1.4'" in str(Mpich().probe())


def test_without_any_mpiexec_the_package_is_named(only: Path) -> None:
    assert Mpich().probe() == "MPICH is not installed: apt-get install mpich"
    assert Mpich().version() == ""
