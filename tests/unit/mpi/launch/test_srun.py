"""A launch by srun: its argv for each MPI, and how its ranks find their place.

`TARE_UPDATE_GOLDEN=1 pytest tests/unit/mpi/launch/test_srun.py` rewrites tests/golden/srun.txt; review the difference.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from factory_job import WIRING, job_of
from golden_texts import check_golden
from tare.model import Binding, Placement, RankOrder
from tare.mpi import MPIS
from tare.mpi.launch import BIND, Entry, Host, Launch, bound, write_agent, write_map
from tare.mpi.launch import agent as tare_agent
from tare.mpi.launch.srun import UNSET, entered_by_ranks, launch_by_srun
from tare.system.namespaces import plain_python
from unit.scripts import script

GOLDEN = Path(__file__).parents[3] / "golden" / "srun.txt"
BY_SRUN = ("mpich", "mpich5", "openmpi", "openmpi5")
"""Those whose launches do not depend on what is installed here."""
CONTAINER = ("apptainer", "exec", "image.sif")
AGENT = "/run/tare-agent"


def hosts(enter: tuple[str, ...], ranks: int = 2) -> list[Host]:
    plain = (Host(name=f"n{number}", ranks=ranks, agent=Entry()) for number in range(2))
    return [entered_by_ranks(host, enter, f"c{number + 1}") for number, host in enumerate(plain)]


def launch_of(name: str, enter: tuple[str, ...], placement: Placement = Placement(ranks_per_node=2)) -> Launch:  # noqa: B008
    job = job_of(
        hosts(enter),
        placement,
        programs=[bound(("app", "two words"), ())],
        environments=[{BIND: "0 1", "TARE_PADDING": "xx"}, {BIND: "4 5", "TARE_PADDING": "xx"}],
    )
    mpi = MPIS[name]
    return launch_by_srun(job, mpi.for_srun(job), program="srun", pmi=mpi.pmis[0])


def test_ranks_go_to_the_nodes_in_turn_if_the_placement_says_so() -> None:
    launch = launch_of("openmpi", (), Placement(ranks_per_node=2, rank_order=RankOrder.CYCLIC))
    assert "--distribution=cyclic" in launch.argv(AGENT)
    assert launch.as_map() == launch_of("openmpi", ()).as_map()


def test_the_argv_and_the_map_of_a_launch_are_as_they_were() -> None:
    texts = {}
    for name in BY_SRUN:
        for place in ("bare", "container"):
            launch = launch_of(name, CONTAINER if place == "container" else ())
            words = [word for word in launch.argv(AGENT) if word not in {*UNSET, "-u"}]
            texts[f"{name}-{place}"] = "\n".join([*words, json.dumps(launch.as_map(), indent=1), ""])
    check_golden(GOLDEN, texts)


def test_variables_that_srun_would_read_are_unset() -> None:
    argv = launch_of("openmpi", ()).argv(AGENT)
    assert argv[0] == "env"
    assert argv[1 : 1 + 2 * len(UNSET)] == tuple(word for name in UNSET for word in ("-u", name))


@pytest.mark.parametrize("binding", Binding)
def test_slurm_binds_only_where_the_site_is_to(binding: Binding) -> None:
    argv = launch_of("openmpi", (), Placement(ranks_per_node=2, binding=binding)).argv(AGENT)
    assert ("--cpu-bind=none" in argv) == (binding is not Binding.MPI_DEFAULT)


def started(launch: Launch, folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start a rank through the real agent, as srun does on a node."""
    program = write_agent(folder, plain_python())
    write_map(launch, folder / "map.json")
    environment = {"PATH": os.environ["PATH"], "TARE_LAUNCH_MAP": str(folder / "map.json"), **variables}
    return subprocess.run(
        (str(program), "--rank", *command), env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("node", "cores"), [("c1", "0 1"), ("c2", "4 5")])
def test_a_rank_finds_its_host_by_the_name_of_slurms_node(node: str, cores: str, tmp_path: Path) -> None:
    launch = launch_of("openmpi", ())
    done = started(launch, tmp_path, "sh", "-c", f"echo ${BIND}", SLURMD_NODENAME=node, SLURM_LOCALID="1")
    assert (done.stdout, done.stderr) == (f"{cores}\n", "")


def test_a_rank_that_enters_a_container_works_in_the_launchers_folder_if_it_is_there(tmp_path: Path) -> None:
    """Otherwise a relative name among a program's arguments means another file than without the container."""
    for enter, folder in ((("env", "--chdir=/"), tmp_path), ((), tmp_path), (("env", "--chdir=/"), Path("/"))):
        launch = launch_of("openmpi", enter)
        program = write_agent(tmp_path, plain_python())
        write_map(launch, tmp_path / "map.json")
        variables = {"PATH": os.environ["PATH"], "TARE_LAUNCH_MAP": str(tmp_path / "map.json")}
        argv = (str(program), "--rank", "sh", "-c", "pwd")
        own = {**variables, "SLURMD_NODENAME": "c1", "SLURM_LOCALID": "0"}
        done = subprocess.run(argv, env=own, cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout == f"{folder}\n"


def test_a_rank_that_is_in_no_map_says_so_and_tares_own_host_counts_before_slurms(tmp_path: Path) -> None:
    done = started(launch_of("openmpi", ()), tmp_path, "true", SLURMD_NODENAME="c9", SLURM_LOCALID="0")
    assert done.returncode == 125
    assert "the launch map has no host" in done.stderr
    assert "n0, n1" in done.stderr
    done = started(
        launch_of("openmpi", ()), tmp_path, "sh", "-c", f"echo ${BIND}",
        SLURMD_NODENAME="c1", TARE_HOST="n1", SLURM_LOCALID="0",
    )  # fmt: skip
    assert done.stdout == "4 5\n"
    os.environ.pop("SLURMD_NODENAME", None)
    assert tare_agent.of_scheduler({"n0": {"alias": ""}, "n1": {}}) == ""


def test_a_daemon_in_a_step_does_not_leave_it(tmp_path: Path) -> None:
    """Slurm ends what a step has started when its first process ends, so Open MPI's daemon must stay that process."""
    via = script(tmp_path / "via", 'printf "%s\\n" "$@"')
    agent = write_agent(tmp_path, plain_python())
    line = ("orted", "--daemonize", "-mca", "ess", "env")
    printed = {}
    for attached in (True, False):
        host = Host(name="n0", ranks=1, agent=Entry(via=(str(via),), attached=attached))
        job = job_of([host], Placement(nodes=1), WIRING)
        write_map(MPIS["openmpi"].launch(job), tmp_path / "map.json")
        environment = {"PATH": os.environ["PATH"], "TARE_LAUNCH_MAP": str(tmp_path / "map.json")}
        done = subprocess.run((str(agent), "n0", *line), env=environment, capture_output=True, text=True, check=True)
        printed[attached] = done.stdout
    assert "--daemonize" not in printed[True]
    assert "orted -mca ess env" in printed[True]
    assert "--daemonize" in printed[False]
