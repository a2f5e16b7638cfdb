"""Prepare kernels and images for the bootstrap, or bring the image of a bundle.

`python -m tare.images kernels MPI... image NAME... | list | bring FOLDER`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from tare.errors import EXIT_INTERRUPTED, TareError, UsageError
from tare.images import DEFAULT, find_recipe
from tare.images.build import ensure_image, list_images
from tare.images.bundled_image import bring_image
from tare.images.kernels import ensure_kernels
from tare.system.process import interrupt_threads
from tare.system.signals import end_as_interrupt, uninterrupted

AT_ONCE: Final = 2
"""Downloading Debian's packages keeps one core and the network busy; compiling uses the rest."""

WORDS: Final = ("kernels", "image")
USAGE: Final = "python -m tare.images kernels MPI... image NAME... | list | bring FOLDER"


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say and return the exit code of the tool's table."""
    try:
        if list(argv) == ["list"]:
            for image in list_images():
                print(f"{image.name}  {image.digest}  {image.rootfs}")
            return 0
        if list(argv[:1]) == ["bring"] and len(argv) == 2:
            print(bring_image(Path(argv[1]), progress=_say).rootfs)
            return 0
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            futures = [pool.submit(task) for task in tasks(argv)]
            try:
                for future in futures:
                    print(future.result())
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                if isinstance(error, KeyboardInterrupt):
                    with uninterrupted():
                        interrupt_threads()
                raise
    except TareError as error:
        print(f"tare: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tare: interrupted: cleaned up; run the same command again", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def tasks(argv: Sequence[str]) -> list[partial[Path]]:
    """Return the tasks, alternating an image and kernels, because these two run side by side best."""
    named: dict[str, list[str]] = {}
    word = ""
    for argument in argv:
        if argument in WORDS:
            word = argument
            named.setdefault(word, [])
        elif word:
            named[word].append(argument)
        else:
            break
    if not named:
        raise UsageError("name what to prepare", remedy=USAGE)
    kernels = [partial(_kernels, name) for name in named.get("kernels", ()) or ["openmpi"] * ("kernels" in named)]
    images = [partial(_image, name) for name in named.get("image", ()) or [DEFAULT] * ("image" in named)]
    pairs = zip_longest(images, kernels)
    return [task for task in chain.from_iterable(pairs) if task is not None]


def _kernels(mpi: str) -> Path:
    return ensure_kernels(mpi, progress=_say).prefix


def _image(name: str) -> Path:
    return ensure_image(find_recipe(name), progress=_say).rootfs


def _say(message: str) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    end_as_interrupt()
    sys.exit(main(sys.argv[1:]))
