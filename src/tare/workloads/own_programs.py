"""Look at a program of the user's: whether it can run here, and inside an image.

On this machine its own dynamic loader is asked. Inside an image nothing is started to find out: its loader is a program
of whoever made the image, and would have the rights of the caller, who is often root.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tare.host.process import run
from tare.images.inside.inspect import plain
from tare.images.inside.linked import find_linked
from tare.workloads.located import SHORTEST

FOUND: Final = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def missing_libraries(program: Path, root: Path | None) -> list[str]:
    """Return the libraries that a program does not find, on this machine or inside an image's root file system.

    A program that is not dynamically linked (or a script) misses none. A file of an image that is there and cannot be
    read as a library is named with the reason.
    """
    if root is not None:
        found = find_linked(program, root)
        damaged = (f"{name} (cannot be read: {reason})" for name, reason in found.damaged.items())
        return sorted(map(plain, (*found.missing, *damaged)))
    said = _said(program)
    missing = [line.split("=>")[0].strip() for line in said.splitlines() if "not found" in line and "=>" in line]
    missing += re.findall(r"([^\s:]+): cannot open shared object file", said)
    return sorted(set(missing))


def libraries(program: Path, root: Path | None) -> dict[str, Path]:
    """Return the libraries that the dynamic loader finds for a program, by the names that it asks for.

    The paths are those on this machine, also of libraries in an image. Of a program that images are shown, what is
    installed beside its `bin` is shown as well (`located.shown_folder`).
    """
    if root is not None:
        installed = program.parent.name == "bin" and len(program.parents) > SHORTEST
        return dict(find_linked(program, root, program.parents[1] if installed else None).found)
    return {name: Path(path) for name, path in FOUND.findall(_said(program))}


def _said(program: Path) -> str:
    """Return what the dynamic loader of this machine says of a program's libraries."""
    result = run(("ldd", str(program)), check=False, timeout_s=20)
    return result.stdout + result.stderr
