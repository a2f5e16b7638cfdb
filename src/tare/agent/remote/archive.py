"""Pack the part of this package that runs on a node into one archive, named by its digest."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path, PurePosixPath
from typing import Final

from tare.errors import InfrastructureError

TARE: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("agent", "daemons", "images", "model", "mpi", "networks", "runtimes", "system")
"""The packages that a node's service can import; nothing in them needs more than Python's standard library."""
NETLINK: Final = "pyroute2"
"""What wiring a network uses; it is needed only on nodes where tare may be root."""
UNCHECKED: Final = (1).to_bytes(4, "little")
"""The flags of byte code that is known by a hash of its source, which is not looked at (PEP 552)."""
WRITTEN: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A zip file and its SHA-256 digest. The digest is that of the contents, so that it is the same on every head."""

    digest: str
    data: bytes


@cache
def packed(*, netlink: bool = False, compiled: bool = False) -> Archive:
    """Return the archive for a node; with `netlink` it can also wire networks.

    `compiled` adds byte code of this Python: for nodes that are new at every start, and slow to compile (pods).
    """
    files = dict(_own_files())
    if compiled:
        files.update(_byte_code(tuple(files)))
    if netlink:
        files.update(_netlink_files())
    digest = hashlib.sha256()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
            archive.writestr(zipfile.ZipInfo(name, WRITTEN), files[name], zipfile.ZIP_DEFLATED)
    return Archive(digest=digest.hexdigest(), data=written.getvalue())


def _own_files() -> Iterator[tuple[str, bytes]]:
    for name in ("__init__.py", "errors.py"):
        yield f"tare/{name}", (TARE / name).read_bytes()
    for package in PACKAGES:
        for file in sorted((TARE / package).rglob("*")):
            if file.suffix in (".py", ".sh") and file.is_file():
                yield f"tare/{file.relative_to(TARE)}", file.read_bytes()


def _byte_code(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the byte code of modules; a node with another Python passes it over.

    It is not checked against the source (PEP 552): both are in one archive with one digest.
    """
    for name in names:
        if name.endswith(".py"):
            path = str(TARE.parent / name)
            loader = SourceFileLoader(name, path)
            code, source = loader.get_code(name), loader.get_data(path)
            head = MAGIC_NUMBER + UNCHECKED + source_hash(source)
            place = PurePosixPath(name)
            found = place.parent / "__pycache__" / f"{place.stem}.{sys.implementation.cache_tag}.pyc"
            yield str(found), head + marshal.dumps(code)


def _netlink_files() -> Iterator[tuple[str, bytes]]:
    found = importlib.util.find_spec(NETLINK)
    if found is None or found.origin is None:
        raise InfrastructureError(f"{NETLINK}, which a node needs to wire networks, is not installed here")
    folder = Path(found.origin).parent
    for file in sorted(folder.rglob("*.py")):
        yield f"{NETLINK}/{file.relative_to(folder)}", file.read_bytes()
