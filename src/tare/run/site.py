"""Bring up a plan's cluster, for a whole study or for the one environment of a command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tare.agent.geometry import on_daemon_nodes
from tare.agent.protocol import NodeService
from tare.clusters import CLUSTERS, Needs, Site
from tare.model import Cell, Launching, Plan
from tare.networks import find
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import Files, deployed
from tare.runtimes.containers.rights_sweep import swept
from tare.study.feasibility.study_files import import_images
from tare.study.plan.cells import available
from tare.study.plan.composition import nic_slots
from tare.system.binds import writable
from tare.workloads import program_places


@contextmanager
def opened(plan: Plan, files: Collection[Files], *, name: str, say: Callable[[str], None]) -> Iterator[Site]:
    """Keep a plan's cluster up under a name, with the images of its environments where daemons need them.

    At the end, `say` hears which rights were taken back from files that containers left in folders of the host
    (`tare.runtimes.containers.rights_sweep`): on this machine when the cluster is down, which ends all programs, else
    by the nodes.
    """
    shown = tuple(dict.fromkeys(place for each in files for place in each.seen_by_nodes))
    made = tuple(dict.fromkeys(place for each in files for place in each.made))
    found = (program_places.command_file(name) for name in program_places.commands_of(available(plan)))
    programs = tuple(str(file) for file in found if file is not None)
    cluster, folders = CLUSTERS[plan.study.cluster], _writable(plan, files)
    wanted = replace(needs(plan, shown), made=made, programs=programs, writable=folders)
    with (
        swept(folders if cluster.is_here else (), say),
        cluster.open(name, plan.study.lab, wanted) as site,
    ):
        import_images(site, files)
        try:
            yield site
        finally:
            for sentence in site.sweep() if folders else ():
                say(sentence)


def _writable(plan: Plan, files: Collection[Files]) -> tuple[str, ...]:
    """Return the folders and files of the host that programs of a plan's images may write to."""
    binds = (bind for cell in available(plan) if cell.environment.image for bind in cell.environment.binds)
    return tuple(dict.fromkeys((*(each.cwd for each in files if each.rootfs and each.cwd), *writable(binds))))


@contextmanager
def deployed_alone(site: Site, cell: Cell, files: Files) -> Iterator[Deployed]:
    """Keep a cell's environment up, the only one of a site, ready for launches."""
    nic = nic_slots([(cell.environment, cell.placement)])[cell.environment, cell.placement]
    with deployed(site, cell.environment, cell.placement, slot=0, nic=nic, files=files) as up:
        site.settle()
        up.wait_until_ready()
        yield up


def needs(plan: Plan, shown: tuple[str, ...] = ()) -> Needs:
    """Return what a plan's cells require of their cluster; `shown` are folders that nodes must see."""
    cells = available(plan)
    slots = nic_slots((cell.environment, cell.placement) for cell in plan.cells)
    return Needs(
        nics=1 + max(slots.values(), default=0),
        docker=any(on_daemon_nodes(c.environment) for c in cells),
        swarm=any(find(c.environment.network).needs_swarm for c in cells),
        store=any(find(c.environment.network).needs_store for c in cells),
        shown=shown,
        runtime_classes=tuple(sorted({c.environment.runtime_class for c in cells} - {""})),
        node_counts=frozenset(c.placement.nodes for c in cells),
        jobs=any(c.environment.launch is Launching.MPIJOB for c in cells),
        longest_s=max((c.workload.time_limit_s for c in cells), default=0.0),
    )


def services_of(site: Site) -> tuple[NodeService, ...]:
    """Return the services of all nodes."""
    return tuple(site.service(node) for node in (*site.nodes, *site.daemon_nodes))
