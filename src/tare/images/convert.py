"""Convert images to the file that a runtime starts from, once: later calls find it in the cache.

<cache>/sif/<digest of the image>/image.sif   the root file system as one compressed, read-only file
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tare import process
from tare.images.cache import Progress, locked, made_whole, remove_tree, silent

SIF: Final = "image.sif"
_SIF_LIMIT_S: Final = 600.0
_FOLDERS: Final = ("TMPDIR", "APPTAINER_CACHEDIR", "APPTAINER_CONFIGDIR", "SINGULARITY_CACHEDIR")
"""Variables that keep what packing leaves behind out of the user's home and of /tmp."""


def sif_argv(program: str, rootfs: Path, target: Path) -> tuple[str, ...]:
    """Return the command of Apptainer (or Singularity) that packs a root file system into a SIF."""
    return (program, "build", str(target), str(rootfs))


def ensure_sif(program: str, rootfs: Path, progress: Progress = silent) -> Path:
    """Return the SIF of an image of the cache, packing it first where there is none (about half a minute).

    `rootfs` is the image's, as `tare.images.build` has it; `program` is Apptainer's. Raises `CommandFailed` with the
    end of what it said.
    """
    place = rootfs.parents[2] / "sif" / rootfs.parent.name
    if (place / SIF).is_file():  # it was renamed whole
        return place / SIF
    with locked(place.parent, what="the image as SIF", progress=progress):
        if not (place / SIF).is_file():
            progress("image: packing it into a SIF")
            with made_whole(place) as work:
                scratch = work / "scratch"
                scratch.mkdir()
                process.run(
                    sif_argv(program, rootfs, work / SIF),
                    timeout_s=_SIF_LIMIT_S,
                    env={**os.environ, **dict.fromkeys(_FOLDERS, str(scratch))},
                    what="packing the image into a SIF",
                )
                remove_tree(scratch)
    return place / SIF
