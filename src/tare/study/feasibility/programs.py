"""Look for the user's own programs of a plan, and into them, before anything is built: `tare plan` and `tare run` both.

What only an image that is not built yet could tell is left to `preflight`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from tare.images import find_recipe
from tare.images.build import Image, read_image
from tare.images.own_images import ensure_own
from tare.images.registry.reference import is_reference
from tare.model import Cell, Launching, Plan
from tare.runtimes.containers.deployment import Files
from tare.study import is_path
from tare.study.feasibility import preflight, program_libraries
from tare.study.plan.cells import available
from tare.system.paths import cache_folder
from tare.workloads import program_places

NOWHERE: Final = Path("/nowhere")


def programs_of(plan: Plan) -> dict[str, Path]:
    """Return the files of the commands that cells start, by name; some may be in images only.

    Raises `RefusedError` for one that cells without an image need and this machine does not have.
    """
    found = {}
    for name, images_only in sorted(program_places.commands_of(available(plan)).items()):
        program_places.check_no_launcher(name)
        file = program_places.command_file(name)
        if file is not None:
            program_places.check_executable(file, in_images=images_only)
            found[name] = file
        elif not images_only:
            raise program_places.no_such_program(name)
    return found


def folders_of(plan: Plan) -> tuple[str, ...]:
    """Return the folders that pods must see for a plan's programs; raise `RefusedError` for what cannot be shown."""
    own = {name: file for name, file in programs_of(plan).items() if not program_places.is_of_system(file)}
    folders = [folder for file in own.values() for folder in program_places.folders_of(file)]
    folders += program_libraries.folders_of(available(plan), own)
    others = {cell.workload for cell in available(plan) if program_places.is_shown(cell.workload)}
    folders += sorted(map(program_places.shown_folder, others))
    for place in folders:
        program_places.check_can_be_shown(place, "the program's folder")
    return tuple(dict.fromkeys(folders))


def looked_into(plan: Plan, shown: Sequence[str]) -> Plan:
    """Return the plan with the cells marked unavailable whose program does not fit where it would run.

    `shown` are folders that pods see. Cells whose image is not in the cache are left as they are.
    """
    image_of = cache(_image)
    reasons = {}
    for cell in available(plan):
        image = image_of(cell.environment.image)
        if (
            cell.workload.command
            and _is_known(cell, image)
            and (reason := preflight.misfit(cell, _files(image, shown)))
        ):
            reasons[cell.key] = reason
    return replace(plan, unavailable={**plan.unavailable, **reasons})


def _is_known(cell: Cell, image: Image | None) -> bool:
    wanted = cell.environment
    return wanted.launch is not Launching.HOST_MPI and (image is not None or not wanted.image)


def _image(name: str) -> Image | None:
    """Return an image of the cache or of the user's; None without one."""
    if not name or is_reference(name):
        return None
    if is_path(name):
        return ensure_own(Path(name))
    return read_image(cache_folder() / "images" / find_recipe(name).digest)


def _files(image: Image | None, shown: Sequence[str]) -> Files:
    if image is None:
        return Files(host_prefix=NOWHERE, shown=tuple(shown))
    variables = image.variables if image.source else ()
    return Files(host_prefix=NOWHERE, shown=tuple(shown), rootfs=image.rootfs, variables=variables)
