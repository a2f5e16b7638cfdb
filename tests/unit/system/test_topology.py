"""Where CPUs are is read from trees of /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tare.model.topology import HardwareThread
from tare.system.topology import in_words, parse_list, read_topology


def make_tree(system: Path, cpus: dict[int, tuple[str, str]], numa: dict[int, str]) -> Path:
    """Make a /sys/devices/system: siblings and socket of every CPU, the CPUs of every NUMA node."""
    for cpu, (siblings, socket) in cpus.items():
        folder = system / "cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "core_cpus_list").write_text(f"{siblings}\n")
        (folder / "physical_package_id").write_text(f"{socket}\n")
    for node, listed in numa.items():
        folder = system / "node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{listed}\n")
    return system


def test_sockets_threads_and_numa_nodes_are_read_on_old_and_new_kernels(tmp_path: Path) -> None:
    siblings = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}
    cpus = {cpu: (siblings[cpu % 4], str(cpu % 4 // 2)) for cpu in range(8)}
    system = make_tree(tmp_path, cpus, {0: "0-1,4-5", 1: "2-3,6-7"})
    assert read_topology([0, 4, 7], system) == (
        HardwareThread(cpu=0, core=0, numa=0, socket=0),
        HardwareThread(cpu=4, core=0, numa=0, socket=0),
        HardwareThread(cpu=7, core=3, numa=1, socket=1),
    )
    system = make_tree(tmp_path / "numa", {cpu: (str(cpu), "0") for cpu in range(4)}, {0: "0-1", 1: "2-3", 2: ""})
    assert [(each.numa, each.socket) for each in read_topology(range(4), system)] == [(0, 0), (0, 0), (1, 0), (1, 0)]
    folder = tmp_path / "old" / "cpu" / "cpu5" / "topology"
    folder.mkdir(parents=True)
    (folder / "thread_siblings_list").write_text("2,5\n")
    assert read_topology([5], tmp_path / "old") == (HardwareThread(cpu=5, core=2),)
    assert read_topology([3, 1], tmp_path / "none") == (HardwareThread(cpu=3, core=3), HardwareThread(cpu=1, core=1))
    system = make_tree(tmp_path / "arm", {0: ("0", "-1")}, {})
    assert read_topology([0], system) == (HardwareThread(cpu=0, core=0),)


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8\n", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("\n", ()), ("1,3-4", (1, 3, 4))]
)
def test_lists_of_the_kernel_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize(
    ("cpus", "words"),
    [
        (8, "2 sockets, 2 NUMA nodes, 4 cores, 8 hardware threads"),
        (1, "1 socket, 1 NUMA node, 1 core, 1 hardware thread"),
    ],
)
def test_a_machine_is_told_in_words(cpus: int, words: str) -> None:
    threads = [HardwareThread(cpu=i, core=i % 4, numa=i % 4 // 2, socket=i % 4 // 2) for i in range(cpus)]
    assert in_words(threads) == words


def test_this_machine_tells_where_its_own_cpus_are() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    found = read_topology(cpus)
    assert [each.cpu for each in found] == cpus
    assert all(each.core <= each.cpu for each in found)
