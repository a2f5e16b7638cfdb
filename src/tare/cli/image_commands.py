"""Run `tare image`: build, list, convert, push and prune the images of the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tare.cli.output import print_json, say
from tare.errors import MissingTool, UsageError
from tare.images import DEFAULT, RECIPES, find_recipe
from tare.images.build import Image, ensure_image, list_images
from tare.images.convert import FORMATS, convert, formats_of
from tare.images.own_images import ensure_own
from tare.images.registry import push
from tare.images.registry.reference import parse
from tare.images.usage import entries, limit_bytes, prune, size_of, used_unix_s
from tare.model.quantities import parse_bytes
from tare.runtimes import apptainer
from tare.study import is_path
from tare.system.packages import install
from tare.system.paths import cache_folder
from tare.system.process import find

HEADINGS = ("image", "digest", "size", "used", "formats")


def image_list(*, as_json: bool = False) -> None:
    """Print the images of the cache with their digests, and the size of the cache and its limit."""
    rows = [_row(image) for image in list_images()]
    if as_json:
        print_json([dict(zip(HEADINGS, row, strict=True)) for row in rows])
        return
    if rows:
        print(table([HEADINGS, *rows]))
    else:
        print("the cache has no image; `tare image build` makes one")
    size = sum(entry.size_bytes for entry in entries())
    print(f"\nthe cache {cache_folder()} takes {_gigabytes(size)} of {_gigabytes(limit_bytes())}")


def image_build(names: Sequence[str]) -> None:
    """Build images that are not in the cache; print the path and digest of each."""
    for recipe in [find_recipe(name) for name in names or [DEFAULT]]:
        image = ensure_image(recipe, progress=say)
        print(f"{image.name}  {image.digest}  {image.rootfs}")
    prune(progress=say)


def image_add(name: str, packages: Sequence[str]) -> None:
    """Build an image of tare's with more packages; print its path and digest, and how to use it."""
    if is_path(name):
        raise UsageError(
            f"tare adds packages to its own images only, not to {name}",
            remedy=f"install {' '.join(packages)} where you built it, or begin with one of {', '.join(RECIPES)}",
        )
    image = ensure_image(find_recipe("+".join((name, *packages))), progress=say)
    print(f"{image.name}  {image.digest}  {image.rootfs}")
    say(f"tare: use it by `--image {image.name}`, or in a study by `image: {image.name}`")
    prune(progress=say)


def image_convert(name: str, wanted: str, out: Path | None) -> None:
    """Convert an image; print the path and digest of the result."""
    if wanted not in FORMATS:
        raise UsageError(f"unknown format {wanted!r}", remedy=f"known formats: {', '.join(FORMATS)}")
    program = _packer(wanted)
    own = is_path(name)
    image = ensure_own(Path(name), progress=say) if own else ensure_image(find_recipe(name), progress=say)
    made = convert(image, wanted, out, program, say)
    print(f"{made.path}  {made.digest}")
    prune(progress=say)


def image_push(text: str, name: str, *, plain_http: bool) -> None:
    """Push an image to a registry by skopeo, with the user's login; print the reference by digest."""
    parse(text, "latest")  # what is wrong with it is said before an image is built, and what is missing
    push.need()
    own = is_path(name)
    image = ensure_own(Path(name), progress=say) if own else ensure_image(find_recipe(name), progress=say)
    reference = parse(text, image.digest[:16])
    made = convert(image, "oci", None, "", say)
    digest = push.push(made.path, reference, plain_http=plain_http, progress=say)
    print(reference.by_digest(digest))


def image_prune(limit: str, unused_days: float) -> None:
    """Remove images unused for `unused_days` from the cache, then the least recently used beyond its limit."""
    try:
        allowed = parse_bytes(limit) if limit else limit_bytes()
    except ValueError as error:
        raise UsageError(f"--limit: {error}", remedy="write it as --limit 20GB") from error
    removed = prune(allowed, progress=say, unused_s=unused_days * 86400)
    left = sum(entry.size_bytes for entry in entries())
    freed = sum(entry.size_bytes for entry in removed)
    print(f"removed {len(removed)} of {len(removed) + len(entries())} entries, {_gigabytes(freed)}")
    in_use = "; images in use were kept" if left > allowed else ""
    print(f"the cache {cache_folder()} takes {_gigabytes(left)} of {_gigabytes(allowed)}{in_use}")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text, each column as wide as its longest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(image: Image) -> tuple[str, ...]:
    formats = formats_of(image)
    places = [image.cache / family / image.digest for family in ("images", *formats[1:])]
    size = sum(size_of(place) for place in places)
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(map(used_unix_s, places))))
    return image.name, image.digest[:16], f"{size / 1e6:.0f} MB", used, ", ".join(formats)


def _packer(wanted: str) -> str:
    """Return the program that packs a SIF, or "" for other formats; raise `MissingTool` if it is not installed."""
    if wanted != "sif":
        return ""
    program = apptainer.find_program()
    if program is None or find("mksquashfs") is None:
        lacking = apptainer.MISSING if program is None else f"mksquashfs is not installed: {install('squashfs-tools')}"
        raise MissingTool(f"a SIF cannot be packed here: {lacking}")
    return program


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
