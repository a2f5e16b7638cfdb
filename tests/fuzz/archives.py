"""Strategies of image archives: tars of docker save, OCI layouts, layouts in a folder, with hostile members."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.hostile import CHANGES, JUNK, LINKS, NAMES, ODD, PATHS, RARELY, VICTIM, Changes, mixed
from tare.images.inside.archive import architecture


@dataclass(frozen=True)
class Member:
    """An entry of a tar; `stated` is a size that is not that of its content."""

    name: str
    kind: bytes
    link: str
    mode: int
    content: bytes
    stated: int | None


@dataclass(frozen=True)
class Archive:
    """A tar of docker save, or of an OCI layout, or a layout in a folder, and what was done to it."""

    kind: str
    layers: tuple[tuple[Member, ...], ...]
    config: object
    manifest: object
    oci: object
    index: object
    more: tuple[Member, ...]
    layer_changes: Changes
    changes: Changes
    packed: tuple[bool, bool]


KINDS = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)
ODD_KINDS = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME,
             tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE, b"g", b"?")  # fmt: skip
CONTENTS = st.sampled_from(
    [b"", b"x", b"export A=$A$A\n" * 9, b"A=1\nB=\0\n", b"12 path=../x\n", b"20 size=99999999999\n", b"GLIBC_2.36\0",
     b"\0004.1.4\0", b"18 mtime=1e9999\n\n", b"99999 path=x\n"]
)  # fmt: skip
MEMBERS = st.builds(
    Member,
    name=NAMES,
    kind=st.sampled_from(KINDS * 30 + ODD_KINDS),
    link=LINKS,
    mode=st.sampled_from([0o644, 0o755, 0o4755, 0o6777, 0o2755, 0, 0o1777]),
    content=CONTENTS,
    stated=st.sampled_from([None] * 100 + [0, 1, 512, -1, -512, 1 << 40, 1 << 62]),
)


PLANTED = st.builds(
    Member,
    name=st.sampled_from(("ch", "ch/environment", "etc", "etc/hosts", "mnt", "lib64", ".singularity.d/env/1.sh")),
    kind=st.just(tarfile.SYMTYPE),
    link=LINKS,
    mode=st.just(0o777),
    content=st.just(b""),
    stated=st.none(),
)
"""Links where tare itself reads and writes."""
LAYERS = st.lists(MEMBERS | MEMBERS | PLANTED, max_size=6).map(tuple)


def usually(*values: object) -> st.SearchStrategy[Any]:
    """Return one of these, and rarely something odd."""
    return st.sampled_from(values * (RARELY * len(ODD) // len(values)) + ODD)


def rarely(strategy: st.SearchStrategy[Any], otherwise: object) -> st.SearchStrategy[Any]:
    return st.sampled_from((False,) * RARELY + (True,)).flatmap(lambda now: strategy if now else st.just(otherwise))


def pointer(digit: str) -> dict[str, str]:
    return {"digest": f"sha256:{digit * 64}"}


POINTERS = usually(*(pointer(digit) for digit in "abcd"))
CONFIGS = st.fixed_dictionaries(
    {"architecture": usually(architecture())},
    optional={
        "config": st.fixed_dictionaries({"Env": usually(["A=1", "PATH=/x"], ["=", "B=\0", "C=\ud800"], [])}) | JUNK
    },
)
DOCKER = st.lists(
    st.fixed_dictionaries({"Config": rarely(PATHS, "c"), "Layers": usually(["l0", "l1"], ["l1"], ["l0"])}),
    min_size=1,
    max_size=1,
) | usually([{"Config": "c", "Layers": ["l0", "l1"]}])
OCI = st.fixed_dictionaries({"config": usually(pointer("a")), "layers": usually([pointer("c"), pointer("d")])})
INDEX = st.fixed_dictionaries({"manifests": usually([pointer("b")], [pointer("b") | {"platform": {"os": "x"}}])})
ARCHIVES = st.builds(
    Archive,
    kind=st.sampled_from(["docker", "docker", "oci", "folder", "docker-folder"]),
    layers=st.tuples(LAYERS, LAYERS),
    config=CONFIGS,
    manifest=DOCKER,
    oci=OCI,
    index=INDEX,
    more=st.lists(MEMBERS, max_size=3).map(tuple),
    layer_changes=rarely(CHANGES, ([], None)),
    changes=rarely(CHANGES, ([], None)),
    packed=st.tuples(st.booleans(), st.booleans()),
)


def a_tar(members: Sequence[Member], victim: Path) -> bytes:
    content = b""
    for each in members:
        info = tarfile.TarInfo(each.name.replace(VICTIM, str(victim))[:2000])
        info.type, info.mode = each.kind, each.mode
        info.linkname = each.link.replace(VICTIM, str(victim))
        info.size = len(each.content) if each.stated is None else each.stated
        with suppress(ValueError, UnicodeError):
            content += info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
            content += each.content + bytes(-len(each.content) % 512)
    return content + bytes(1024)


def as_json(value: object) -> bytes:
    return json.dumps(value).replace(VICTIM, "/none").encode()


def files_of(archive: Archive, victim: Path) -> dict[str, bytes]:
    """Return the files of an image by their names."""
    layers = [mixed(a_tar(each, victim), *archive.layer_changes) for each in archive.layers]
    layers = [gzip.compress(each, 1) if archive.packed[0] else each for each in layers]
    if archive.kind.startswith("docker"):
        named = {"l0": layers[0], "l1": layers[1], "c": as_json(archive.config)}
        return {**named, "manifest.json": as_json(archive.manifest)}
    blobs = {"a": as_json(archive.config), "b": as_json(archive.oci), "c": layers[0], "d": layers[1]}
    named = {f"blobs/sha256/{name * 64}": content for name, content in blobs.items()}
    return {**named, "index.json": as_json(archive.index)}


def write(archive: Archive, work: Path, victim: Path) -> Path:
    """Write an image and return its path."""
    files = files_of(archive, victim)
    if "folder" in archive.kind:
        folder = work / "image"
        for name, content in {**files, "oci-layout": b"{}"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(mixed(content, *archive.changes) if name == "c" else content)
        if archive.more:
            (folder / "l0").unlink(missing_ok=True)
            with suppress(OSError, ValueError):
                (folder / "l0").symlink_to(archive.more[0].link.replace(VICTIM, str(victim)))
        return folder
    members = [Member(name, tarfile.REGTYPE, "", 0o644, content, None) for name, content in files.items()]
    content = mixed(a_tar((*archive.more, *members), victim), *archive.changes)
    path = work / "image.tar"
    path.write_bytes(gzip.compress(content, 1) if archive.packed[1] else content)
    return path
