"""How much of a network's set-up is tare's own: `python benchmarks/networks_setup.py [--runs 10]` (root, quiet).

A set-up is a whole deployment on two lab nodes: pods, network, wiring. The product's part is the time in which its
daemons come up, from their start until they answer, and that of CNI plug-ins, nft, Docker's client and daemon, in any
thread; what tare does meanwhile costs nothing. What is left is tare's own: namespaces, netlink, files. Exits 1 when the
median of its share is above the bound (10 %).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyroute2  # noqa: F401  (its import is part of Python's start)
import scipy.stats

from tare import study
from tare.cli import session
from tare.clusters import Needs
from tare.clusters.lab_site import LabCluster
from tare.daemons import daemons, docker, docker_api, etcd
from tare.images.cache import silent
from tare.model import Environment, LabSpec, Placement
from tare.networks import NETWORKS, canal
from tare.networks.wiring import plug
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import study_files

BOUND = 0.10
BARE = ("flannel", "flannel-host-gw", "flannel-udp", "canal")
DOCKER = ("overlay", "overlay-etcd")
WAITS: list[tuple[float, float]] = []
STARTED: dict[int, float] = {}


def waited(owner: Any, name: str) -> None:
    """Note from when to when each call of a function takes."""
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return inner(*arguments, **options)
        finally:
            WAITS.append((began, time.perf_counter()))

    setattr(owner, name, outer)


def followed() -> None:
    """Note of each daemon how long it takes from its start until it is what it was waited for."""
    start, wait_for = daemons.start, daemons.Daemon.wait_for

    def started(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        process = start(*arguments, **options)
        STARTED[process.pid] = began
        return process

    def waited_for(daemon: daemons.Daemon, *arguments: Any, **options: Any) -> Any:
        try:
            return wait_for(daemon, *arguments, **options)
        finally:
            WAITS.append((STARTED[daemon.process.pid], time.perf_counter()))

    daemons.start = started
    daemons.Daemon.wait_for = waited_for  # type: ignore[method-assign]


def covered(spans: list[tuple[float, float]], begin: float, end: float) -> float:
    """Return how long at least one of the spans lasted."""
    total, until = 0.0, begin
    for low, high in sorted(spans):
        total += max(0.0, min(high, end) - max(low, until))
        until = max(until, min(high, end))
    return total


@contextmanager
def files_for(network: str) -> Iterator[Files]:
    """Yield what pods are made of: for Docker's the usual image."""
    if network in BARE:
        yield Files(host_prefix=Path("/nowhere"))
        return
    text = (
        f"name: b\ncluster: lab\nenvironments: [docker+{network}]\nplacements: [2x1]\n"
        "workloads: {w: {kernels: [barrier]}}\n"
    )
    made = study_files.make_files(session.make_plan(study.parse(text)), silent)
    yield next(files for files in made.every if files.rootfs)


def measured(network: str, runs: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each set-up, and tare's own part of them."""
    runtime = "bare" if network in BARE else "docker"
    environment = Environment(
        name=network, runtime=runtime, network=network, image="" if network in BARE else "debian-openmpi"
    )
    needs = Needs(nics=2, docker=runtime == "docker", swarm=network == "overlay", store=network == "overlay-etcd")
    totals, own = [], []
    with files_for(network) as files, LabCluster().open(f"b{os.getpid()}", LabSpec(nodes=2), needs) as site:
        study_files.import_images(site, [files])
        for number in range(runs + 1):
            WAITS.clear()
            began = time.perf_counter()
            with deployed(site, environment, Placement(), slot=number, nic=int(network in BARE), files=files):
                ended = time.perf_counter()
            if number:
                totals.append(ended - began)
                own.append(ended - began - covered(WAITS, began, ended))
    return totals, own


def told(values: list[float]) -> str:
    """Return median and 95 % bootstrap interval in milliseconds."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    return f"{1e3 * float(np.median(values)):.0f} ms [{1e3 * low:.0f}, {1e3 * high:.0f}]"


def main() -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("networks", nargs="*", default=[*BARE, *DOCKER])
    options = parser.parse_args()
    for owner, name in (
        (etcd.EtcdStore, "put"), (plug, "call_cni"), (canal, "run"), (docker, "run"),
        (docker_api, "request"),
    ):  # fmt: skip
        waited(owner, name)
    followed()
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for network in options.networks:
            if reason := NETWORKS[network].probe():
                print(f"{network:16} unavailable: {reason}")
                continue
            totals, own = measured(network, options.runs)
            share = float(np.median([mine / total for mine, total in zip(own, totals, strict=True)]))
            kept &= share <= BOUND
            print(f"{network:16} {told(totals)}, tare's own {told(own)}: {share:.1%}, n = {len(totals)}")
    print(f"bound {BOUND:.0%}: {'kept' if kept else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
