"""How long wiring a pod takes: `python benchmarks/networks.py [--runs 30] [NETWORK...]` (root, quiet machine).

Timed is `attach`, from a pod without a network to one with an address, on the first node of a lab; the nodes' shared
parts (`on_node`), the pod itself and the way back are not. Networks that Docker wires are not among them. Medians with
their 95 % bootstrap interval; exits 1 when one of those that are bound misses its bound (60 ms).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import scipy.stats

from tare.clusters import Needs
from tare.clusters.lab_site import LabCluster, LabSite
from tare.model import Environment, LabSpec, Placement
from tare.networks import NETWORKS, Wiring, find
from tare.runtimes import RUNTIMES, PodRequest
from tare.runtimes.containers.deployment import Deployment, Files

BOUND_S = 0.060
BOUND = ("bridge", "direct", "macvlan", "calico")


def candidates() -> list[str]:
    """Return the networks that we wire ourselves and that can be had here on two nodes."""
    return [
        name
        for name, network in NETWORKS.items()
        if network.wiring is Wiring.OWN and network.probe() is None and network.refuse(2) is None
    ]


def wired(site: LabSite, name: str, runs: int) -> list[float]:
    """Return the seconds of each wiring of a pod on the first node."""
    network, nic = find(name), 1 if NETWORKS[name].owns_nic else 0
    times = []
    with ExitStack() as shared:
        for node in site.nodes:
            shared.enter_context(network.prepare(node, site.nodes, f"{site.name}-0"))
        for node in site.nodes:
            shared.enter_context(network.on_node(node, node.nics[nic]))
        # The pod on the other node is up throughout: some networks wait for what it tells.
        other = site.nodes[1]
        pod = shared.enter_context(RUNTIMES["bare"].pod(request(site, 1, 0)))
        shared.enter_context(network.attach(pod, other.nics[nic]))
        for number in range(runs + 1):
            with RUNTIMES["bare"].pod(request(site, 0, number)) as pod:
                started = time.perf_counter()
                with network.attach(pod, site.nodes[0].nics[nic]):
                    elapsed = time.perf_counter() - started
            if number:  # the first reads programs from the disk
                times.append(elapsed)
    return times


def request(site: LabSite, node: int, number: int) -> PodRequest:
    """Return what a pod without an image is made of."""
    deployment = Deployment(
        study=f"{site.name}-0",
        slot=0,
        environment=Environment(name="bare", runtime="bare", network="host"),
        placement=Placement(),
        nodes=site.nodes,
        nic=0,
        hosts=len(site.nodes),
        files=Files(host_prefix=Path("/nowhere")),
    )
    return PodRequest(
        deployment=deployment,
        node=site.nodes[node],
        host=f"b{node}{number}",
        wiring=Wiring.OWN,
        session=str(site.folder),
    )


def told(name: str, times: list[float]) -> bool:
    """Print a line and return whether the bound is kept, where there is one."""
    low, high = scipy.stats.bootstrap((times,), np.median, method="percentile", rng=1).confidence_interval
    median = float(np.median(times))
    kept = median <= BOUND_S or name not in BOUND
    bound = f"; bound {1e3 * BOUND_S:.0f} ms: {'kept' if kept else 'MISSED'}" if name in BOUND else ""
    print(
        f"{name:18} median {1e3 * median:6.1f} ms [{1e3 * low:.1f}, {1e3 * high:.1f}], "
        f"worst {1e3 * max(times):.1f} ms, n = {len(times)}{bound}",
        flush=True,
    )
    return kept


def main() -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    kept = True
    for name in options.networks or candidates():
        needs = Needs(nics=2, shown=(str(Path.cwd()),))
        with LabCluster().open(f"bn{os.getpid()}", LabSpec(nodes=2, oversubscribe=True), needs) as site:
            kept = told(name, wired(site, name, options.runs)) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
