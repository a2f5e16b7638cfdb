"""What Slurm costs the harness: `python benchmarks/slurm.py [--runs 10]` (root, quiet machine).

The cluster is a real slurmctld and two slurmd on the nodes of a lab, used by an ordinary user. Three figures: the time
from `tare submit` to the first trial of the study, without that in the queue; what of a trial's wall time is not its
launch, for a trivial job on two nodes, on `slurm` and on `ssh`, in blocks that alternate; and studies/startup.yaml, in
which srun starts ranks beside mpirun. Exits 1 when a median misses its bound (3 s; 20 ms more on slurm than on ssh).
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks")]

from remote import interval  # noqa: E402

from integration.slurm_nodes import SlurmNodes, slurm_nodes  # noqa: E402
from integration.ssh_hosts import lend, ssh_hosts  # noqa: E402

FIRST_BOUND_S = 3.0
TRIAL_BOUND_S = 0.020
BLOCKS = 4
SMALL = """
environments: [bare, apptainer]
placements: [{nodes: 2, ranks_per_node: 1}]
workloads: {messages: {kernels: [{latency: {message_bytes: 8, iterations: 200, warmup: 20}}]}}
a_a: false
"""


def first_trial(cluster: SlurmNodes, number: int) -> float:
    """Return the seconds from `tare submit` to the first trial, without those in the queue."""
    results = cluster.home / f"first-{number}"
    began = time.time()
    done = cluster.shell(f"tare submit small.yaml --allocations 1 --time 5min --results {results}")
    submitted_s = time.time() - began
    assert done.returncode == 0, done.stderr
    while not (results / "trials.jsonl").exists() or not (results / "trials.jsonl").read_bytes():
        time.sleep(0.05)
    (log,) = (cluster.home / f"first-{number}.job").glob("*.log")  # slurmd makes it when the job begins
    born = subprocess.run(("stat", "--format=%.6W", str(log)), capture_output=True, text=True, check=True)
    from tare.store.writer import read_only

    first = min(trial.started_unix_s for trial in read_only(results).trials)
    while cluster.shell("squeue --noheader").stdout:
        time.sleep(0.2)
    return submitted_s + first - float(born.stdout)


def trials_on_slurm(cluster: SlurmNodes, runs: int) -> list[float]:
    """Return what of each trial's wall time was not its launch, in an allocation."""
    place = f"{cluster.home}/repository/benchmarks/remote.py"
    words = (str(Path(sys.executable).resolve()), place, "--runs", str(runs), "--trials", "{slurm: {}}")
    done = cluster.shell(f"salloc --quiet --nodes=2 --exclusive {shlex.join(words)}")
    assert done.returncode == 0, done.stderr[-3000:]
    answer: list[float] = json.loads(done.stdout)
    return answer


def main() -> int:
    """Measure on clusters made for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    each = max(1, runs // BLOCKS)
    with slurm_nodes(2) as cluster:
        lend(cluster.cache)
        (cluster.home / "small.yaml").write_text(SMALL)
        firsts = [first_trial(cluster, number) for number in range(runs + 1)][1:]
        startup = f"tare run {cluster.home}/repository/studies/startup.yaml --cluster slurm"
        started = cluster.shell(f"salloc --quiet --nodes=2 --exclusive {startup}")
        found: dict[str, list[float]] = {"slurm": [], "ssh": []}
        with ssh_hosts(2) as hosts:
            lend(hosts.cache, image=False)
            named = f"{{ssh: {{hosts: [{', '.join(hosts.names)}], ssh_config: {hosts.config}}}}}"
            place = REPOSITORY / "benchmarks" / "remote.py"
            for _ in range(BLOCKS):
                found["slurm"] += trials_on_slurm(cluster, each)
                found["ssh"] += json.loads(hosts.python(place, "--runs", each, "--trials", named))
    more_s = float(np.median(found["slurm"]) - np.median(found["ssh"]))
    print(started.stdout)
    print(f"tare submit to first trial, without the queue: {interval(firsts)} (bound {1e3 * FIRST_BOUND_S:.0f} ms)")
    for name, values in found.items():
        print(f"of a trial on {name}, not its launch: {interval(values)}")
    print(f"more on slurm than on ssh: {1e3 * more_s:.1f} ms (bound {1e3 * TRIAL_BOUND_S:.0f} ms)")
    return int(float(np.median(firsts)) > FIRST_BOUND_S or more_s > TRIAL_BOUND_S)


if __name__ == "__main__":
    sys.exit(main())
