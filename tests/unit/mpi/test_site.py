"""The MPI of the user's environment: which it is, how it is launched with nothing forced, what of the user it keeps.

`TARE_UPDATE_GOLDEN=1 pytest tests/unit/mpi/test_site.py` writes tests/golden/site.txt again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from factory_job import WIRING, job_of
from golden_texts import check_golden
from launches import make_job
from tare.agent.probe import probe
from tare.clusters import CLUSTERS
from tare.errors import MissingTool, RefusedError
from tare.images import mpi_programs
from tare.model import Binding, Environment, Launching, Placement
from tare.mpi import MPIS
from tare.mpi.defaults import with_transport
from tare.mpi.launch import Entry, Host
from tare.mpi.launch.kept_variables import PLACES, SETTINGS, dropped_names
from tare.mpi.path_mpi import LauncherKind, recognise
from tare.run import job as run_job
from tare.study import parse
from tare.study.feasibility.availability import out_of_reach
from tare.study.plan import composition
from unit.scripts import script

GOLDEN = Path(__file__).parents[2] / "golden" / "site.txt"
HYDRA = "HYDRA build details:\\n    Version:                                 {}\\n    Release Date:  unreleased\\n"
SAID = {
    "openmpi4": {"mpirun": "mpirun (Open MPI) 4.1.4\\n\\nReport bugs to http://www.open-mpi.org/community/help/\\n"},
    "openmpi5": {"mpirun": "mpirun (Open MPI) 5.0.3\\n"},
    "mpich": {"mpiexec": HYDRA.format("4.1.2"), "mpichversion": "MPICH Version:\\t4.1.2\\nMPICH Device:\\tch4:ofi\\n"},
    "mvapich2": {
        "mpiexec": HYDRA.format("3.2.1"),
        "mpichversion": "MVAPICH2 Version:     \\t2.3.7\\nMVAPICH2 Device:      \\tch3:mrail\\n",
    },
    "mvapich2-by-mpiname": {
        "mpirun": HYDRA.format("3.2.1"),
        "mpiname": "MVAPICH2 2.3.7 Wed March 02 22:00:00 EST 2022 ch3:mrail\\n\\nCompilation\\nCC: gcc\\n",
    },
    "mvapich": {
        "mpirun": HYDRA.format("4.0"),
        "mpichversion": "MVAPICH Version:      3.0\\nMVAPICH Device: ch4:ofi\\n",
    },
    "intelmpi": {"mpirun": "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)\\n"},
}
TITLES = {
    "openmpi4": (LauncherKind.OPEN_MPI_4, "Open MPI 4.1.4"),
    "openmpi5": (LauncherKind.OPEN_MPI_5, "Open MPI 5.0.3"),
    "mpich": (LauncherKind.HYDRA, "MPICH 4.1.2"),
    "mvapich2": (LauncherKind.HYDRA, "MVAPICH2 2.3.7"),
    "mvapich2-by-mpiname": (LauncherKind.HYDRA, "MVAPICH2 2.3.7"),
    "mvapich": (LauncherKind.HYDRA, "MVAPICH 3.0"),
    "intelmpi": (LauncherKind.INTEL, "Intel MPI 2021.11"),
}
USER = {
    "FI_PROVIDER": "tcp", "FI_PROVIDER_PATH": "/opt/fabric", "LD_LIBRARY_PATH": "/opt/mpi/lib", "LOADEDMODULES": "mpi",
    "OMPI_MCA_btl_tcp_if_include": "ib0", "OMPI_MCA_plm_rsh_agent": "/bin/mine", "UCX_TLS": "rc,self", "SECRET": "x",
    "SLURM_JOB_ID": "7",
}  # fmt: skip
Loads = Callable[..., Path]


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Return a function that makes a module's programs all there is to find, with what they print."""

    def load(name: str = "", **more: str) -> Path:
        folder = tmp_path / (name or "other") / "bin"
        folder.mkdir(parents=True)
        for program, said in {**SAID.get(name, {}), **more}.items():
            script(folder / program, f"printf '{said}'")
        for variable in [each for each in os.environ if each.startswith(SETTINGS + PLACES)]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("PATH", str(folder))
        return folder

    return load


def crashing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the MPI on PATH a distribution's Open MPI 5 that crashes with hosts; return its folder."""
    script(folder / "mpirun", '[ "$1" = --version ] || kill -SEGV $$; echo "mpirun (Open MPI) 5.0.7"')
    monkeypatch.setattr("tare.mpi.site.OF_SYSTEM", f"{folder}/")
    return folder


# --- which MPI ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAID)
def test_the_mpi_on_path_is_recognised_by_what_its_programs_print(name: str, loads: Loads) -> None:
    loads(name)
    found = recognise(os.environ)
    assert (found.kind, found.title) == TITLES[name]
    assert MPIS["site"].version() == TITLES[name][1]
    assert MPIS["site"].family == ("openmpi" if name.startswith("openmpi") else "mpich")
    assert MPIS["site"].probe() is None


def test_the_launcher_is_the_file_behind_a_link_because_its_daemons_are_there(loads: Loads, tmp_path: Path) -> None:
    folder = loads("mpich")
    (tmp_path / "view").mkdir()
    (tmp_path / "view/mpirun").symlink_to(folder / "mpiexec")
    os.environ["PATH"] = str(tmp_path / "view")  # the fixture restores it
    found = recognise(os.environ)
    assert found.launcher == str(folder / "mpiexec")


def test_cray_mpich_is_known_by_its_module_and_is_started_by_srun_alone(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads()
    assert recognise({"CRAY_MPICH_VERSION": "8.1.28"}) == recognise({**os.environ, "CRAY_MPICH_VERSION": "8.1.28"})
    monkeypatch.setenv("CRAY_MPICH_VERSION", "8.1.28")
    site = MPIS["site"]
    assert (site.version(), site.family, site.probe(), site.pmis) == (
        "Cray MPICH 8.1.28",
        "mpich",
        None,
        ("cray_shasta",),
    )
    here = Environment(name="e", runtime="bare", network="host", mpi="site", transport="auto")
    assert probe(here) == (
        "Cray MPICH 8.1.28 has no launcher of its own, the batch system starts its ranks: use launch: srun"
    )
    assert probe(replace(here, launch=Launching.SRUN)) is None
    with pytest.raises(RefusedError, match="has no launcher of its own"):
        site.launch(make_job("auto"))


def test_without_an_mpi_or_with_an_unknown_one_the_probe_says_what_to_do(loads: Loads) -> None:
    loads()
    assert MPIS["site"].version() == ""
    assert MPIS["site"].probe() == (
        "no mpirun or mpiexec is on PATH: load the module of an MPI, or apt-get install openmpi-bin"
    )
    folder = loads("strange", mpirun="LAM 7.1\\n")
    assert MPIS["site"].probe() == (
        f"{folder}/mpirun is of no MPI that tare knows: load the module of another MPI, or name one with `mpi`"
    )
    folder = loads("unknown", mpirun="hello\\n")
    assert mpi_programs.launcher_at(str(folder / "mpirun")).family == ""


def test_a_compiler_of_another_mpi_is_told_and_a_missing_one_too(loads: Loads) -> None:
    loads("openmpi4", mpicc="mpicc for MPICH version 4.1.2\\n")
    assert "load one MPI, so that both come from it" in str(MPIS["site"].probe())
    loads("mpich")
    with pytest.raises(MissingTool, match="mpicc, with which programs for the MPI of the site are compiled"):
        MPIS["site"].compiler()


# --- the launch ---------------------------------------------------------------------------------------------------


def written(folder: Path, *, asks: bool = False) -> str:
    hosts = [
        Host(name="n0", ranks=2, agent=Entry(argv=("nsenter", "--"))),
        Host(name="n1", ranks=2, agent=Entry(argv=("docker", "exec", "c"))),
    ]
    job = job_of(hosts, Placement(ranks_per_node=2), replace(WIRING, transport="auto", asks=asks))
    first, second = job.members
    launch = MPIS["site"].launch(replace(job, members=(first, replace(second, inside=True))))
    lines = [f"{host.name}: {agent.as_json()}" for host in launch.hosts if (agent := host.agent)]
    lines += [" ".join(launch.argv("/run/tare-agent"))]
    lines += [f"{key}={value}" for key, value in MPIS["site"].head_environment("/run/tare-agent").items()]
    return "\n".join(lines).replace(str(folder), "BIN") + "\n"


def test_the_launches_are_as_they_were(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, str] = {}
    for name in SAID:
        folder = loads(name)
        for variable, value in USER.items():
            monkeypatch.setenv(variable, value)
        texts |= {name: written(folder), f"{name}, asked": written(folder, asks=True)}
    check_golden(GOLDEN, texts)


def test_ranks_are_not_bound_and_no_path_of_the_host_survives() -> None:
    environment = Environment(name="e", runtime="bare", network="host", mpi="site", transport="auto")
    assert run_job.as_bound(environment, Placement()).binding is Binding.MPI_DEFAULT
    assert run_job.as_bound(replace(environment, mpi="openmpi"), Placement()).binding is Binding.DISJOINT
    assert dropped_names(USER) == ("FI_PROVIDER_PATH", "LD_LIBRARY_PATH", "LOADEDMODULES")


def test_by_srun_ranks_get_no_setting_and_containers_no_library_path(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads("openmpi4")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/mpi/lib")
    hosts = [Host(name="n0", ranks=1, alias="node1", enter=(Entry(argv=("ch-run",)),))]
    job = job_of(hosts, Placement(nodes=1), replace(WIRING, transport="auto"))
    inside = replace(job, members=(replace(job.members[0], inside=True),))
    (bare,), (contained,) = (MPIS["site"].for_srun(each) for each in (job, inside))
    assert bare.environment == contained.environment == {}
    assert bare.host.agent is None
    assert bare.host.enter[0].drops == ()
    assert contained.host.enter[0].drops == ("LD_LIBRARY_PATH",)


def test_an_environment_or_workload_leaves_its_transport_to_this_mpi_unless_it_names_one() -> None:
    text = """
    environments: {bare: {mpi: site}, other: {runtime: bare}, named: {runtime: bare, mpi: site, transport: tcp}}
    workloads: {micro: {kernels: [barrier]}}
    """
    study = parse(text)
    assert {each.name: each.transport for each in study.environments} == {
        "bare": "auto",
        "other": "tcp",
        "named": "tcp",
    }
    reason = composition.refuse(study.environments[2], Placement())
    assert reason == "the MPI of the site has no transport 'tcp' here: auto"
    assert "has no transport 'auto' here" in str(
        composition.refuse(replace(study.environments[1], transport="auto"), Placement())
    )
    named = Environment(name="e", runtime="bare", network="host")
    assert composition.under(named, "site").transport == "auto"
    assert composition.under(composition.under(named, "site"), "mpich").transport == "tcp"
    assert with_transport(replace(named, transport="ucx")).transport == "ucx"


# --- a launcher that can be given no host -----------------------------------------------------------------------------


def test_a_launcher_that_crashes_with_hosts_starts_ranks_beside_itself_which_enter_by_themselves(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = crashing(loads(), monkeypatch)
    site = MPIS["site"]
    assert (site.probe(), site.alike) == (None, "openmpi")
    daemon = Entry(argv=("ch-run", "image", "--"), cgroups=("/group",), cpus=(0, 1))
    job = job_of(
        [Host(name="n0", ranks=2, agent=daemon)],
        Placement(ranks_per_node=2),
        programs=[("app",)],
        environments=[{"LD_PRELOAD": "inside.so"}],
    )
    launch = site.launch(replace(job, members=tuple(replace(each, inside=True) for each in job.members)))
    argv = launch.argv("/run/tare-agent")
    assert argv[0] == str(folder / "mpirun")
    assert "--host" not in argv
    assert argv[-3:] == ("/run/tare-agent", "--rank", "app")
    assert "TARE_HOST=n0" in argv
    assert not any(word.startswith("LD_PRELOAD") for word in argv), "it would be searched for outside the container"
    for rank in range(2):
        entry = launch.enter("n0", rank)
        assert (entry.argv, entry.cgroups, entry.cpus, entry.carry) == (daemon.argv, daemon.cgroups, (), True)
        assert dict(entry.variables)["LD_PRELOAD"] == "inside.so"
        assert "OMPI_MCA_mca_base_component_path" in entry.drops, "the launcher's own, in which an image's MPI has none"
    assert launch.agent("n0") is None


def test_a_launcher_that_crashes_with_hosts_is_refused_where_ranks_are_elsewhere(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = crashing(loads(), monkeypatch)
    with pytest.raises(RefusedError, match="crashes when it is given another host"):
        MPIS["site"].launch(make_job("auto"))
    here = Environment(name="e", runtime="bare", network="host", mpi="site", transport="auto")
    assert out_of_reach(here, CLUSTERS["local"]) is None
    assert out_of_reach(replace(here, mpi="mpich"), CLUSTERS["lab"]) is None
    assert out_of_reach(replace(here, launch=Launching.SRUN), CLUSTERS["slurm"]) is None
    in_own_network = out_of_reach(replace(here, network="pasta"), CLUSTERS["local"])
    for reason in (in_own_network, *(out_of_reach(here, CLUSTERS[name]) for name in ("lab", "ssh", "slurm"))):
        assert str(reason).startswith(f"{folder}/mpirun crashes when it is given")
