"""What a made-up result is like: its metrics, its environments with their costs, and the options of the factory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tare.model import Environment, KernelSpec, MetricKind, Placement

SELF = "bare (A/A)"
MARGIN = 0.02
LIMIT = 0.05
MEAN_OF_TYPICAL = 1.03
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one metric looks like on the bare hosts; `weight` is how much of an environment's cost it feels."""

    key: str
    label: str
    kernel: KernelSpec
    base_s: float
    latency_weight: float
    bandwidth_weight: float
    kind: MetricKind = MetricKind.COST
    done_per_sample: int = 0
    statistic: str = "mean of max over ranks"
    columns: tuple[str, ...] = ("max_s", "mean_s")
    judged: bool = True


def _sizes(key: str, label: str, sizes: Sequence[int], start_s: float, per_byte_s: float) -> tuple[Shape, ...]:
    return tuple(
        Shape(
            key=f"{key}:{size}",
            label=f"{label} {_size(size)}",
            kernel=KernelSpec(kernel=key, message_bytes=size),
            base_s=start_s + size * per_byte_s,
            latency_weight=start_s / (start_s + size * per_byte_s),
            bandwidth_weight=size * per_byte_s / (start_s + size * per_byte_s),
        )
        for size in sizes
    )


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def _rate(key: str, label: str, size: int, rate: float) -> Shape:
    return Shape(
        key=f"{key}:{size}",
        label=f"{label} {_size(size)}",
        kernel=KernelSpec(kernel=key, message_bytes=size),
        base_s=64 * size / rate,
        latency_weight=0.0,
        bandwidth_weight=1.0,
        kind=MetricKind.RATE,
        done_per_sample=64 * size,
    )


QUICKSTART: tuple[Shape, ...] = (
    *_sizes("latency", "latency", (8, 65536), 8.2e-6, 0.45e-9),
    _rate("bw", "bw", 1 << 20, 3.1e9),
    Shape(
        key="barrier", label="barrier", kernel=KernelSpec(kernel="barrier"), base_s=9.6e-6,
        latency_weight=1.0, bandwidth_weight=0.0,
    ),
    *_sizes("alltoallv", "alltoallv", (65536,), 18e-6, 0.9e-9),
    *(
        Shape(
            key=f"spacing:8@10000.{side}", label=f"spacing 8 B {side}",
            kernel=KernelSpec(kernel="spacing", rate_hz=10000.0), base_s=base_s, latency_weight=weight,
            bandwidth_weight=0.0, statistic="p99 minus median gap",
            columns=("send_gap_s", "receive_gap_s"), judged=False,
        )
        for side, base_s, weight in (("send", 3.5e-6, 0.1), ("receive", 11e-6, 0.6))
    ),
)  # fmt: skip

SWEEP: tuple[Shape, ...] = (
    *_sizes("latency", "latency", tuple(4**k for k in range(11)), 8.2e-6, 0.45e-9),
    *(_rate("bw", "bw", 4**k, 3.1e9 * min(1.0, 4**k / 65536) ** 0.8) for k in range(3, 11)),
    *QUICKSTART[3:],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an environment adds to latency and to bandwidth-bound time, as fractions, and how noisy it is."""

    latency: float
    bandwidth: float
    noise: float = 0.012


ENVIRONMENTS: Mapping[str, tuple[Environment, Cost]] = {
    name: (Environment(name=name, runtime=runtime, network=network, image=image), Cost(latency=lat, bandwidth=band))
    for name, runtime, network, image, lat, band in (
        ("bare", "bare", "host", "", 0.0, 0.0),
        ("bare+image", "bare", "host", "debian12", 0.003, -0.004),
        ("bare+bridge", "bare", "bridge", "", 0.31, 0.26),
        ("docker+host", "docker", "host", "debian12", 0.006, 0.002),
        ("docker+bridge", "docker", "bridge", "debian12", 0.33, 0.27),
        ("docker+direct", "docker", "direct", "debian12", 0.004, 0.001),
        ("docker+macvlan", "docker", "macvlan", "debian12", 0.035, 0.015),
        ("docker+overlay", "docker", "overlay", "debian12", 0.59, 0.77),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to make: sizes, and which misfortunes to put in; `collapse` is an overhead that the overlay gets instead.

    With `failing` a third of the launches of docker+bridge failed.
    """

    shapes: tuple[Shape, ...] = QUICKSTART
    rounds: int = 10
    samples: int = 400
    trouble: bool = True
    emulated: bool = True
    placements: tuple[Placement, ...] = (Placement(),)
    seed: int = 7
    collapse: float = 0.0
    failing: bool = False


USUAL = Options()
