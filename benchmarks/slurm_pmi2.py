"""How often MPICH 5 hangs as Slurm cuts its requests: `python benchmarks/slurm_pmi2.py [--launches 100]` (root).

srun starts two ranks by `--mpi=pmi2` on two nodes of a Slurm cluster in a lab, over UCX and over libfabric in turn,
with the variables that a study's `transport: tcp` and `ofi:tcp` set. Prints the shares of launches of which Slurm says
that it cut a request, and of those that hung, with their 95 % intervals (Clopper and Pearson). Exits 1 if a launch over
libfabric was cut.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from scipy.stats import binomtest

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY / "tests")]

from integration.slurm_nodes import SlurmNodes, slurm_nodes  # noqa: E402
from integration.test_slurm_compatibility import PLACES, SRUN, command  # noqa: E402
from tare.mpi import MPIS  # noqa: E402
from tare.mpi.launch.ways import way_of  # noqa: E402
from tare.run.symptoms import SYMPTOMS  # noqa: E402

DEVICES = {"tcp": {"UCX_NET_DEVICES": "data0"}, "ofi:tcp": {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "data0"}}
LIMIT_S = 5
OF_TIMEOUT = 124


def launch(cluster: SlurmNodes, transport: str, rank: str) -> tuple[bool, bool]:
    """Start two ranks and tell whether Slurm cut a request of theirs, and whether they hung."""
    variables = {**way_of(MPIS["mpich5"].ways, transport, "MPICH 5").variables, **DEVICES[transport]}
    words = shlex.join(f"{name}={value}" for name, value in variables.items())
    ended = cluster.shell(f"salloc --nodes=2 --quiet timeout {LIMIT_S} env {words} {SRUN} --mpi=pmi2 {rank}")
    (symptom,) = [each for each in SYMPTOMS if each.name == "request cut by Slurm"]
    hung = ended.returncode == OF_TIMEOUT
    assert hung or not ended.returncode, ended.stderr
    return bool(symptom.pattern.search(ended.stderr)), hung


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=100)
    launches = parser.parse_args().launches
    seen: dict[str, list[tuple[bool, bool]]] = {transport: [] for transport in DEVICES}
    with slurm_nodes(2) as cluster:
        rank = command(cluster, "mpich5", PLACES[0])
        for _ in range(launches):
            for transport, its in seen.items():
                its.append(launch(cluster, transport, rank))
    for transport, its in seen.items():
        cut, hung = (share([each[place] for each in its]) for place in range(2))
        print(f"{transport}: cut in {cut}; hung in {hung}")
    return int(any(cut for cut, _ in seen["ofi:tcp"]))


def share(those: list[bool]) -> str:
    """Return how many of some launches, with the interval of their share."""
    its = binomtest(sum(those), len(those)).proportion_ci()
    return f"{sum(those)} of {len(those)} launches ({100 * its.low:.1f} to {100 * its.high:.1f} %)"


if __name__ == "__main__":
    sys.exit(main())
