"""Time what starting many one-rank containers on a node takes, against as many `docker run -d` one after the other.

Both are made on one host of the lab with a Docker daemon of its own, alternating; what is removed is not timed. The
bound is half of the serial time. Run it on a quiet machine, as root:

    python benchmarks/containers.py [--containers 32] [--runs 3]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median

from tare.clusters import Needs
from tare.clusters.lab_site import LabCluster, LabSite
from tare.daemons import docker
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.model import Environment, LabSpec, Placement
from tare.networks import Wiring
from tare.runtimes import RUNTIMES, PodRequest
from tare.runtimes.containers.deployment import Deployment, Files
from tare.system.node import Node

BOUND = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the start of many containers on a node.")
    parser.add_argument("--containers", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if reason := docker.probe():
        print(f"containers: {reason}", file=sys.stderr)
        return 5
    image = ensure_image(find_recipe())
    tag = f"tare:{image.digest[:16]}"
    with LabCluster().open(f"bench{os.getpid()}", LabSpec(nodes=1), Needs(docker=True)) as site:
        node = site.daemon_nodes[0]
        docker.import_image(node, image.tar, tag)
        ours, serial = [], []
        for _ in range(arguments.runs):
            serial.append(one_after_the_other(node, tag, arguments.containers))
            ours.append(in_a_pod(site, node, tag, arguments.containers))
    share = median(ours) / median(serial)
    print(f"{arguments.containers} containers, {arguments.runs} runs, medians")
    print(f"docker run -d, one after the other   {median(serial):.2f} s [{min(serial):.2f}, {max(serial):.2f}]")
    print(f"tare, in one pod                     {median(ours):.2f} s [{min(ours):.2f}, {max(ours):.2f}]")
    print(f"ratio {share:.2f}; bound {BOUND}: {'kept' if share <= BOUND else 'BROKEN'}")
    return int(share > BOUND)


def one_after_the_other(node: Node, tag: str, number: int) -> float:
    """Return the seconds of as many `docker run -d`."""
    names = [f"tare-serial-{index}" for index in range(number)]
    started = time.monotonic()
    for name in names:
        docker.run_docker(node, "run", "--detach", "--network", "host", "--name", name, tag, "sleep", "infinity")
    elapsed = time.monotonic() - started
    docker.run_docker(node, "rm", "--force", *names, timeout_s=300)
    return elapsed


def in_a_pod(site: LabSite, node: Node, tag: str, number: int) -> float:
    """Return the seconds until as many containers of a pod can be entered."""
    deployment = Deployment(
        study="bench",
        slot=0,
        environment=Environment(name="docker", runtime="docker", network="host", image="debian-openmpi"),
        placement=Placement(nodes=1),
        nodes=(node,),
        nic=0,
        hosts=2,
        files=Files(host_prefix=Path("/nowhere"), image_tag=tag),
    )
    request = PodRequest(
        deployment=deployment,
        node=node,
        host="pod",
        wiring=Wiring.NODE,
        network_options=("--network", "host"),
        session=str(site.folder),
    )
    runtime = RUNTIMES["docker"]
    cores = [(node.cores[index % len(node.cores)],) for index in range(number)]
    started = time.monotonic()
    with runtime.pod(request) as pod, runtime.containers(pod, request, cores):
        return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
