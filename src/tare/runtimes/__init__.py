"""Runtimes: each makes and holds containers and enters them. One file a member, one entry in `RUNTIMES`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

from tare.node import Pod
from tare.runtimes.bare import Bare
from tare.runtimes.docker import Docker
from tare.runtimes.fake import Fake
from tare.runtimes.request import PodRequest

__all__ = ["RUNTIMES", "PodRequest", "Runtime"]


class Runtime(Protocol):
    """What every runtime offers. `probe` is read-only; `pod` undoes everything when it is left."""

    @property
    def name(self) -> str: ...
    @property
    def needs_image(self) -> bool: ...
    @property
    def needs_daemon(self) -> bool: ...

    def probe(self) -> str | None:
        """Return why the runtime cannot be used here, or None."""

    def pod(self, request: PodRequest) -> AbstractContextManager[Pod]:
        """Hold a pod on a node, without its network."""


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "bare": Bare(),
    "docker": Docker(),
    "fake": Fake(),
}
