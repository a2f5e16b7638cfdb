"""Look at a program of the user's: whether it can run here, and inside an image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tare.process import run

FOUND: Final = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def missing_libraries(program: Path, root: Path | None) -> list[str]:
    """Return the libraries that a program does not find, on this machine or inside an image's root file system.

    A program that is not dynamically linked (or a script) misses nothing that the dynamic loader would tell of.
    """
    lines = _listed(program, root).splitlines()
    missing = [line.split("=>")[0].strip() for line in lines if "not found" in line and "=>" in line]
    missing += [found[1] for line in lines if (found := re.search(r"([^\s:]+): cannot open shared object file", line))]
    return sorted(set(missing))


def libraries(program: Path, root: Path | None) -> dict[str, Path]:
    """Return the libraries that the dynamic loader finds for a program, by the names that it asks for.

    The paths are those on this machine, also of libraries in an image.
    """
    top = root or Path("/")
    return {name: top / path.lstrip("/") for name, path in FOUND.findall(_listed(program, root))}


def _listed(program: Path, root: Path | None) -> str:
    """Return what the dynamic loader says of a program's libraries."""
    if root is None:
        return _said(("ldd", str(program)))
    loader = "/lib64/ld-linux-x86-64.so.2"
    enter = (
        "unshare", "--mount", "--", "/bin/sh", "-c",
        'mount --bind "$1" "$0/mnt" 2>/dev/null; exec chroot "$0" "$2" --list "/mnt/$3"',
        str(root), str(program.parent), loader, program.name,
    )  # fmt: skip
    return _said(enter)


def _said(argv: tuple[str, ...]) -> str:
    result = run(argv, check=False, timeout_s=20)
    return result.stdout + result.stderr
