"""Let root act as a folder's owner in it, so that what containers of root's leave there is the owner's and not root's.

Without that, a program of an image could give a user a set-user-ID file of root's in the user's own folder, from where
the user could take it away before it is swept (`tare.runtimes.containers.rights_sweep`).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tare.runtimes.containers.held_namespaces import enter
from tare.system.namespaces import plain_python
from tare.system.process import run

IDMAPPED: Final = Path(__file__).parent / "idmapped.py"
MOST_GROUPS: Final = 300
"""The kernel takes 340 lines of a mapping."""
UNCOVER: Final = 'for place; do if [ "$(stat -c %u "$place")" = "$0" ]; then umount "$place"; fi; done'


def owner_map(path: str, shown_as: int = 0) -> str:
    """Return the mapping (`idmapped.py`) that shows a folder's owner as user `shown_as`; "" for a folder of root's.

    The folder's group is shown as a group of that number, and the owner's other groups as they are. All other users
    and groups, root among them, own nothing there that can be written to.
    """
    try:
        status = os.stat(path)
    except OSError:
        return ""
    if status.st_uid == 0:
        return ""
    try:
        user = pwd.getpwuid(status.st_uid)
        groups = set(os.getgrouplist(user.pw_name, user.pw_gid)) - {0, shown_as, status.st_gid}
    except KeyError:
        groups = set()
    others = "".join(f",{group} {group} 1" for group in sorted(groups)[:MOST_GROUPS])
    return f"{status.st_uid} {shown_as} 1/{status.st_gid} {shown_as} 1{others}"


def act_as_owners(pid: int, places: Iterable[str]) -> None:
    """Make root the owner of folders and files in the mount namespace of a process, in its eyes alone.

    Where the kernel or the file system knows no mapped owners, nothing changes.
    """
    for place in places:
        if mapping := owner_map(place):
            script = (plain_python(), "-IS", "-c", IDMAPPED.read_text(), mapping, "all", place, place)
            run((*enter(pid), *script), check=False, timeout_s=20)


def uncover(pid: int, places: Iterable[str]) -> None:
    """Undo `act_as_owners` in a mount namespace of its own: a mapped folder cannot be mapped again."""
    if covered := [place for place in places if owner_map(place)]:
        run((*enter(pid), "/bin/sh", "-c", UNCOVER, "0", *covered), what="showing folders as they are", timeout_s=20)
