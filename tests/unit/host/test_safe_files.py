"""Files of others are not followed, and where CPUs are is read from trees of /sys."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.cli.commands import write_whole
from tare.errors import ResultsError
from tare.host import safe_files
from tare.host.topology import in_words, parse_list, read_topology
from tare.model.topology import HardwareThread
from tare.store import results_folder
from tare.store.results import PLAN, SAMPLES, SHARED, TRIALS, TRUNCATED
from unit.stored import PLAN as PLANNED

SECRET = "what root alone may write\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(SECRET)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "results"
    made.mkdir()
    return made


def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every link be another user's, and every folder: the caller has another number."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(safe_files, "_owner", lambda found: 54321)


WRITES: dict[str, Callable[[Path], object]] = {
    "lock": results_folder.take_lock,
    TRIALS: lambda path: results_folder.open_lines(path, TRIALS),
    SHARED: lambda path: results_folder.open_lines(path, SHARED),
    TRUNCATED: lambda path: results_folder.set_torn_line_aside(path, 0, b"torn"),
}
REPLACES: dict[str, Callable[[Path], object]] = {
    f"{PLAN}.partial": lambda path: results_folder.write_plan(path, PLANNED, {}),
    PLAN: lambda path: results_folder.write_plan(path, PLANNED, {}),
    f"{SAMPLES}/r0000-b00-a00-c0000.npz.partial": lambda path: results_folder.write_samples(
        path / SAMPLES / "r0000-b00-a00-c0000.npz", {}
    ),
    "report.html": lambda path: write_whole(path / "report.html", ["<html>"]),
    "report.html.partial": lambda path: write_whole(path / "report.html", ["<html>"]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_file_of_the_folder_that_is_a_link_is_refused_with_its_name(name: str, folder: Path, victim: Path) -> None:
    (folder / name).symlink_to(victim)
    with pytest.raises(ResultsError, match=rf"{name} is a symbolic link: tare does not write to it"):
        WRITES[name](folder)
    assert victim.read_text() == SECRET


def test_devices_pipes_and_torn_lines_behind_links_are_refused(folder: Path, victim: Path) -> None:
    (folder / TRIALS).symlink_to(victim)
    with pytest.raises(ResultsError, match=f"{TRIALS} is a symbolic link"):
        results_folder.set_torn_line_aside(folder, 0, b"torn")
    assert victim.read_text() == SECRET
    os.mkfifo(folder / "lock")
    with pytest.raises(ResultsError, match="lock is not a regular file"):
        results_folder.take_lock(folder)


@pytest.mark.parametrize("name", REPLACES)
def test_a_file_that_is_written_replaces_a_link_and_does_not_follow_it(name: str, folder: Path, victim: Path) -> None:
    (folder / SAMPLES).mkdir()
    (folder / name).symlink_to(victim)
    REPLACES[name](folder)
    assert victim.read_text() == SECRET
    assert not any(entry.is_symlink() for entry in folder.rglob("*"))


@pytest.mark.parametrize("make", [results_folder.make_folder, results_folder.make_samples, results_folder.take_lock])
def test_a_link_of_another_user_s_on_the_way_is_refused_and_nothing_is_made_behind_it(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "user").symlink_to(elsewhere)
    foreign(monkeypatch)
    with pytest.raises(ResultsError, match=r"user is a symbolic link of another user \(uid 54321\)"):
        make(tmp_path / "user" / "study")
    assert list(elsewhere.iterdir()) == []


def test_samples_are_not_reached_through_a_link(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    orphan = elsewhere / "r0000-b00-a00-c0000.npz"
    orphan.write_text(SECRET)
    (folder / SAMPLES).symlink_to(elsewhere)
    foreign(monkeypatch)
    with pytest.raises(ResultsError, match="samples is a symbolic link of another user"):
        results_folder.remove_orphans(folder, ())
    with pytest.raises(ResultsError, match="samples is a symbolic link of another user"):
        results_folder.write_samples(folder / SAMPLES / "x.npz", {})
    assert [entry.name for entry in elsewhere.iterdir()] == [orphan.name]


def test_a_hard_link_of_another_user_is_refused(folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(victim, folder / TRIALS)
    os.close(results_folder.open_lines(folder, TRIALS))  # in a folder of one's own it is a copy that a backup keeps
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ResultsError, match="has another hard link"):
        results_folder.open_lines(folder, TRIALS)


def test_links_of_others_are_refused_and_ones_own_are_followed_unless_in_a_circle(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "up").symlink_to(real / ".." / "real")
    (tmp_path / "relative").symlink_to("up")
    results_folder.make_folder(tmp_path / "relative" / "a" / "b")
    assert (real / "a" / "b").is_dir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        results_folder.make_folder(tmp_path / "a")


def test_no_descriptor_stays_open(folder: Path, victim: Path) -> None:
    (folder / TRIALS).symlink_to(victim)
    (folder / "a").symlink_to("a")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(ResultsError):
            results_folder.open_lines(folder, TRIALS)
        with pytest.raises(OSError, match="Too many"):
            results_folder.make_folder(folder / "a" / "x")
        results_folder.make_samples(folder)
    assert os.listdir("/proc/self/fd") == before


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
