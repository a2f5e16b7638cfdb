"""The launch of MPICH names hosts, transport and devices; which mpiexec is taken for MPICH."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from factory_job import WIRING, job_of
from tare.errors import RefusedError
from tare.images import MPI_OF, RECIPES
from tare.launch import Entry, Host, Launch
from tare.launch.ways import variables_of
from tare.model import Binding, Placement
from tare.mpi import MpiWiring
from tare.mpi.mpich import WAYS, Mpich
from tare.study import KNOWN, parse

UCX = """HYDRA build details:
    Version:                                 4.0.2
    Configure options:                       '--with-device=ch4:ucx'"""


def hosts(nodes: int = 2, ranks: int = 1) -> tuple[Host, ...]:
    return tuple(Host(name=f"n{i}", ranks=ranks, agent=Entry(argv=("nsenter", "--"))) for i in range(nodes))


def wired(transport: str = "tcp") -> MpiWiring:
    return replace(WIRING, transport=transport)


def launched(
    *,
    nodes: int = 2,
    ranks: int = 1,
    wiring: MpiWiring | None = None,
    programs: tuple[str, ...] = ("app", "app"),
    variables: tuple[dict[str, str], ...] = ({}, {}),
    binding: Binding = Binding.DISJOINT,
    interfaces: tuple[str, ...] = ("data0",),
) -> Launch:
    job = job_of(
        hosts(nodes, ranks),
        Placement(nodes=nodes, ranks_per_node=ranks, binding=binding),
        wiring or wired(),
        head=("nsenter", "--"),
        programs=tuple((program, "two words") for program in programs[:nodes]),
        environments=variables[:nodes],
        interfaces=interfaces,
    )
    return Mpich().launch(job)


def values(argv: tuple[str, ...], option: str) -> list[str]:
    return [argv[i + 1] for i, token in enumerate(argv) if token == option]


def variables(argv: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    return [(argv[i + 1], argv[i + 2]) for i, token in enumerate(argv) if token == option]


def test_every_host_is_named_with_its_ranks_and_no_host_by_an_address() -> None:
    argv = launched(ranks=2).argv("/agent")
    assert values(argv, "-hosts") == ["n0:2,n1:2"]
    assert values(argv, "-n") == ["4"]


def test_the_proxies_call_back_over_the_control_network_and_no_scheduler_is_asked() -> None:
    argv = launched().argv("/agent")
    assert values(argv, "-iface") == ["ctl0"]
    assert values(argv, "-rmk") == ["user"]
    assert "-disable-hostname-propagation" in argv


def test_alike_sides_are_one_context_with_the_device_of_both() -> None:
    argv = launched().argv("/agent")
    assert ":" not in argv
    assert variables(argv, "-env") == [("UCX_NET_DEVICES", "data0")]


def test_pods_whose_interfaces_differ_are_told_their_own() -> None:
    argv = launched(interfaces=("eth0", "data1"), programs=("inside", "outside")).argv("/agent")
    first, second = argv[: argv.index(":")], argv[argv.index(":") :]
    assert variables(first, "-env") == [("UCX_NET_DEVICES", "eth0")]
    assert variables(second, "-env") == [("UCX_NET_DEVICES", "data1")]
    assert values(argv, "-n") == ["1", "1"]
    assert first[-2:] == ("inside", "two words")
    assert second[-2:] == ("outside", "two words")


def test_only_the_padding_is_taken_from_the_environment_of_the_launcher() -> None:
    argv = launched(variables=({"LD_PRELOAD": "/a"}, {"LD_PRELOAD": "/b"})).argv("/agent")
    assert values(argv, "-genvlist") == ["TARE_PADDING"]
    assert [pair for pair in variables(argv, "-env") if pair[0] == "LD_PRELOAD"] == [
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
    wiring = wired(transport)
    assert variables_of(WAYS[transport], job_of(hosts(nodes, ranks), Placement(), wiring)) == named
    argv = launched(nodes=nodes, ranks=ranks, wiring=wiring).argv("/agent")
    assert dict(variables(argv, "-genv")) == named


def test_a_transport_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(RefusedError, match="no transport 'openib' here: tcp, shm, ipoib, ucx, verbs, ofi"):
        launched(wiring=wired("openib"))


@pytest.mark.parametrize(("binding", "named"), [(Binding.DISJOINT, ["none"]), (Binding.MPI_DEFAULT, [])])
def test_ranks_are_bound_by_us_or_by_the_mpi_but_never_by_both(binding: Binding, named: list[str]) -> None:
    assert values(launched(binding=binding).argv("/agent"), "-bind-to") == named


@pytest.mark.parametrize("carry", [True, False])
def test_ranks_behind_a_door_that_closes_files_are_told_a_port(carry: bool) -> None:
    inside = Host(name="d0", ranks=1, agent=Entry(), enter=(Entry(argv=("docker", "exec", "c"), carry=carry),))
    launch = Mpich().launch(job_of((inside,), Placement(nodes=1), wired(), interfaces=("eth0",)))
    assert ("-pmi-port" in launch.argv("/agent")) == carry


def test_the_agents_name_reaches_the_launcher_only() -> None:
    assert "/agent" not in launched().argv("/agent")
    told = Mpich().head_environment("/run/tare/LAB/tare-agent")
    assert told == {"HYDRA_LAUNCHER_EXEC": "/run/tare/LAB/tare-agent", "TMPDIR": "/run/tare/LAB"}


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
    assert KNOWN.images == KNOWN.images
    assert KNOWN.mpi_of == KNOWN.mpi_of


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
