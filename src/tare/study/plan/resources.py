"""Estimate what a plan uses: node-hours, and disk space at the peak. Pure; no result depends on it."""

from __future__ import annotations

from typing import Final

from tare.images.registry.reference import is_reference
from tare.model import Plan, Workload
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.runtime import Runtime
from tare.study.plan.cells import available

SECONDS_PER_HOUR: Final = 3600.0
IMAGE_BYTES: Final = 520_000_000
"""The root file system and the archive of one of tare's images, the largest that was built on Debian 12."""
PACKED_BYTES: Final = 180_000_000
"""The same image in the format of a runtime that does not start from its root file system."""
TRIAL_BYTES: Final = 2_000
"""A line of a trial, with its share of what trials have in common."""
SAMPLE_BYTES: Final = 8
USUAL_ITERATIONS: Final = 1000
"""The iterations of a kernel whose study gives none, as far as disk space is concerned."""


def node_hours(plan: Plan, takes_s: float) -> float:
    """Return the node-hours of a plan that takes so long: its nodes are allocated as long as it runs."""
    return takes_s * nodes_of(plan) / SECONDS_PER_HOUR


def nodes_of(plan: Plan) -> int:
    """Return the number of nodes that a plan's cells use at the same time."""
    return max((cell.placement.nodes for cell in available(plan)), default=0)


def peak_disk_bytes(plan: Plan) -> int:
    """Return the estimated disk space of a plan's images and results, in bytes."""
    cells, repeat = available(plan), plan.study.repetition
    images = {cell.environment.image for cell in cells if not is_reference(cell.environment.image)} - {""}
    packed = {
        (cell.environment.image, cell.environment.runtime)
        for cell in cells
        if cell.environment.image and _is_packed(RUNTIMES[cell.environment.runtime])
    }
    launches = repeat.rounds * repeat.blocks_per_round
    results = sum(TRIAL_BYTES + _samples_bytes(cell.workload) for cell in cells) * launches
    return len(images) * IMAGE_BYTES + len(packed) * PACKED_BYTES + results


def _is_packed(runtime: Runtime) -> bool:
    return bool(runtime.starts_from) or runtime.needs_daemon


def _samples_bytes(workload: Workload) -> int:
    return sum((kernel.iterations or USUAL_ITERATIONS) * SAMPLE_BYTES for kernel in workload.kernels)
