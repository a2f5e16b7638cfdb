"""The image's libraries are others than the host's: C library, MPI, BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from tare.explain.cause import Change, Clue
from tare.explain.evidence import Evidence


class Image:
    """The program uses other libraries."""

    name = "image"
    words = "other libraries in the image"

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = (
            _libraries(side.ranks[0].libraries if side.ranks else ()) for side in (evidence.here, evidence.base)
        )
        differing = sorted(here ^ base)
        computing = evidence.info.message_bytes is None
        own, other = evidence.here.cell.environment.image, evidence.base.cell.environment.image
        if differing and here and base:
            yield Clue(text=f"loaded on one side only: {', '.join(differing[:4])}", weight=2.5 if computing else 1.0)
        elif own != other:
            yield Clue(text=f"its files are those of {own or 'the host'}, not of {other or 'the host'}", weight=0.5)
        else:
            return
        if computing and not evidence.more("TcpRetransSegs") and evidence.here.packets <= 1.05 * evidence.base.packets:
            yield Clue(text="the program computes, and its messages are as many as in the baseline", weight=0.5)

    def change(self, evidence: Evidence) -> Change | None:
        environment, base = evidence.here.cell.environment, evidence.base.cell.environment
        if environment.image and not base.image:
            control = replace(base, image=environment.image)
            return Change(words="the baseline with the image's files", environment=control, adds=True)
        preloaded = tuple(
            value for value in environment.env if not value.startswith(("LD_PRELOAD=", "LD_LIBRARY_PATH="))
        )
        if preloaded != environment.env:
            other = replace(environment, env=preloaded)
            return Change(words="the libraries of the image itself", environment=other)
        return None

    def remedy(self, evidence: Evidence) -> str:
        return "build the image with the libraries of the host (the same BLAS and MPI), or bind them into it"


def _libraries(files: tuple[str, ...]) -> set[str]:
    """Return the names of libraries with the versions that their files have."""
    return {PurePath(file).name for file in files}
