"""Mark cgroups as made by tare with an extended attribute, so that no foreign cgroup is ever taken for one.

A mark names the state folder that its lab is recorded in (`state_identity`): a tare in a container, or of another user,
may make its cgroups in the same place.

If the kernel does not support such attributes on cgroups (user attributes since 5.7 on v2; trusted ones need root), a
file in this boot's state folder is used instead, named after the cgroup's inode.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tare.system.node.owners import boot_id
from tare.system.paths import made_run_folder, run_folder, state_identity

ATTRIBUTES: Final = ("trusted.tare", "user.tare")
FILES: Final = "cgroups"


def mark(folder: Path) -> None:
    """Mark a cgroup that tare has just made."""
    made_run_folder()
    note(folder, state_identity())


def note(folder: Path, text: str) -> None:
    """Attach a text to a cgroup that tare has just made."""
    for name in ATTRIBUTES:
        try:
            os.setxattr(folder, name, text.encode())
        except OSError:
            continue
        return
    file = _file(made_run_folder(), folder)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(f"{boot_id()} {text}")


def is_ours(folder: Path) -> bool:
    """Return whether a cgroup belongs to a lab that is recorded in our own state folder."""
    return noted(folder) == state_identity() != ""


def noted(folder: Path) -> str:
    """Return the text attached to a cgroup, or ""."""
    for name in ATTRIBUTES:
        try:
            return os.getxattr(folder, name).decode(errors="replace")
        except OSError:
            continue
    try:
        boot, _, text = _file(run_folder(), folder).read_text().partition(" ")
    except OSError:
        return ""
    return text if boot == boot_id() else ""


def forget(folder: Path) -> None:
    """Remove the file that replaces a cgroup's mark, if there is one; call it before removing the cgroup."""
    try:
        _file(run_folder(), folder).unlink()
    except OSError:
        pass


def _file(state: Path, folder: Path) -> Path:
    found = folder.stat()
    return state / FILES / f"{found.st_dev}-{found.st_ino}"
