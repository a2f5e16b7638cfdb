"""Unpack one layer of an image over what is in a folder: `unpack.py FOLDER LAYER MEMBERS BYTES DEPTH CHARACTERS`.

It makes the folder its root directory first, so that no link and no name in a layer leads outside, and it imports
no module of tare. From then on it imports nothing at all: Python would look for modules in the image. Whiteouts (OCI
Image Format, "Layer Filesystem Changeset") remove what layers before have. Device nodes are left out, and setuid and
setgid bits: no runtime needs them. A layer is not compressed. One with more members or bytes, or longer or deeper
paths, than the arguments say is refused before it is unpacked; the numbers of members and bytes are printed. The
caller bounds the memory.
"""

import os
import shutil
import struct
import sys
import tarfile

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
ALLOWED_BITS = 0o1777

DAMAGES = (
    OSError, EOFError, ValueError, OverflowError, LookupError, MemoryError, RecursionError, struct.error,
    tarfile.TarError,
)  # fmt: skip
"""What tarfile raises where a layer is damaged."""


def place_of(member: tarfile.TarInfo) -> str:
    """Return where a member belongs, as an absolute path."""
    return os.path.normpath("/" + member.name.lstrip("/"))


def members_of(
    archive: tarfile.TarFile, most_members: int, most_bytes: int, deepest: int, longest: int
) -> list[tarfile.TarInfo]:
    """Return the members of a layer; raise `TarError` where they are too many, too large or too deep."""
    members: list[tarfile.TarInfo] = []
    left = most_bytes
    for member in archive:  # before the content of one is skipped, which may be endless zeros
        left -= member.size
        if member.size < 0 or left < 0:
            raise tarfile.TarError(f"it has more than {most_bytes} bytes, or a file of a negative size")
        if len(members) == most_members:
            raise tarfile.TarError(f"it has more than {most_members} files, folders and links")
        if len(member.name) > longest or member.name.count("/") > deepest:
            raise tarfile.TarError(f"it has a path of more than {longest} characters, or more than {deepest} folders")
        members.append(member)
    return members


def remove(path: str) -> None:
    """Remove a file or folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def white_out(members: list[tarfile.TarInfo]) -> None:
    """Remove what the layer takes away from those before."""
    for member in members:
        folder, name = os.path.split(place_of(member))
        if name == OPAQUE:
            for inside in os.listdir(folder) if os.path.isdir(folder) else ():
                remove(os.path.join(folder, inside))
        elif name.startswith(WHITEOUT) and name[len(WHITEOUT) :] not in ("", ".", ".."):
            remove(os.path.join(folder, name[len(WHITEOUT) :]))


def unpack(archive: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
    """Put a layer over the root directory."""
    archive.extraction_filter = lambda member, _path: member  # the root directory is the limit
    white_out(members)
    for member in members:
        path = place_of(member)
        if path == "/" or member.ischr() or member.isblk() or os.path.basename(path).startswith(WHITEOUT):
            continue
        if os.path.lexists(path) and not (member.isdir() and os.path.isdir(path) and not os.path.islink(path)):
            remove(path)
        member.mode &= ALLOWED_BITS
        archive.extract(member, "/", numeric_owner=True)


def enter(folder: str) -> None:
    """Make a folder the root directory, and take no code from it."""
    sys.meta_path.clear()
    os.chroot(folder)
    os.chdir("/")


def main() -> int:
    """Unpack as the arguments say and return the exit status."""
    folder, layer, *most = sys.argv[1:]
    try:
        with tarfile.open(layer, "r:") as archive:
            enter(folder)
            members = members_of(archive, *map(int, most))
            unpack(archive, members)
    except DAMAGES as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    print(len(members), sum(member.size for member in members))
    return 0


if __name__ == "__main__":
    sys.exit(main())
