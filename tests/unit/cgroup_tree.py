"""Fake trees of cgroup v1 and v2 in a folder, in which a new group has its files at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tare.system.node.cgroups import MARK, Group, Hierarchy

V1_KINDS = {"cpuset": "cpuset", "cpu,cpuacct": "cpu,cpuacct", "pids": "pids", "systemd": "name=systemd"}
OWN = Path(os.devnull)
"""What tells of no cgroup of our own: groups are made at the top."""
V2_FILES = ("cgroup.procs", "cgroup.subtree_control", "cpuset.cpus", "cpuset.mems")


def mountinfo_line(mountpoint: Path, kind: str, options: str) -> str:
    return f"30 23 0:26 / {mountpoint} rw,nosuid shared:9 - {kind} cgroup {options}"


class Tree:
    """Folders that behave as the kernel's do: a new one has its files at once."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.written: list[tuple[str, str]] = []
        self.fill: Callable[[Path], None] = lambda folder: None
        mkdir, rmdir, write = Path.mkdir, Path.rmdir, Path.write_text

        def make(folder: Path, *arguments: object, **options: object) -> None:
            new = not folder.exists()
            mkdir(folder, *arguments, **options)  # type: ignore[arg-type]
            if new and root in folder.parents:
                self.fill(folder)

        def remove(folder: Path) -> None:
            if root in folder.parents:
                if any(inner.is_dir() for inner in folder.iterdir()):
                    raise OSError(39, "Directory not empty")
                if any((folder / "cgroup.procs").read_text().split()):
                    raise OSError(16, "Device or resource busy")
                for file in folder.iterdir():
                    if file.is_file():
                        file.unlink()
            rmdir(folder)

        def note(file: Path, text: str, *arguments: object, **options: object) -> int:
            if root in file.parents:
                self.written.append((str(file.relative_to(root)), text))
            return write(file, text, *arguments, **options)  # type: ignore[arg-type]

        self.plain_write = write
        monkeypatch.setattr(Path, "mkdir", make)
        monkeypatch.setattr(Path, "rmdir", remove)
        monkeypatch.setattr(Path, "write_text", note)

    def put(self, file: Path, text: str) -> None:
        self.plain_write(file, text)


def group_of(files: Mapping[str, str], mountpoint: Path, version: int = 2) -> Group:
    """Return the group of a node with some files."""
    folder = mountpoint / MARK / "n0"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return Group(path="n0", hierarchies=(Hierarchy(mountpoint=mountpoint, version=version),))


def subtree_control(tree: Tree, folder: Path) -> str:
    return str((folder / "cgroup.subtree_control").relative_to(tree.root))
