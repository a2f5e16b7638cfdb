"""`apptainer-sif`: Apptainer from a SIF, the single compressed file in which its users distribute images.

The container is that of `apptainer`. Its root directory is a squashfs, which is mounted at each start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.runtimes.apptainer import Apptainer
from tare.runtimes.containers.request import PodRequest
from tare.system.packages import install
from tare.system.process import find
from tare.system.user_namespace import is_real_root

LOOP: Final = Path("/dev/loop-control")


class ApptainerSif(Apptainer):
    """Run in containers of Apptainer that start from a SIF."""

    name = "apptainer-sif"
    needs_root = True
    starts_from = "sif"

    def probe_pack(self) -> str | None:
        """Return why no SIF can be packed and used here, or None."""
        if reason := super().probe():
            return reason
        if find("mksquashfs") is None:
            return f"mksquashfs, which packs a SIF, is not installed: {install('squashfs-tools')}"
        return None

    def probe(self) -> str | None:
        if reason := self.probe_pack():
            return reason
        if not is_real_root():
            return "mounting a SIF needs root: as an ordinary user use apptainer, which needs no SIF"
        if not LOOP.exists():
            return f"a SIF is mounted through a loop device, but {LOOP} does not exist: modprobe loop"
        return None

    def probe_machine(self) -> str | None:
        reason = self.probe()
        if reason and not is_real_root():
            return self.probe_pack() or (
                "mounting a SIF needs root: as an ordinary user use apptainer-sif-setuid, apptainer-sif-squashfuse or "
                "apptainer-sif-extracted"
            )
        return reason

    def image(self, request: PodRequest) -> Path:
        if request.packed is None:
            raise RefusedError("a container of apptainer-sif needs a SIF")
        return request.packed
