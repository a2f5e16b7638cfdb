"""Start a program on two nodes of the lab, over its plain wire or over VXLAN.

Both sides of a comparison are started in the same way, by the product's own launching, in network namespaces that stay
up meanwhile. VXLAN is flannel's: an overlay without containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tare.clusters import Needs, Site
from tare.clusters.lab_site import LabCluster
from tare.model import Cell, Environment, LabSpec, Placement, Role, Workload
from tare.mpi.launch import write_agent
from tare.networks import NETWORKS
from tare.run import job
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.system.namespaces import plain_python

PLACEMENT = Placement()
LIMIT_S = 120.0
NUMBERS = count()
"""Of launches, some of which are up at the same time."""
NETWORK_OF = {"tcp": "host", "vxlan": "flannel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """Two nodes and the wires between them that are up, by name."""

    site: Site
    agent: Path
    made: Mapping[str, Deployed]

    def run(self, wire: str, *argv: str | Path) -> str:
        """Run a program with one rank on each node and return what it says; end the benchmark where it fails."""
        up = self.made[wire]
        program = Workload(name="agreement", command=tuple(map(str, argv)))
        cell = Cell(
            key="agreement",
            group="agreement",
            role=Role.ENVIRONMENT,
            workload=program,
            environment=up.environment,
            placement=PLACEMENT,
        )
        launch = job.make_launch(self.site, cell, up, preload=False)
        command = job.command_of(self.site, up, launch, self.agent, name=f"agreement-{next(NUMBERS)}")
        result = job.started(self.site, command, timeout_s=LIMIT_S)
        if result.status != 0:
            line = " ".join(map(str, argv))
            raise SystemExit(f"agreement: status {result.status} of: {line}\n{result.stdout}{result.stderr}")
        return result.stdout


@contextmanager
def wires(names: tuple[str, ...], mpi: str, prefix: Path) -> Iterator[Wires]:
    """Make a lab of two nodes with these wires; `prefix` is where our programs are, as nodes must see them."""
    with ExitStack() as stack:
        site = stack.enter_context(
            LabCluster().open(f"w{os.getpid()}", LabSpec(nodes=2), Needs(nics=2, shown=(str(prefix),)))
        )
        made = {}
        for slot, name in enumerate(names):
            network = NETWORK_OF[name]
            if reason := NETWORKS[network].probe():
                raise SystemExit(f"agreement: no wire {name} here: {reason}")
            environment = Environment(name=f"bare+{network}", runtime="bare", network=network, mpi=mpi)
            files = Files(host_prefix=prefix)
            nic = int(network != "host")
            made[name] = stack.enter_context(deployed(site, environment, PLACEMENT, slot=slot, nic=nic, files=files))
        site.settle()
        for up in made.values():
            up.wait_until_ready()
        yield Wires(site=site, agent=write_agent(site.folder, plain_python()), made=made)
