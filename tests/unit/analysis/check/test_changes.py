"""The line that a finding prints is the user's own with the change, and is read again as a launch line."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from tare.analysis.check.changes import CHANGES, LAUNCHERS, changed_line, with_lines
from tare.analysis.check.facts import JobFacts, MpiAnswer, PairTimes, RankFacts, RankInterface
from tare.analysis.check.rules import RULES
from tare.mpi.lines.line import read_line

OPENMPI = {"OMPI_COMM_WORLD_SIZE": "2"}
HYDRA = {"PMI_RANK": "0"}
SLURM = {"SLURM_PROCID": "0"}
NEAR = PairTimes(other=1, sent_bytes=1, bytes={"lo": 1.0})
ALL = {name for names in LAUNCHERS.values() for name in names}


def job(variables: dict[str, str], library: str = "libmpi.so.40") -> JobFacts:
    made = RankFacts(
        host="a", machine="a", cpus=frozenset({0, 1}), variables=variables, mpi_library=f"/usr/lib/{library}",
        interfaces=tuple(RankInterface(name=name, is_up=True) for name in ("lo", "docker0", "eth1")),
        mpi=MpiAnswer(ended="exit", size=1, rank=0, near=NEAR),
    )  # fmt: skip
    return JobFacts(launcher="mpirun", container="", ranks=(made, made), hosts=2)


MPICH = "libmpich.so.12"


def test_the_line_of_a_finding_has_the_changes_of_those_before_it() -> None:
    made = job({**HYDRA, "UCX_TLS": "tcp,self"}, MPICH)
    ranks = tuple(replace(each, cpus=frozenset({0}), online=2) for each in made.ranks)
    line = read_line(shlex.split("env UCX_TLS=tcp,self taskset -c 0 mpirun.mpich -n 2 ./app"))
    rows = {rule.name: rule for rule in RULES}
    found = [rows[name].finding(replace(made, ranks=ranks)) for name in ("apart", "shared-cores")]
    lines = [each.line for each in with_lines([each for each in found if each is not None], line, made)]
    assert "UCX_TLS" not in lines[0]
    assert "taskset" in lines[0]
    assert "UCX_TLS" not in lines[1]
    assert "taskset" not in lines[1]


def apart(variables: dict[str, str], container: str = "ch-run") -> JobFacts:
    made = job(variables)
    mpi = MpiAnswer(ended="exit", error="Shared memory error")
    return replace(made, container=container, ranks=tuple(replace(each, mpi=mpi) for each in made.ranks))


CASES = [
    ("alone", "mpirun -n 2 apptainer exec --cleanenv a.sif ./app", job({}), "mpirun -n 2 apptainer exec a.sif ./app"),
    ("alone", "mpirun -n 2 apptainer exec -ce -B /a a.sif ./app", job({}),
     "mpirun -n 2 apptainer exec -c -B /a a.sif ./app"),
    ("alone", "mpirun -n 2 singularity exec -eC a.sif ./app -e", job({}),
     "mpirun -n 2 singularity exec a.sif ./app -e"),
    ("alone", "mpirun -n 2 podman run --rm a ./app", job({}), "mpirun -n 2 podman run --env-host --rm a ./app"),
    ("alone", "mpirun -n 2 sudo -u me ./app", job({}), "mpirun -n 2 ./app"),
    ("alone", "mpirun -n 2 env -i A=1 ./app", job({}), "mpirun -n 2 env A=1 ./app"),
    ("alone", "mpirun -n 2 ./app", job({}), ""),
    ("alone", "srun -n 2 ./app", job(SLURM), "srun --mpi=pmix -n 2 ./app"),
    ("alone", "srun --mpi pmi2 -n 2 ./app", job(SLURM), "srun --mpi=pmix -n 2 ./app"),
    ("alone", "srun --mpi=pmix ./app", job(SLURM, MPICH), "srun --mpi=pmi2 ./app"),
    ("alone", "mpirun --bind-to none -np 2 -H a,b ./app -n", job(OPENMPI, MPICH),
     "mpirun.mpich -np 2 -hosts a,b ./app -n"),
    ("alone", "/usr/bin/mpiexec -f h -ppn 1 -n 2 ./app", job(HYDRA), "mpirun.openmpi --hostfile h -n 2 ./app"),
    ("alone", "mpirun -n 2 apptainer exec a.sif ./app", job(OPENMPI, MPICH), ""),
    ("alone", "mpirun -n 2 ./app", job(OPENMPI), ""),
    ("fails-to-start", "mpiexec -n 2 ch-run -b /a a -- ./app", apart(HYDRA),
     "mpiexec -n 2 ch-run --join --join-ct=2 --join-tag=job -b /a a -- ./app"),
    ("fails-to-start", "srun ch-run --join-ct=4 a -- ./app", apart(SLURM), "srun ch-run --join a -- ./app"),
    ("fails-to-start", "srun apptainer exec a ./app", apart(SLURM, "apptainer"), ""),
    ("one-node", "mpirun -n 2 -H a,b ./app", job(OPENMPI), "mpirun --map-by ppr:1:node -n 2 -H a,b ./app"),
    ("one-node", "mpiexec -ppn 2 -n 2 ./app", job(HYDRA), "mpiexec -ppn 1 -n 2 ./app"),
    ("one-node", "srun -n 2 ./app", job(SLURM), ""),
    ("wrong-interface", "mpirun --mca btl_tcp_if_include docker0 -n 2 ./app", job(OPENMPI),
     "mpirun --mca btl_tcp_if_include eth1 -x UCX_NET_DEVICES=eth1 -n 2 ./app"),
    ("wrong-interface", "mpiexec -n 2 ./app", job(HYDRA),
     "env OMPI_MCA_btl_tcp_if_include=eth1 UCX_NET_DEVICES=eth1 FI_TCP_IFACE=eth1 mpiexec -n 2 ./app"),
    ("apart", "mpirun --mca btl tcp,self -n 2 ./app", job({**OPENMPI, "OMPI_MCA_btl": "tcp,self"}),
     "mpirun -n 2 ./app"),
    ("apart", "mpirun -x UCX_TLS=tcp -x A -n 2 ./app", job({**OPENMPI, "UCX_TLS": "tcp"}), "mpirun -x A -n 2 ./app"),
    ("apart", "mpiexec -genv UCX_TLS tcp -n 2 ./app", job({**HYDRA, "UCX_TLS": "tcp"}), "mpiexec -n 2 ./app"),
    ("apart", "env UCX_TLS=tcp A=1 mpiexec -n 2 ./app", job({**HYDRA, "UCX_TLS": "tcp"}), "env A=1 mpiexec -n 2 ./app"),
    ("apart", "srun ./app", job({**SLURM, "UCX_TLS": "tcp"}), "env -u UCX_TLS srun ./app"),
    ("apart", "mpirun -n 2 docker run --ipc=private a ./app", job(OPENMPI),
     "mpirun -n 2 docker run --ipc=host --pid=host a ./app"),
    ("apart", "mpirun -n 2 apptainer exec -c --ipc a.sif ./app", job(OPENMPI),
     "mpirun -n 2 apptainer exec a.sif ./app"),
    ("shared-cores", "taskset -c 0 mpirun --bind-to core -n 2 ./app", job(OPENMPI), "mpirun --bind-to none -n 2 ./app"),
    ("shared-cores", "mpiexec -n 2 ./app", job(HYDRA), "mpiexec -bind-to none -n 2 ./app"),
    ("shared-cores", "mpirun -n 2 docker run --cpuset-cpus 0 a ./app", job(OPENMPI),
     "mpirun --bind-to none -n 2 docker run a ./app"),
    ("shared-cores", "srun ./app", job(SLURM), ""),
    ("small-quota", "docker run --cpus 1 --rm a mpirun -n 2 ./app", job(OPENMPI),
     "docker run --rm a mpirun -n 2 ./app"),
    ("crowded-threads", "mpirun -n 2 ./app", job({**OPENMPI, "OMP_NUM_THREADS": "8"}),
     "env OMP_NUM_THREADS=2 mpirun -n 2 ./app"),
    ("crowded-threads", "mpirun -x OMP_NUM_THREADS=8 ./app", job({**OPENMPI, "OMP_NUM_THREADS": "8"}),
     "mpirun -x OMP_NUM_THREADS=2 ./app"),
    ("crowded-threads", "mpiexec -genv OMP_NUM_THREADS 8 ./app", job({**HYDRA, "OMP_NUM_THREADS": "8"}),
     "mpiexec -genv OMP_NUM_THREADS 2 ./app"),
    ("crowded-threads", "srun -c1 ./app", job({**SLURM, "OMP_NUM_THREADS": "8"}), "srun --cpus-per-task=8 ./app"),
    ("small-shm", "mpirun -n 2 podman run --shm-size 64m a ./app", job(OPENMPI),
     "mpirun -n 2 podman run --shm-size=1g a ./app"),
    ("small-shm", "mpirun -n 2 ./app", job(OPENMPI), ""),
    ("little-locked", "mpirun docker run a ./app", job(OPENMPI), "mpirun docker run --ulimit memlock=-1 a ./app"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "line", "found", "wanted"), CASES)
def test_the_changed_line_is_the_users_own(rule: str, line: str, found: JobFacts, wanted: str) -> None:
    given = read_line(shlex.split(line))
    changed = changed_line(rule, given, found, ALL)
    assert shlex.join(changed) == wanted
    if changed:
        assert read_line(changed).command == given.command


def test_only_a_launcher_that_is_there_is_named() -> None:
    line = read_line(["mpirun", "-n", "2", "./app"])
    assert changed_line("alone", line, job(OPENMPI, MPICH), ()) == ()
    assert changed_line("alone", line, job(OPENMPI, MPICH), {"mpiexec.hydra"})[0] == "mpiexec.hydra"


def test_every_change_is_one_of_a_rule() -> None:
    assert {*CHANGES} <= {rule.name for rule in RULES}
    assert {*CHANGES} == {rule for rule, *_ in CASES}
