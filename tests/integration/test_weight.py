"""A job that is preferred has more weight than other programs of its machine, and gives it back."""

from __future__ import annotations

from integration.live import lab_site, live
from tare.runtimes.containers.held_namespaces import job_group
from tare.system.node.cgroups import Group
from tare.system.node.limits import SHARES_OF_USUAL, USUAL_WEIGHT

pytestmark = live()


def weight(group: Group) -> int:
    """Return the weight of a group as the kernel has it, in units of cgroup v2."""
    for folder in group.folders:
        if (folder / "cpu.weight").exists():
            return int((folder / "cpu.weight").read_text())
        if (folder / "cpu.shares").exists():
            return int((folder / "cpu.shares").read_text()) * USUAL_WEIGHT // SHARES_OF_USUAL
    raise AssertionError(f"the kernel weighs nothing in {group.folders}")


def test_a_job_with_weight_is_preferred_with_all_that_it_is_in_and_gives_it_back() -> None:
    with lab_site(nodes=1, cores_per_node=1) as site:
        (node,) = site.nodes
        job, service = job_group(node).create(), site.service(node)
        of_lab = Group(path=site.name, hierarchies=node.group.hierarchies)
        assert job.path.startswith(f"{node.group.path}/"), "what is preferred is the node, with its jobs"
        assert node.group.path.startswith(f"{site.name}/")
        for asked, has in ((0, USUAL_WEIGHT), (10_000, 10_000), (0, USUAL_WEIGHT)):
            service.prefer(asked)
            assert (weight(node.group), weight(of_lab)) == (has, has)
