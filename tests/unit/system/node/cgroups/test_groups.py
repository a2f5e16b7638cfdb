"""Groups on fake trees of cgroup v1 and v2: folders, cores, controllers, and the end of all processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tare.errors import InfrastructureError
from tare.system.node import cgroups
from tare.system.node.cgroups import MARK, Group, group
from tare.system.node.stragglers import are_exiting
from unit.cgroup_tree import OWN, V1_KINDS, Tree


def test_without_a_hierarchy_or_by_naming_it_nothing_is_made() -> None:
    nothing = Group(path="lab", hierarchies=())
    assert (nothing.version, nothing.folders, nothing.create().pids()) == (0, (), set())
    nothing.kill()
    nothing.remove()
    assert nothing.usage_s() == 0.0
    named = group("not-made-by-a-test")
    assert named.path == "not-made-by-a-test"
    assert not any(folder.exists() for folder in named.folders)


def test_in_v1_a_group_is_a_folder_with_the_processes_below_it(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    made = Group(path="lab/n0", hierarchies=v1).create()
    assert set(made.folders) == {tree.root / name / MARK / "lab" / "n0" for name in V1_KINDS}
    assert all(folder.is_dir() for folder in made.folders)
    made = Group(path="lab/n0", hierarchies=v1).create()
    assert made.create_leaf() is made
    node = Group(path="lab/n0", hierarchies=v1).create()
    job = node.below("job").create()
    for where, text in ((node, "11\n12\n"), (job, "13\n0\n")):
        tree.put(tree.root / "pids" / MARK / where.path / "cgroup.procs", text)
    assert node.pids() == {11, 12, 13}  # 0: a process of another pid namespace
    assert job.pids() == {13}


def test_in_v1_every_level_inherits_and_groups_below_too(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    Group(path="lab/n0", hierarchies=v1).create([2, 3])
    cpuset = tree.root / "cpuset" / MARK
    assert [(cpuset / level / "cpuset.cpus").read_text().strip() for level in ("", "lab", "lab/n0")] == [
        "0-7", "0-7", "2,3",
    ]  # fmt: skip
    assert [(cpuset / level / "cpuset.mems").read_text().strip() for level in ("", "lab", "lab/n0")] == ["0"] * 3
    node = Group(path="lab/n0", hierarchies=v1).create([2, 3])
    job = node.below("job").create()
    assert job.path == "lab/n0/job"
    assert (tree.root / "cpuset" / MARK / "lab/n0/job/cpuset.cpus").read_text() == "2,3"
    tree.written.clear()
    job.create()
    assert tree.written == []


def test_in_v2_controllers_are_handed_on_from_the_top_down(v2: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    Group(path="lab/n0", hierarchies=v2).create([2, 3])
    handed_on = [(file, text) for file, text in tree.written if file.endswith("subtree_control")]
    levels = ("cgroup.subtree_control", f"{MARK}/cgroup.subtree_control", f"{MARK}/lab/cgroup.subtree_control")
    assert handed_on == [(level, f"+{name}") for level in levels for name in ("cpuset", "cpu", "memory", "pids", "io")]
    assert tree.written[-1] == (f"{MARK}/lab/n0/cpuset.cpus", "2,3")
    Group(path="lab", hierarchies=v2).remove()
    tree.put(tree.root / "cgroup.controllers", "cpuset pids\n")
    tree.written.clear()
    Group(path="lab", hierarchies=v2).create()
    assert {text for file, text in tree.written} == {"+cpuset", "+pids"}


def test_in_v2_a_group_that_processes_may_join_hands_nothing_on(v2: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    made = Group(path="lab/n0", hierarchies=v2).create()
    assert f"{MARK}/lab/n0/cgroup.subtree_control" not in dict(tree.written)
    leaf = made.create_leaf()
    assert leaf.folders == (tree.root / MARK / "lab/n0/host",)
    assert leaf.folders[0].is_dir()
    assert f"{MARK}/lab/n0/cgroup.subtree_control" not in dict(tree.written)


@pytest.mark.parametrize("failing", ["mkdir", "write_text"])
def test_a_group_that_the_kernel_refuses_is_told_with_its_folder(
    v2: tuple[cgroups.Hierarchy, ...], tree: Tree, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, failing, refuse)
    with pytest.raises(InfrastructureError, match=f"make the cgroup {tree.root}/{MARK}: Device or resource busy"):
        Group(path="lab", hierarchies=v2).create()


class Processes:
    """Processes in a group's file, which die of a signal, some of them late and some never."""

    def __init__(self, tree: Tree, file: Path, lives: dict[int, int]) -> None:
        self._tree, self._file = tree, file
        self.left = dict(lives)
        self.signals: list[tuple[int, int]] = []
        self._write()

    def kill(self, pid: int, number: int) -> None:
        self.signals.append((pid, number))
        self.left[pid] -= 1
        if self.left[pid] == 0:
            del self.left[pid]
        self._write()

    def _write(self) -> None:
        self._tree.put(self._file, "".join(f"{pid}\n" for pid in self.left))


@pytest.fixture
def node(v2: tuple[cgroups.Hierarchy, ...]) -> Group:
    return Group(path="lab/n0", hierarchies=v2).create()


def test_killing_goes_on_until_all_are_gone_but_the_spared_and_those_that_stay(
    node: Group, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes(tree, node.folders[0] / "cgroup.procs", {11: 1, 12: 3})
    monkeypatch.setattr(os, "kill", processes.kill)
    node.kill()
    assert (processes.left, {number for _, number in processes.signals}) == ({}, {signal.SIGKILL})
    assert [pid for pid, _ in processes.signals].count(12) == 3
    processes = Processes(tree, node.folders[0] / "cgroup.procs", {11: 1, 12: 1, 13: 1})
    monkeypatch.setattr(os, "kill", processes.kill)
    node.kill(spare={12})
    assert processes.left == {12: 1}
    processes = Processes(tree, node.folders[0] / "cgroup.procs", {11: 10**9})
    monkeypatch.setattr(os, "kill", processes.kill)
    monkeypatch.setattr(cgroups, "are_exiting", lambda pids: False)
    with pytest.raises(InfrastructureError, match=r"processes \[11\] of lab/n0 do not end"):
        node.kill(deadline_s=0.05)


def test_what_waits_until_init_collects_its_orphans_has_more_time_to_end(
    node: Group, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes(tree, node.folders[0] / "cgroup.procs", {11: 9})
    monkeypatch.setattr(os, "kill", processes.kill)
    monkeypatch.setattr(cgroups, "are_exiting", lambda pids: pids == {11})
    node.kill(deadline_s=0.0)
    assert processes.left == {}


def test_a_zombie_is_exiting_and_a_program_that_runs_is_not() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert are_exiting([ended.pid])
    assert not are_exiting([ended.pid, os.getpid()])
    ended.wait()


def test_a_process_that_ends_meanwhile_is_no_error(node: Group, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(tree, node.folders[0] / "cgroup.procs", {11: 1})

    def gone(pid: int, number: int) -> None:
        processes.kill(pid, number)
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    node.kill()
    assert processes.left == {}


def test_removing_takes_the_mark_with_the_last_lab(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    labs = [Group(path=name, hierarchies=v1).create() for name in ("one", "two")]
    labs[0].below("n0").create().below("job").create()
    labs[0].remove()
    assert {p.name for name in V1_KINDS for p in (tree.root / name / MARK).iterdir() if p.is_dir()} == {"two"}
    labs[1].remove()
    assert not any((tree.root / name / MARK).exists() for name in V1_KINDS)
    Group(path="never/made", hierarchies=v1).remove()


def test_removing_waits_for_the_kernel_to_forget(node: Group, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    procs = node.folders[0] / "cgroup.procs"
    tree.put(procs, "11\n")
    monkeypatch.setattr("tare.system.node.cgroups.time.sleep", lambda s: tree.put(procs, ""))
    node.remove()
    assert not node.folders[0].exists()


def test_cpu_time_is_read_in_seconds_from_either_version(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    made = Group(path="lab", hierarchies=v1).create()
    assert made.usage_s() == 0.0
    tree.put(tree.root / "cpu,cpuacct" / MARK / "lab" / "cpuacct.usage", "1500000000\n")
    assert made.usage_s() == 1.5


def test_cpu_time_is_read_from_the_table_of_v2(node: Group, tree: Tree) -> None:
    tree.put(node.folders[0] / "cpu.stat", "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    assert node.usage_s() == 2.5


def test_in_v2_controllers_are_taken_back_with_the_last_lab(v2: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    tree.put(tree.root / "cgroup.subtree_control", "memory pids\n")
    one, two = (Group(path=name, hierarchies=v2).create() for name in ("one", "two"))
    handed_on = [text for file, text in tree.written if file == "cgroup.subtree_control"]
    assert handed_on[:3] == ["+cpuset", "+cpu", "+io"]
    tree.written.clear()
    one.remove()
    assert tree.written == []
    two.remove()
    assert [text for _, text in tree.written] == ["-cpuset", "-cpu", "-io"]


def test_our_cgroup_is_made_again_where_the_last_lab_of_another_run_takes_it_away_meanwhile(
    v1: tuple[cgroups.Hierarchy, ...], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, taken = cgroups._made, []

    def late(folder: Path) -> bool:
        if folder.name == "lab" and len(taken) < 2:
            taken.append(folder.parent)
            folder.parent.rmdir()
        return made(folder)

    monkeypatch.setattr(cgroups, "_made", late)
    own = Group(path="lab/n0", hierarchies=v1).create()
    assert len(taken) == 2
    assert all(folder.is_dir() for folder in own.folders)


def test_our_cgroup_may_also_be_taken_away_before_it_has_cores(
    v1: tuple[cgroups.Hierarchy, ...], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherit, taken = cgroups._inherit_cores, []

    def late(hierarchy: cgroups.Hierarchy, parent: Path, folder: Path) -> None:
        if folder == hierarchy.top and "cpuset" in hierarchy.controllers and len(taken) < 2:
            taken.append(folder)
            folder.rmdir()
        inherit(hierarchy, parent, folder)

    monkeypatch.setattr(cgroups, "_inherit_cores", late)
    own = Group(path="lab/n0", hierarchies=v1).create()
    assert len(taken) == 2
    assert all(folder.is_dir() for folder in own.folders)
    assert all((h.top / "cpuset.cpus").read_text() == "0-7\n" for h in v1 if "cpuset" in h.controllers)


def test_what_a_program_has_frozen_is_thawed_and_from_the_second_pass_on_all_are_held_still(
    v1: tuple[cgroups.Hierarchy, ...], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.root / "freezer").mkdir()
    freezer = cgroups.Hierarchy(mountpoint=tree.root / "freezer", version=1, controllers=("freezer",))
    job = Group(path="lab/n0/job", hierarchies=(*v1, freezer)).create()
    own, theirs = tree.root / "freezer" / MARK / "lab/n0/job", tree.root / "freezer" / MARK / "lab/frozen"
    theirs.mkdir()
    for folder in (own, theirs):
        tree.put(folder / cgroups.FREEZER, "FROZEN\n")
    tree.written.clear()
    processes = Processes(tree, tree.root / "pids" / MARK / "lab/n0/job/cgroup.procs", {11: 2})
    states: list[str] = []

    def kill(pid: int, number: int) -> None:
        states.append((own / cgroups.FREEZER).read_text().strip())
        processes.kill(pid, number)

    monkeypatch.setattr(os, "kill", kill)
    job.kill()
    assert [(folder / cgroups.FREEZER).read_text() for folder in (own, theirs)] == ["THAWED", "THAWED"]
    assert states == ["FROZEN", "FROZEN"]
    written = [text for file, text in tree.written if file.endswith("job/freezer.state")]
    assert written == ["THAWED", "FROZEN", "THAWED"]


def test_the_group_of_launches_on_a_real_node_is_in_one_hierarchy_without_limits_and_goes_with_its_processes(
    v1: tuple[cgroups.Hierarchy, ...], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = cgroups.of_launches("s1", tree.root.parent / "mountinfo", OWN)
    assert wanted.bases == {str(tree.root / "pids"): ""}
    with cgroups.made(wanted) as group:
        assert list(tree.root.glob(f"*/{MARK}/s1")) == [tree.root / "pids" / MARK / "s1"]
        processes = Processes(tree, group.folders[0] / "cgroup.procs", {11: 1})
        monkeypatch.setattr(os, "kill", processes.kill)
        assert group.pids() == {11}
    assert processes.left == {}
    assert not list(tree.root.glob(f"*/{MARK}"))
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with cgroups.made(wanted) as group:
        assert group == cgroups.NO_GROUP


def test_in_v2_the_group_of_launches_is_in_our_own_cgroup_which_hands_nothing_on(
    v2: tuple[cgroups.Hierarchy, ...], tree: Tree
) -> None:
    (tree.root / "session").mkdir()
    own = tree.root.parent / "own"
    own.write_text("0::/session\n")
    with cgroups.made(cgroups.of_launches("s1", tree.root.parent / "mountinfo", own)) as group:
        assert group.folders == (tree.root / "session" / MARK / "s1",)
        assert not [file for file, _ in tree.written if file.endswith("subtree_control")]
