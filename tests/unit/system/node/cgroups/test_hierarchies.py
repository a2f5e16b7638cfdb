"""Which hierarchies of cgroups are mounted, and where in them groups are made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tare.system.node import cgroups
from tare.system.node.cgroups import MARK, Group, file_systems, hierarchies
from unit.cgroup_tree import OWN, Tree, mountinfo_line


def test_v1_is_used_where_both_are_mounted_and_in_namespaces(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    assert {h.mountpoint.name: h.controllers for h in v1} == {
        "cpuset": ("cpuset",), "cpu,cpuacct": ("cpu", "cpuacct"), "pids": ("pids",), "systemd": (),
    }  # fmt: skip
    assert {h.version for h in v1} == {1}
    assert {(kind, options) for kind, options, _ in file_systems(v1)} == {
        ("cgroup", "cpuset"), ("cgroup", "cpu,cpuacct"), ("cgroup", "pids"), ("cgroup", "none,name=systemd"),
    }  # fmt: skip
    mountinfo = tree.root.parent / "mountinfo"
    unified = tree.root.parent / "unified"
    unified.mkdir()
    mountinfo.write_text(mountinfo.read_text() + mountinfo_line(unified, "cgroup2", "rw") + "\n")
    assert hierarchies(mountinfo, OWN) == v1


def test_v2_gives_one_hierarchy_also_in_a_namespace(v2: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    assert [(h.mountpoint, h.version) for h in v2] == [(tree.root, 2)]
    assert file_systems(v2) == [("cgroup2", "", str(tree.root))]


def test_what_we_may_not_write_to_is_left_out(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    mountinfo = tree.root.parent / "mountinfo"
    mountinfo.write_text(mountinfo_line(tree.root, "cgroup2", "rw") + "\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert hierarchies(mountinfo, OWN) == ()


def inside(tree: Tree, text: str) -> Path:
    file = tree.root.parent / "own"
    file.write_text(text)
    return file


def test_in_v1_groups_are_made_in_our_own_cgroup_of_each(v1: tuple[cgroups.Hierarchy, ...], tree: Tree) -> None:
    (tree.root / "pids" / "job_7").mkdir()
    (tree.root / "systemd" / "user.slice").mkdir()
    own = inside(tree, "9:name=systemd:/user.slice\n8:pids:/job_7\n3:cpuset:/gone\n1:cpuacct,cpu:/\n0::/x\n")
    found = hierarchies(tree.root.parent / "mountinfo", own)
    assert {each.mountpoint.name: each.base for each in found} == {
        "cpuset": "", "cpu,cpuacct": "", "pids": "job_7", "systemd": "user.slice",
    }  # fmt: skip
    made = Group(path="lab/n0", hierarchies=found).create()
    assert tree.root / "pids/job_7" / MARK / "lab/n0" in made.folders
    assert made._counted == tree.root / "pids/job_7" / MARK / "lab/n0"
    made.remove()
    Group(path="lab", hierarchies=found).remove()
    assert not list(tree.root.glob(f"**/{MARK}"))
    assert (tree.root / "pids" / "job_7").is_dir()


def test_a_cgroup_outside_of_what_is_mounted_is_not_ours(tree: Tree) -> None:
    line = mountinfo_line(tree.root, "cgroup2", "rw").replace(" / ", " /docker/abc ", 1)
    mountinfo = tree.root.parent / "mountinfo"
    mountinfo.write_text(line + "\n")
    (tree.root / "x").mkdir()
    tree.put(tree.root / "x" / "cgroup.procs", "")
    for text, base in (("0::/docker/abc/x\n", "x"), ("0::/x\n", ""), ("0::/../x\n", ""), ("0::/docker/abc\n", "")):
        (found,) = hierarchies(mountinfo, inside(tree, text))
        assert found.base == base, text


@pytest.mark.parametrize(
    ("controllers", "processes", "base"),
    [
        ("cpuset cpu io memory pids", "", "user.slice/scope"),
        ("cpuset cpu io memory pids", "9\n", ""),
        ("memory pids", "", ""),
    ],
)
def test_in_v2_groups_are_made_where_controllers_can_be_had(
    controllers: str, processes: str, base: str, v2: tuple[cgroups.Hierarchy, ...], tree: Tree
) -> None:
    """A delegated scope has our own cgroup in it, which holds us."""
    scope = tree.root / "user.slice" / "scope"
    (scope / "us").mkdir(parents=True)
    for folder, text, pids in ((scope.parent, "", "1"), (scope, controllers, processes), (scope / "us", "", "7")):
        tree.put(folder / "cgroup.controllers", text)
        tree.put(folder / "cgroup.procs", pids)
    (found,) = hierarchies(tree.root.parent / "mountinfo", inside(tree, "0::/user.slice/scope/us\n"))
    assert found.base == base


def test_one_that_is_mounted_twice_counts_once_and_one_that_is_covered_not_at_all(
    v1: tuple[cgroups.Hierarchy, ...], tree: Tree
) -> None:
    mountinfo = tree.root.parent / "mountinfo"
    text, again = mountinfo.read_text(), mountinfo_line(tree.root / "pids", "cgroup", "rw,pids")
    mountinfo.write_text(f"{text}{again}\n")
    assert sorted(map(str, hierarchies(mountinfo, OWN))) == sorted(map(str, v1))
    empty = f"40 23 0:30 / {tree.root / 'cpuset'} rw - tmpfs tmpfs rw"
    mountinfo.write_text(f"{text}{empty}\n")
    assert {each.mountpoint.name for each in hierarchies(mountinfo, OWN)} == {"cpu,cpuacct", "pids", "systemd"}
    mountinfo.write_text(f"{text}{empty.replace('/cpuset', '')}\n")
    assert hierarchies(mountinfo, OWN) == ()
