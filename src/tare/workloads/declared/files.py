"""Reading and writing files: in order, at random, and many small ones; of the job, or of the container's image."""

from __future__ import annotations

from typing import Final

from tare.workloads.declared.declaration import Choice, MiniApp, Parameter

IMAGE_KIB: Final = 16384
"""Size of the file that is in every image, in KiB."""

IMAGE_FILES: Final = 1000
"""The small files that are in every image, those of the workload `startup`."""

KIB: Final = 1024
SMALL_BYTES: Final = 4096
BYTES_S: Final = 200e6
FILE_S: Final = 200e-6
"""Modest speeds, from which the time of a launch is estimated."""

COLD_S: Final = 2.0
"""What dropping the caches adds to a launch: the launcher, the MPI and the runtime are read from disk, too."""

ORDER_BYTES: Final = 8


def _refuse_blocks(choice: Choice, _: int) -> str | None:
    values = choice.values
    if values["write"] and values["cold"]:
        return f"{choice.app.name} reads nothing with write=1; allowed with write=1: cold=0"
    if not values["image"]:
        return None
    if values["write"]:
        return f"{choice.app.name} cannot write files of the image; allowed with image=1: write=0"
    if values["kib"] > IMAGE_KIB or values["files"] != 1:
        return f"the image has one file of {IMAGE_KIB} KiB; allowed with image=1: kib up to {IMAGE_KIB}, files=1"
    return None


def _refuse_small(choice: Choice, _: int) -> str | None:
    values = choice.values
    if values["image"] and values["files"] > IMAGE_FILES:
        return f"the image has {IMAGE_FILES} small files; allowed with image=1: files up to {IMAGE_FILES}"
    if values["cold"] and not values["image"]:
        return "files that were just made are in memory; allowed with image=0: cold=0"
    return None


def _cold_image(choice: Choice) -> bool:
    """Return whether caches must be dropped below the image's files, which the program itself cannot do."""
    return bool(choice.values["image"] and choice.values["cold"])


def _bytes(choice: Choice) -> float:
    return float(choice.values["kib"] * KIB * choice.values["files"])


def _blocks(*, name: str, description: str, block: int) -> MiniApp:
    return MiniApp(
        name=name,
        description=description,
        rate="MB/s",
        timed="all calls of all ranks, and fsync where they write; files are open",
        parameters=(
            Parameter(name="block", meaning="bytes of a call", usual=block, low=512, high=1 << 26),
            Parameter(name="kib", meaning="size of a file in KiB", usual=16384, low=1, high=1 << 20, thin=1024),
            Parameter(name="files", meaning="of a rank", usual=1, low=1, high=64),
            _switch("image", "1: the file of the image, 0: files that each rank makes"),
            _switch("cold", "1: drop the files' pages from the cache first"),
            _switch("write", "1: write and fsync, 0: read"),
        ),
        ranks="any",
        refuse=_refuse_blocks,
        memory_bytes=lambda choice, _: _bytes(choice) * (1 + ORDER_BYTES / choice.values["block"]),
        operations=lambda choice, ranks: _bytes(choice) * ranks / 1e6,
        expected_s=lambda choice, ranks: _dropping_s(choice) + _bytes(choice) * ranks / BYTES_S,
        cold=_cold_image,
    )


def _dropping_s(choice: Choice) -> float:
    """Return about how much longer a launch takes whose programs and libraries are read from disk."""
    return COLD_S if _cold_image(choice) else 0.2


def _switch(name: str, meaning: str) -> Parameter:
    return Parameter(name=name, meaning=meaning, usual=0, low=0, high=1)


SEQUENTIAL: Final = _blocks(
    name="io-sequential", description="reading or writing files from beginning to end", block=1 << 20
)
RANDOM: Final = _blocks(
    name="io-random", description="reading or writing each block of files once, in random order", block=4096
)
METADATA: Final = MiniApp(
    name="io-metadata",
    description="making, looking up, reading and removing many small files",
    rate="files/s",
    timed="all files of all ranks: made, looked up, read and removed; those of the image only looked up and read",
    parameters=(
        Parameter(name="files", meaning="of a rank", usual=1000, low=1, high=100_000, thin=100),
        _switch("image", "1: the files of the image, 0: files that each rank makes"),
        _switch("cold", "1: nothing of them is read first; tare drops the machine's caches"),
    ),
    ranks="any",
    refuse=_refuse_small,
    memory_bytes=lambda choice, _: float(choice.values["files"] * (SMALL_BYTES + ORDER_BYTES)),
    operations=lambda choice, ranks: float(choice.values["files"] * ranks),
    expected_s=lambda choice, ranks: _dropping_s(choice) + FILE_S * choice.values["files"] * ranks,
    cold=_cold_image,
)

FILES: Final = (SEQUENTIAL, RANDOM, METADATA)
