"""Paths, values and changed bytes that an attacker would put into an image, and the checks that fuzzers share."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from tare.errors import TareError

VICTIM = "VICTIM"
"""Stands in names for the path of the folder that nothing may change."""

SEGMENTS = (
    "a", "b", "c", "..", ".", "", "etc", "hosts", "ch", "environment", "lib64", "usr", "lib", "libmpi.so.40", "mnt",
    ".wh.a", ".wh..wh..opq", ".wh...", ".wh.", "d" * 300, "\x1b[2J", "\udcff", "é", "ld-linux-x86-64.so.2",
)  # fmt: skip
WHOLE = (
    VICTIM, f"{VICTIM}/file", f"../../../../../../../../..{VICTIM}/file", "/", "", "..", "ch/environment",
    "etc/hosts", ".singularity.d/env/1.sh", "/dev/zero", "/proc/self/root/etc", "l0", "l1", "c", "manifest.json",
)  # fmt: skip
PAIRS = tuple(f"{one}/{two}" for one in SEGMENTS for two in SEGMENTS)
PATHS = st.sampled_from((*WHOLE, *SEGMENTS, *PAIRS, *(f"a/{each}/c/.." for each in SEGMENTS)))
"""One draw each: what takes many is slow, and a fuzzer lives from trying much."""
NAMES = st.sampled_from((*WHOLE * 10, "ch", "etc", *SEGMENTS * 4, *PAIRS))
LINKS = st.sampled_from((VICTIM, f"{VICTIM}/file") * 20 + WHOLE * 2 + SEGMENTS)

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2.5, 10**30, 10**400, float("nan"), "", "x", "\ud800", "\0", "amd64", [], {}, [[]], [{}],
    "sha256:" + "a" * 64, "sha256:" + "b" * 64, {"digest": "sha256:" + "a" * 64}, [{"digest": 5}], [None],
    {"manifests": []}, {"manifests": [{"digest": "sha256:" + "b" * 64}]}, {"architecture": []}, ["l0"] * 600,
    {"architecture": "arm64"}, {"Env": ["A=1", 5]}, {"config": {"Env": {}}}, "../secret", "/dev/zero",
    f"{VICTIM}/file", "../../victim/file",
)  # fmt: skip
JUNK = st.sampled_from(ODD)
RARELY: Final = 12
"""How much more often than anything odd stands what belongs there: images must get far enough to be unpacked."""


Changes = tuple[list[tuple[int, bytes]], int | None]


def mixed(content: bytes, changes: Sequence[tuple[int, bytes]], end: int | None) -> bytes:
    """Return bytes with some written over, and the end cut off."""
    changed = bytearray(content)
    for at, new in changes:
        place = at % max(1, len(changed))
        changed[place : place + len(new)] = new
    return bytes(changed if end is None else changed[: end % (len(changed) + 1)])


def changes(size: int, written: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy[Changes]:
    """Return what `mixed` takes: some bytes for the first `size`, and where the end is cut off, if it is."""
    places = st.tuples(st.integers(0, size), written)
    return st.tuples(st.lists(places, max_size=most), st.none() | st.none() | st.integers(0, 60_000))


LARGE = st.sampled_from([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f", b"-1"])
"""Numbers that are large or none, of both orders of bytes."""
CHANGES = changes(4000, st.binary(min_size=1, max_size=3) | LARGE, 4)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path)] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def told(action: Callable[[], Any]) -> Any:
    """Return what an action gives; an error of the project must be a sentence that can be printed."""
    try:
        return action()
    except TareError as error:
        message = error.message
    assert message.isprintable(), message
    assert len(message) < 2000
    return None
