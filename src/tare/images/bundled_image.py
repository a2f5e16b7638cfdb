"""Put the image of a bundle into the cache: its record and its packed root file system, from a folder."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

from tare.errors import ImageError, UsageError
from tare.images import find_recipe
from tare.images.build import RECORD, Image, read_image
from tare.images.cache import PRIVATE, Progress, ensure, silent
from tare.images.inside.archive import sha256_of
from tare.images.inside.budget import UnpackBudget
from tare.images.inside.image_layers import unpack_tar
from tare.images.usage import mark_used
from tare.system.paths import cache_folder

_MOST_RECORD_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


def bring_image(folder: Path, cache_dir: Path | None = None, progress: Progress = silent) -> Image:
    """Return the image of a folder with image.json and rootfs.tar, from the cache; put it there first if missing.

    Raises `UsageError` if this tare would make another image of that name, and `ImageError` if it is damaged.
    """
    record, tar = _record(folder / RECORD), folder / "rootfs.tar"
    name, digest = record["name"], record["digest"]
    if find_recipe(name).digest != digest:
        raise UsageError(
            f"the image {name} in {folder} is of another version of tare",
            remedy="install the tare of the same bundle, or write the bundle again",
        )
    place = (cache_dir or cache_folder()) / "images" / digest
    mark_used(place)

    def make(work: Path) -> None:
        progress(f"image {name}: unpacking it into {place}")
        if record.get("tar_digest") != f"sha256:{sha256_of(tar)}":
            raise ImageError(f"{tar} is damaged: its digest is not that of its record", remedy="copy it again")
        (work / "rootfs").mkdir(mode=0o755)
        unpack_tar(tar, work / "rootfs", tar, UnpackBudget(tar, work, tar.stat().st_size))
        shutil.copyfile(tar, work / "rootfs.tar")
        (work / RECORD).write_text(json.dumps(record, indent=1) + "\n")

    return ensure(place, partial(read_image, place), make, what=f"image {name}", progress=progress, mode=PRIVATE)


def _record(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(_MOST_RECORD_BYTES))
        if not isinstance(record["name"], str) or _DIGEST.fullmatch(record["digest"]) is None or "source" in record:
            raise ValueError("it names no image of a recipe")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ImageError(f"{path} is not the record of an image: {error}", remedy="copy the bundle again") from error
    return {key: record[key] for key in record if key not in ("rootfs", "sif", "variables")}
