"""Check whether the user's program finds its libraries, on this machine and inside an image.

On this machine the dynamic loader is asked. In an image nothing is started: its loader is a program of whoever made the
image, and would have the rights of the caller, who is often root.
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

    A program that is not dynamically linked, or a script, lacks none. A file of an image that cannot be read as a
    library is listed with the reason.
    """
    if root is not None:
        resolved = find_linked(program, root)
        damaged = (f"{name} (cannot be read: {reason})" for name, reason in resolved.damaged.items())
        return sorted(map(plain, (*resolved.missing, *damaged)))
    output = _ldd_output(program)
    missing = [line.split("=>")[0].strip() for line in output.splitlines() if "not found" in line and "=>" in line]
    missing += re.findall(r"([^\s:]+): cannot open shared object file", output)
    return sorted(set(missing))


def libraries(program: Path, root: Path | None) -> dict[str, Path]:
    """Return the libraries that the dynamic loader finds for a program, by the names that the program asks for.

    The paths are those on this machine, also for libraries in an image. If a program is shown in images, so is the
    prefix that contains its `bin` (`located.shown_folder`).
    """
    if root is not None:
        installed = program.parent.name == "bin" and len(program.parents) > SHORTEST
        return dict(find_linked(program, root, program.parents[1] if installed else None).found)
    return {name: Path(path) for name, path in FOUND.findall(_ldd_output(program))}


def _ldd_output(program: Path) -> str:
    """Return what `ldd` on this machine prints about a program."""
    result = run(("ldd", str(program)), check=False, timeout_s=20)
    return result.stdout + result.stderr
