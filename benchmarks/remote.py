"""What hosts by ssh cost the harness: `python benchmarks/remote.py [--runs 20]` (root, quiet machine).

The hosts are the nodes of a lab with a real sshd each; the head is an ordinary user in the lab's control network. Two
figures: the time until the services of 8 hosts have answered, connections included, their archive being there already,
with OpenSSH's default key exchange and with a faster one; and what of a trial's wall time is not its launch, for a
trivial job on two nodes, on `ssh` and on `lab`, in blocks that alternate. Exits 1 when a median misses its bound (1 s
with either key exchange; 20 ms more on ssh than on lab).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import scipy.stats

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks")]

FAST_EXCHANGE = "curve25519-sha256"
"""All hosts are on one machine here, whose cores work out every key exchange of both sides. The one that OpenSSH 9
prefers, which resists quantum computers, takes most of that time. Users choose with KexAlgorithms in ~/.ssh/config."""
UP_BOUND_S = 1.0
TRIAL_BOUND_S = 0.020
BLOCKS = 4
KERNELS = "[{latency: {message_bytes: 8, iterations: 100, warmup: 10}}]"
STUDY = """
name: remote
cluster: {cluster}
environments: [bare]
placements: [{{nodes: 2, ranks_per_node: 1}}]
workloads: {{trivial: {{kernels: {kernels}}}}}
"""


def interval(values: list[float]) -> str:
    """Return median and 95 % bootstrap interval in milliseconds."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    return f"{1e3 * float(np.median(values)):.1f} ms [{1e3 * low:.1f}, {1e3 * high:.1f}], n = {len(values)}"


def up(config: str, hosts: list[str], runs: int) -> list[float]:
    """Return the seconds until the services of all hosts had answered, without the first, which copies the archive."""
    from tare.clusters.ssh_connections import SshConnections

    taken = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        made = SshConnections(hosts, config)
        taken.append(time.perf_counter() - began)
        made.close()
    return taken[1:]


def trials(cluster: str, runs: int) -> list[float]:
    """Return what of each trial's wall time was not its launch, in seconds."""
    from harness import Silent

    from tare import study
    from tare.cli import session
    from tare.model import Completed, TrialKey
    from tare.run import runner
    from tare.store.writer import Store
    from tare.study.feasibility import study_files

    plan = session.make_plan(study.parse(STUDY.format(cluster=cluster, kernels=KERNELS)))
    files = study_files.make_files(plan)
    taken = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, Silent(), name="bench", say=print) as run,
        ExitStack() as stack,
    ):
        ((key, one),) = [(key, one) for key, one in run.pods(stack).items() if key.endswith("bare")]
        for number in range(runs + 1):
            began = time.perf_counter()
            trial = run.trial(TrialKey(cell=key, round=number, block=0, attempt=0), 0, one)
            wall_s = time.perf_counter() - began
            assert isinstance(trial.outcome, Completed), trial.outcome
            taken.append(wall_s - trial.elapsed_s)
    return taken[1:]


def main() -> int:
    """Measure on hosts made for it, or, as their head, one part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--up", nargs=2, metavar=("CONFIG", "HOSTS"), help=argparse.SUPPRESS)
    parser.add_argument("--trials", metavar="CLUSTER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.up:
        print(json.dumps(up(asked.up[0], asked.up[1].split(","), asked.runs)))
        return 0
    if asked.trials:
        print(json.dumps(trials(asked.trials, asked.runs)))
        return 0
    from integration.ssh_hosts import lend, ssh_hosts

    services = {}
    with ssh_hosts(8) as hosts:
        fast = hosts.folder / "ssh_config_fast"
        fast.write_text(f"{hosts.config.read_text()}  KexAlgorithms {FAST_EXCHANGE}\n")
        for exchange, config in (("the default", hosts.config), (FAST_EXCHANGE, fast)):
            answer = hosts.python(__file__, "--runs", asked.runs, "--up", config, ",".join(hosts.names))
            services[exchange] = json.loads(answer)
    found: dict[str, list[float]] = {"ssh": [], "lab": []}
    each = max(1, asked.runs // BLOCKS)
    with ssh_hosts(2) as hosts:
        lend(hosts.cache, image=False)
        named = f"{{ssh: {{hosts: [{', '.join(hosts.names)}], ssh_config: {hosts.config}}}}}"
        for _ in range(BLOCKS):
            found["ssh"] += json.loads(hosts.python(__file__, "--runs", each, "--trials", named))
            argv = (sys.executable, __file__, "--runs", str(each), "--trials", "{lab: {nodes: 2}}")
            found["lab"] += json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    more_s = float(np.median(found["ssh"]) - np.median(found["lab"]))
    for exchange, values in services.items():
        print(f"services of 8 hosts up, {exchange} key exchange: {interval(values)} (bound {1e3 * UP_BOUND_S:.0f} ms)")
    for name, values in found.items():
        print(f"of a trial on {name}, not its launch: {interval(values)}")
    print(f"more on ssh than on lab: {1e3 * more_s:.1f} ms (bound {1e3 * TRIAL_BOUND_S:.0f} ms)")
    slowest = max(float(np.median(values)) for values in services.values())
    return int(slowest > UP_BOUND_S or more_s > TRIAL_BOUND_S)


if __name__ == "__main__":
    sys.exit(main())
