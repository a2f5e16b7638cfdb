"""Plan, place and map a job on a fake cluster of many nodes, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from tare import study
from tare.analysis.summary.mechanisms import DETECTORS
from tare.cli import session
from tare.clusters import CLUSTERS, Site
from tare.model import Cell, InterfaceTraffic, Placement, RankPlace
from tare.model.placement import place
from tare.mpi import MPIS
from tare.mpi.launch import Entry, Host, write_map
from tare.mpi.launch.job import Job, JobHost, MpiWiring
from tare.mpi.launch.mpi import Mpi
from tare.run import facts, job, proof
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.run.site import opened
from tare.run.trial import compared
from tare.study.feasibility.study_files import StudyFiles, make_files
from tare.system.counters import monitor
from tare.system.node import SILENT_ROLE
from tare.workloads.output import Payload

T = TypeVar("T")

RANKS_PER_NODE = 4
PAYLOAD = Payload(low_bytes=1 << 20, high_bytes=1 << 20, messages=1000, known=True)


def stated(nodes: int) -> str:
    return f"""
name: large
cluster: {{fake: {{nodes: {nodes}, cores_per_node: {RANKS_PER_NODE}}}}}
environments:
  fake: {{runtime: fake, network: fake, mpi: fake}}
  fake-slow: {{runtime: fake, network: fake-slow, mpi: fake}}
placements: [{{nodes: {nodes}, ranks_per_node: {RANKS_PER_NODE}}}]
workloads: {{micro: {{kernels: [barrier]}}}}
"""


def took(nodes: int, folder: Path) -> dict[str, float]:
    """Return how many seconds each step took on a cluster of so many nodes."""
    seconds: dict[str, float] = {}

    def timed(name: str, step: Callable[[], T]) -> T:
        started = time.process_time()
        result = step()
        seconds[name] = time.process_time() - started
        return result

    plan = timed("plan", lambda: session.make_plan(study.parse(stated(nodes))))
    cell = plan.cells[-1]
    timed("place", lambda: place(cell.placement, CLUSTERS["fake"].topology(plan.study.lab)))
    files = make_files(plan, lambda _: None)
    with ExitStack() as stack:
        site = timed("open", lambda: stack.enter_context(opened(plan, files.made.values(), name="large", say=print)))
        up = timed("deploy", lambda: stack.enter_context(_deployed(site, cell, files)))
        launch = timed("launch", lambda: job.make_launch(site, cell, up))
        timed("map", lambda: job.command_of(site, up, launch, folder / "agent", name="large"))
        timed("facts", lambda: (facts.of_nodes([site.service(node) for node in site.nodes]), up.facts, up.subnet))
        for name, mpi in MPIS.items():
            timed(name, lambda mpi=mpi: _mapped(mpi, _job(nodes), folder))
        ranks = tuple(_ranks(nodes))
        own = [pod.node for pod in up.pods]
        timed("proof", lambda: (
            proof.check_places(ranks, cell.placement, nodes=own),
            proof.check_transport(ranks),
            proof.check_traffic(tuple(_traffic(nodes)), PAYLOAD, said_bytes=0, ranks=len(ranks)),
        ))  # fmt: skip
        timed("trial", lambda: compared(ranks, up, up.described()))
        timed("counters", lambda: monitor.traffic(up.watches, up.counters(), up.counters()))
        timed("report", lambda: [look(ranks) for _, look in DETECTORS])
    return seconds


def _deployed(site: Site, cell: Cell, files: StudyFiles) -> AbstractContextManager[Deployed]:
    return deployed(site, cell.environment, cell.placement, slot=0, nic=0, files=files.of(cell.environment))


def _job(nodes: int) -> Job:
    """Return a job whose ranks each enter a container of their own."""
    members = tuple(
        JobHost(
            host=Host(
                name=f"n{number}",
                ranks=RANKS_PER_NODE,
                agent=Entry(argv=("nsenter", "-t", str(number), "-n", "--")),
                enter=tuple(
                    Entry(argv=("docker", "exec", f"n{number}-{local}"), carry=True) for local in range(RANKS_PER_NODE)
                ),
            ),
            program=("/opt/tare/bin/tare-kernels", "barrier"),
            environment={"A": "1"},
            interface="eth0",
        )
        for number in range(nodes)
    )
    wiring = MpiWiring(control_subnet="100.64.0.0/16", data_subnet="198.18.0.0/16")
    return Job(head=(), members=members, placement=Placement(nodes=nodes, ranks_per_node=RANKS_PER_NODE), wiring=wiring)


def _mapped(mpi: Mpi, wanted: Job, folder: Path) -> None:
    launch = mpi.launch(wanted)
    launch.argv("tare-agent")
    write_map(launch, folder / "map.json")


def _ranks(nodes: int) -> Iterator[RankPlace]:
    for rank in range(nodes * RANKS_PER_NODE):
        node, local = divmod(rank, RANKS_PER_NODE)
        first = node * RANKS_PER_NODE
        yield RankPlace(
            rank=rank,
            host=f"fake-{node}/n{node}",
            hostname=f"n{node}",
            pid=100 + rank,
            cpus=(rank,),
            namespaces={"net": 4026531840 + node, "ipc": 4026541840 + node},
            rights={"capabilities": "00000000a80425fb"},
            shared_memory_ranks=tuple(range(first, first + RANKS_PER_NODE)),
            core_sharers=(first + (local + 1) % RANKS_PER_NODE,),
        )


def _traffic(nodes: int) -> Iterator[InterfaceTraffic]:
    for node in range(nodes):
        for interface, role in (("data0", "data NIC"), ("lo", SILENT_ROLE)):
            yield InterfaceTraffic(
                node=f"n{node}", interface=interface, role=role,
                rx_bytes=2000, tx_bytes=2000, rx_packets=9, tx_packets=9,
            )  # fmt: skip
