"""Label the files that containers see, on machines with SELinux: without it Docker and Podman may not read them.

`:z` lets all containers of the machine use a folder. Podman and Docker change the labels of the files for that, so
folders of the system keep theirs: containers may read these anyway.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Final

FOLDER: Final = Path("/sys/fs/selinux")
SHARED: Final = "z"
SYSTEM: Final = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr", "var",
})  # fmt: skip
"""Top folders whose labels are the system's: relabelled, services could no longer use them."""

_WHOLE: Final = frozenset({"/", "/home", "/root", "/opt", "/mnt", "/media", "/srv", "/tmp"})


def is_enabled(folder: Path = FOLDER) -> bool:
    """Return whether the kernel enforces SELinux's rules, or only reports them: labels matter in both cases."""
    return (folder / "enforce").exists()


def labelled(bind: str, *, enabled: bool) -> str:
    """Return a bind, `SOURCE:TARGET` or `SOURCE:TARGET:MODE`, with the label that containers share if it needs one."""
    source, target, mode = (*bind.split(":", 2), "", "")[:3]
    if not enabled or not needs_label(source) or SHARED in mode.split(","):
        return bind
    return f"{source}:{target}:{f'{mode},' if mode else ''}{SHARED}"


def needs_label(source: str) -> bool:
    """Return whether a folder or file may get the label: it is a user's, and no top folder as a whole."""
    path = "/" + os.path.normpath(source).lstrip("/")
    return source.startswith("/") and path not in _WHOLE and PurePosixPath(path).parts[1] not in SYSTEM


def label(bind: str) -> str:
    """Return a bind as Docker and Podman need it on this machine."""
    return labelled(bind, enabled=is_enabled())
