"""Collect the wheels of a bundle: tare's own, and the locked packages for a version of Python.

tare's wheel is made from the running package, which may be a clone or an installed wheel: no build tool is needed. The
other wheels come through pip, which checks their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.markers import Marker

import tare
from tare.cli.bundle.archive import write_zip
from tare.errors import CommandFailed, CommandTimeout, InfrastructureError
from tare.system import process

PROJECT: Final = "tare-hpc"
LOCKS: Final = tuple(Path(__file__).with_name(name) for name in ("lock_run.txt", "lock_pip.txt"))
NEWEST_GLIBC: Final = 28
"""Wheels for this C library (2.28) and older ones: RHEL 8, Debian 10 and all that came later."""

_LIMIT_S: Final = 900.0
_INFORMATION: Final = ("METADATA", "entry_points.txt", "licenses/LICENSE")
_TAG: Final = "Wheel-Version: 1.0\nGenerator: tare bundle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+==[^\s;]+) *(?:; *(.*?))? *\\")


def own_wheel(folder: Path) -> Path:
    """Write the wheel of the running tare into a folder and return its path; the same sources give the same bytes."""
    installed = _distribution()
    information = f"{PROJECT.replace('-', '_')}-{tare.__version__}.dist-info"
    files = {name: path.read_bytes() for name, path in package_files()}
    for name in _INFORMATION:
        text = installed.read_text(name)
        if text is not None:
            files[f"{information}/{name}"] = text.encode()
    files[f"{information}/WHEEL"] = _TAG.encode()
    lines = [f"{name},sha256={_short_digest(files[name])},{len(files[name])}" for name in sorted(files)]
    files[f"{information}/RECORD"] = "\n".join([*lines, f"{information}/RECORD,,", ""]).encode()
    wheel = folder / f"{PROJECT.replace('-', '_')}-{tare.__version__}-py3-none-any.whl"
    write_zip(wheel, files)
    return wheel


def package_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of the package, the C sources among them, each with its name in a wheel."""
    top = Path(tare.__file__).parent
    for at, folders, names in os.walk(top, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__", "build")))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".pyc", ".so")):
                path = Path(at, name)
                yield f"tare/{path.relative_to(top).as_posix()}", path


def requirements(python: str) -> str:
    """Return the lines of the locks for a version of Python (such as "3.13") on Linux, with their hashes."""
    machine = {
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "platform_machine": platform.machine(),
    }
    chosen: list[str] = []
    for lock in LOCKS:
        for entry in re.split(r"\n(?=\S)", lock.read_text().strip()):
            match = _REQUIREMENT.match(entry)
            if match is None:
                raise InfrastructureError(f"{lock} has a line that is not locked: {entry.splitlines()[0]}")
            if match[2] is None or Marker(match[2]).evaluate(machine):
                hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)
                chosen.append(" ".join([match[1], *hashes]))
    return "\n".join([*chosen, ""])


def download(python: str, folder: Path) -> None:
    """Download the locked wheels for a version of Python and this machine's architecture into a folder.

    Raises `InfrastructureError` with pip's message.
    """
    lock = folder / "requirements.txt"
    lock.write_text(requirements(python))
    try:
        process.run(
            (*pip_argv("download", python), "--dest", str(folder), "--requirement", str(lock)),
            timeout_s=_LIMIT_S,
            what=f"downloading the Python packages for Python {python}",
        )
    except (CommandFailed, CommandTimeout) as error:
        tail = error.stderr_tail.splitlines()[-3:] if isinstance(error, CommandFailed) else [error.message]
        raise InfrastructureError(
            "\n  ".join([f"pip could not download the locked packages for Python {python}:", *tail]),
            remedy="check that pip reaches its package index from this machine, then run the same command again",
        ) from error
    finally:
        lock.unlink()


def pip_argv(command: str, python: str) -> tuple[str, ...]:
    """Return a command of pip without folders and requirements: wheels only, each with a hash of the lock."""
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC, 4, -1)]
    legacy = [f"manylinux{name}_{machine}" for name in ("2014", "2010", "1")]
    return (
        *(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", command),
        *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", python),
        *(f"--platform={tag}" for tag in [*tags, *legacy]),
    )


def _distribution() -> Distribution:
    try:
        return distribution(PROJECT)
    except PackageNotFoundError as error:
        raise InfrastructureError(
            "a bundle needs the metadata of an installed tare, which this Python does not have",
            remedy="install tare with pip (make setup), then run its `tare bundle`",
        ) from error


def _short_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
