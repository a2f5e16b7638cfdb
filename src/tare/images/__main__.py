"""Prepare what studies stand on, for the bootstrap: `python -m tare.images kernels MPI... | image NAME... | list`."""

from __future__ import annotations

import sys

from tare.errors import TareError, UsageError
from tare.images import DEFAULT, find_recipe
from tare.images.build import ensure_image, list_images
from tare.images.kernels import ensure_kernels


def main(argv: list[str]) -> int:
    """Do what the arguments say and return the exit code of the tool's table."""
    try:
        match argv:
            case ["kernels", *names]:
                for name in names or ["openmpi"]:
                    print(ensure_kernels(name, progress=_say).prefix)
            case ["image", *names]:
                for name in names or [DEFAULT]:
                    print(ensure_image(find_recipe(name), progress=_say).rootfs)
            case ["list"]:
                for image in list_images():
                    print(f"{image.name}  {image.digest}  {image.rootfs}")
            case _:
                raise UsageError("say what to prepare", remedy="python -m tare.images kernels | image | list")
    except TareError as error:
        print(f"tare: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _say(message: str) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
