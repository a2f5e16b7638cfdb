"""The image: its libraries are others than the host's (C library, MPI, BLAS), and a start has to enter it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import ALWAYS


class ImageCause:
    """The program uses other libraries; before it starts, the image's files become its root."""

    name = "image"
    words = "the image's files"
    takes = ALWAYS

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = (
            _libraries(side.ranks[0].libraries if side.ranks else ()) for side in (evidence.here, evidence.base)
        )
        differing = sorted(here ^ base)
        computing = evidence.info.message_bytes is None
        own, other = evidence.here.environment.image, evidence.base.environment.image
        if evidence.here.cell.workload.startup is not None:
            if own and not other:
                yield Clue(text="the metric is a step of the start-up, which enters an image only here", weight=2.0)
            return
        if differing and here and base:
            yield Clue(text=f"loaded on one side only: {', '.join(differing[:4])}", weight=2.5 if computing else 1.0)
        elif own != other:
            yield Clue(text=f"its files are those of {own or 'the host'}, not of {other or 'the host'}", weight=0.5)
        else:
            return
        if computing and not evidence.more("TcpRetransSegs") and evidence.here.packets <= 1.05 * evidence.base.packets:
            yield Clue(text="the program computes, and its messages are as many as in the baseline", weight=0.5)

    def change(self, evidence: Evidence) -> Change | None:
        environment, base = evidence.here.environment, evidence.base.environment
        if environment.image and not base.image:
            control = replace(base, image=environment.image)
            if replace(control, name=environment.name) == environment:  # nothing else differs
                return changed(evidence, "the same without an image", image=base.image)
            return Change(words="the baseline with the image's files", environment=control, adds=True)
        preloaded = tuple(
            value for value in environment.env if not value.startswith(("LD_PRELOAD=", "LD_LIBRARY_PATH="))
        )
        return (
            changed(evidence, "the libraries of the image itself", env=preloaded)
            if preloaded != environment.env
            else None
        )

    def remedy(self, evidence: Evidence) -> str:
        if evidence.here.cell.workload.startup is not None:
            return "one start for many launches (launch: daemon), or the image unpacked on a disk of the node"
        return "build the image with the libraries of the host (the same BLAS and MPI), or bind them into it"


def _libraries(files: tuple[str, ...]) -> set[str]:
    """Return the names of libraries with the versions that their files have."""
    return {PurePath(file).name for file in files}
