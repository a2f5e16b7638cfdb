"""Unpack one layer of an OCI or Docker image over what is in a folder: `unpack.py FOLDER LAYER`.

It makes the folder its root directory first, so that no link and no name in a layer leads outside, and it imports
nothing of ours. Whiteouts (OCI Image Format, "Layer Filesystem Changeset") remove what layers before have. Device nodes
are left out: runtimes bring their own /dev.
"""

import os
import shutil
import sys
import tarfile

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"


def place_of(member: tarfile.TarInfo) -> str:
    """Return where a member belongs, as an absolute path."""
    return os.path.normpath("/" + member.name.lstrip("/"))


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
        elif name.startswith(WHITEOUT):
            remove(os.path.join(folder, name[len(WHITEOUT) :]))


def unpack(archive: tarfile.TarFile) -> None:
    """Put a layer over the root directory."""
    archive.extraction_filter = lambda member, _path: member  # the root directory is the limit
    members = archive.getmembers()
    white_out(members)
    for member in members:
        path = place_of(member)
        if path == "/" or member.ischr() or member.isblk() or os.path.basename(path).startswith(WHITEOUT):
            continue
        if os.path.lexists(path) and not (member.isdir() and os.path.isdir(path) and not os.path.islink(path)):
            remove(path)
        archive.extract(member, "/", numeric_owner=True)


def main() -> int:
    """Unpack as the arguments say and return the exit status."""
    folder, layer = sys.argv[1:]
    try:
        with tarfile.open(layer) as archive:
            os.chroot(folder)
            os.chdir("/")
            unpack(archive)
    except (OSError, EOFError, tarfile.TarError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
