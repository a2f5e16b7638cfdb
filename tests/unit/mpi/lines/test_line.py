"""Launch lines are read as their launchers read them, and a probe is put where the program was."""

from __future__ import annotations

import shlex

import pytest

from tare.mpi.lines.line import read_line

LINES = {
    "mpirun -n 4 ./app 1 2": "./app 1 2",
    "mpirun -np 4 --map-by ppr:2:node --mca btl tcp,self ./app -n 3": "./app -n 3",
    "/usr/bin/mpirun.openmpi --allow-run-as-root -x A -x B=1 -H a:1,b:1 app": "app",
    "mpiexec -hosts a,b -ppn 1 -genv UCX_TLS tcp -bind-to core ./app": "./app",
    "mpiexec.hydra -n 2 -env A 1 -l ./app": "./app",
    "srun -n 64 apptainer exec app.sif ./app args": "./app args",
    "srun -N2 --ntasks-per-node=2 --mpi=pmix -c 4 --cpu-bind cores -l ./app": "./app",
    "srun --mpi pmi2 --label --exclusive -w n0,n1 ./app -w": "./app -w",
    "srun -lun4 ./app": "./app",
    "flux run -N2 -n 4 -o cpu-affinity=per-task ./app": "./app",
    "mpirun -n 2 singularity -d exec app.sif app": "app",
    "mpirun -n 2 singularity exec -B /data:/data --nv --pwd /tmp app.sif app x": "app x",
    "mpirun -n 2 apptainer run app.sif app x": "app x",
    "mpirun -n 2 docker run --rm -it --network host -v /a:/b -e A=1 image:tag app x": "app x",
    "mpirun -n 2 docker exec -i -u root box app x": "app x",
    "mpirun -n 2 podman run --rm --env-host --network=host image app": "app",
    "mpirun -n 2 podman-hpc run --rm --mpi image app": "app",
    "mpirun -n 2 ch-run -b /data -w image -- app x": "app x",
    "mpirun -n 2 kubectl exec -n jobs pod-0 -c main -- app x": "app x",
    "srun -n 2 shifter --image=a:b app": "app",
    "srun -n 2 sarus run --mpi a/b:c app": "app",
    "mpirun -n 2 env -u A B=1 taskset -c 0 numactl -N 0 app": "app",
    "mpirun -n 2 env B=1 taskset 0x1 numactl -N 0 nice -n 5 timeout -k 5 60 app y": "app y",
    "mpirun -n 2 -- app": "app",
    "env OMP_NUM_THREADS=2 mpirun -n 2 app": "app",
}


@pytest.mark.parametrize("line", LINES)
def test_the_program_is_found_in_a_launch_line(line: str) -> None:
    assert shlex.join(read_line(shlex.split(line)).command) == LINES[line]
