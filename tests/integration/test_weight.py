"""A job that is preferred gets the cores that other programs of its machine want too."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from integration.live import lab_site, live
from tare.containers.held import job_group
from tare.node.cgroups import Group
from tare.node_service import NodeService

pytestmark = live()
SPIN = ("/bin/sh", "-c", "while :; do :; done")
RUN_S = 0.6


@contextmanager
def spinning(core: int) -> Iterator[int]:
    with subprocess.Popen(("taskset", "--cpu-list", str(core), *SPIN)) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def group_outside(group: Group) -> Iterator[Group]:
    """Keep a cgroup beside all of tare's."""
    other = Group(path=f"beside-tare-{os.getpid()}", hierarchies=group.hierarchies).create()
    try:
        yield other
    finally:
        other.kill()
        other.remove()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process (proc(5), fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def gained(pids: list[int]) -> list[float]:
    """Return the processor time that each process gets in a while."""
    before = [cpu_s(pid) for pid in pids]
    time.sleep(RUN_S)
    return [cpu_s(pid) - had for pid, had in zip(pids, before, strict=True)]


def compared(service: NodeService, pids: list[int], weight: int) -> float:
    """Return the job's share of the processor time of both."""
    service.prefer(weight)
    inside, outside = gained(pids)
    return inside / (inside + outside)


def test_a_job_with_weight_takes_the_core_and_gives_it_back() -> None:
    with lab_site(nodes=1, cores_per_node=1) as site, ExitStack() as stack:
        (node,) = site.nodes
        pids = [stack.enter_context(spinning(node.cores[0])) for _ in range(2)]
        # The other has a group to itself: in the tests' own it would share with all that they run.
        other = stack.enter_context(group_outside(node.group))
        for group, pid in zip((job_group(node).create(), other), pids, strict=True):
            for folder in group.folders:
                (folder / "cgroup.procs").write_text(str(pid))
        service = site.service(node)
        usual, preferred, again = (compared(service, pids, weight) for weight in (0, 10_000, 0))
    assert preferred > 0.9
    assert usual < 0.75
    assert again < 0.75
