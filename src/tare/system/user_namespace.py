"""Make an ordinary user root of a user namespace, in which nodes can be created, though no daemons and no cgroups.

The command restarts itself inside. Its network namespace is also new: root of a user namespace can leave the machine's
own network namespace, but not return to it.
A user who has too few subordinate IDs can have no user namespace with several users.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tare.errors import MissingTool
from tare.system.packages import install
from tare.system.paths import RUN_FOLDER, made_run_folder
from tare.system.process import find, replace, run

LEAST_IDS: Final = 65536
"""Number of subordinate IDs that an image's files need; useradd gives as many to each user."""
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--")


def probe() -> str | None:
    """Return why no user namespace can be made here, or None."""
    if find("unshare") is None or find("nsenter") is None:
        return f"unshare and nsenter are not installed: {install('util-linux')}"
    if run((*UNSHARE, "true"), check=False, timeout_s=10).status != 0:
        return "ordinary users may not create user namespaces on this machine"
    return None


def become_root(carried: Callable[[], Mapping[str, str]] = dict) -> None:
    """As an ordinary user, start this command again as root of a new user namespace; as root, do nothing.

    `carried` returns further variables for the command.
    """
    if os.geteuid() == 0:
        return
    if reason := probe():
        raise MissingTool(
            reason,
            remedy="run as root, or have an administrator allow it: user.max_user_namespaces and, where they exist, "
            "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0",
        )
    folder = made_run_folder()
    command = (sys.executable, "-P", "-m", "tare.cli.app", *sys.argv[1:])
    replace((*UNSHARE, *command), {**os.environ, **carried(), RUN_FOLDER: str(folder)})


def is_real_root(uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Return whether this process is root of the machine, not only of a user namespace."""
    if os.geteuid() != 0:
        return False
    try:
        return uid_map.read_text().split() == ["0", "0", str(2**32 - 1)]
    except OSError:
        return True


def lacks_ids() -> str | None:
    """Return that this user has too few subordinate IDs, with the command that adds them, or None."""
    name = user_name()
    for kind, option in (("subuid", "--add-subuids"), ("subgid", "--add-subgids")):
        if count_ids(text_of(Path("/etc") / kind), name, os.geteuid()) < LEAST_IDS:
            return (
                f"/etc/{kind} gives user {name} fewer than {LEAST_IDS} subordinate IDs: have an administrator run "
                f"usermod {option} 100000-165535 {name}, with a range that no other user has"
            )
    return None


def count_ids(text: str, name: str, number: int) -> int:
    """Return how many subordinate IDs a user has, from the text of /etc/subuid (subuid(5))."""
    entries = (line.split(":") for line in text.splitlines())
    return sum(int(entry[2]) for entry in entries if len(entry) == 3 and entry[0] in (name, str(number)))


def user_name() -> str:
    """Return this user's name, or its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def text_of(path: Path) -> str:
    """Return the text of a file, "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
