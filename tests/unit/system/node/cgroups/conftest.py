"""Fixtures of the tests of cgroups: fake trees of version 1 and 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.system.node import cgroups
from tare.system.node.cgroups import hierarchies
from unit.cgroup_tree import OWN, V1_KINDS, V2_FILES, Tree, mountinfo_line, subtree_control


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    root = tmp_path / "cgroup"
    root.mkdir()
    return Tree(root, monkeypatch)


@pytest.fixture
def v1(tree: Tree) -> tuple[cgroups.Hierarchy, ...]:
    def fill(folder: Path) -> None:
        tree.put(folder / "cgroup.procs", "")
        if (tree.root / "cpuset") in folder.parents:
            tree.put(folder / "cpuset.cpus", "\n")
            tree.put(folder / "cpuset.mems", "\n")

    lines = []
    for name, options in V1_KINDS.items():
        (tree.root / name).mkdir()
        lines.append(mountinfo_line(tree.root / name, "cgroup", f"rw,{options}"))
    tree.put(tree.root / "cpuset/cpuset.cpus", "0-7\n")
    tree.put(tree.root / "cpuset/cpuset.mems", "0\n")
    tree.fill = fill
    mountinfo = tree.root.parent / "mountinfo"
    mountinfo.write_text("22 1 0:20 / / rw - ext4 /dev/vda rw\n" + "\n".join(lines) + "\n")
    tree.written.clear()
    return hierarchies(mountinfo, OWN)


@pytest.fixture
def v2(tree: Tree) -> tuple[cgroups.Hierarchy, ...]:
    def fill(folder: Path) -> None:
        for name in V2_FILES:
            tree.put(folder / name, "")
        handed_on = [text for file, text in tree.written if file == subtree_control(tree, folder.parent)]
        tree.put(folder / "cgroup.controllers", " ".join(text.removeprefix("+") for text in handed_on))

    for name in V2_FILES:
        tree.put(tree.root / name, "")
    tree.put(tree.root / "cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma\n")
    tree.fill = fill
    mountinfo = tree.root.parent / "mountinfo"
    mountinfo.write_text(mountinfo_line(tree.root, "cgroup2", "rw,nsdelegate") + "\n")
    tree.written.clear()
    return hierarchies(mountinfo, OWN)
