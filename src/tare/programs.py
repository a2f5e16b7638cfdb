"""Look at a program of the user's: whether it can run here, and inside an image."""

from __future__ import annotations

import re
from pathlib import Path

from tare.process import run


def missing_libraries(program: Path, root: Path | None) -> list[str]:
    """Return the libraries that a program does not find, on this machine or inside an image's root file system.

    A program that is not dynamically linked (or a script) misses nothing that the dynamic loader would tell of.
    """
    if root is None:
        return _not_found(("ldd", str(program)))
    loader = "/lib64/ld-linux-x86-64.so.2"
    enter = (
        "unshare", "--mount", "--", "/bin/sh", "-c",
        'mount --bind "$1" "$0/mnt" 2>/dev/null; exec chroot "$0" "$2" --list "/mnt/$3"',
        str(root), str(program.parent), loader, program.name,
    )  # fmt: skip
    return _not_found(enter)


def _not_found(argv: tuple[str, ...]) -> list[str]:
    result = run(argv, check=False, timeout_s=20)
    lines = (result.stdout + result.stderr).splitlines()
    missing = [line.split("=>")[0].strip() for line in lines if "not found" in line and "=>" in line]
    missing += [found[1] for line in lines if (found := re.search(r"([^\s:]+): cannot open shared object file", line))]
    return sorted(set(missing))
