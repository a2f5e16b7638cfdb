"""Estimate how long kernels run, to show it to the user; no result depends on it.

The figures were chosen from two-node runs over veth: 10 us and 1.5 GB/s between two nodes.
"""

from __future__ import annotations

import math
from typing import Final

from tare.model import KernelSpec

MESSAGE_S: Final = 10e-6
BYTES_PER_S: Final = 1.5e9
SMALL_BYTES: Final = 8192
SWEEP_S: Final = 100e-6
TWO_READINGS: Final = frozenset({"barrier", "allreduce"})
"""Kernels that by default run in a loop and from start windows, which are twice as long as the operation in them."""
DEFAULT_ITERATIONS: Final = {"latency": (10000, 1000), "bw": (100, 20), "bibw": (100, 20), "spacing": (10000, 1000)}
DEFAULT_COLLECTIVE_ITERATIONS: Final = (1000, 100)


def kernel_s(spec: KernelSpec, ranks: int) -> float:
    """Return about how long one kernel runs, warm-up included."""
    size = spec.message_bytes if spec.message_bytes is not None else 8
    usual = DEFAULT_ITERATIONS.get(spec.kernel, DEFAULT_COLLECTIVE_ITERATIONS)[0 if size <= SMALL_BYTES else 1]
    passes = (spec.iterations or usual) + (usual // 10 if spec.warmup is None else spec.warmup)
    message = MESSAGE_S + size / BYTES_PER_S
    steps = math.ceil(math.log2(max(ranks, 2)))
    if spec.kernel in TWO_READINGS and spec.sync in (None, "none"):
        passes *= 3
    if spec.kernel == "spacing":
        return passes / (spec.rate_hz or 10_000.0)
    if spec.kernel == "halo":
        return passes * (SWEEP_S + 2 * message)
    if spec.kernel in ("bw", "bibw"):
        return passes * (2 * MESSAGE_S + (spec.window or 64) * size / BYTES_PER_S)
    if spec.kernel in ("alltoall", "alltoallv"):
        return passes * max(ranks - 1, 1) * message * 2
    if spec.kernel in ("latency", "allgather", "allreduce"):
        return passes * 2 * message * (1 if spec.kernel == "latency" else steps)
    return passes * 1.5 * message * steps
