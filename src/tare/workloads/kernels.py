"""Define `kernels`: tare's micro-benchmarks (kernels/), a list of them in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.analysis.stats import launch_statistics, p99_minus_median
from tare.model import KernelSpec, Metric, MetricInfo, MetricKind, Placement, Workload
from tare.model.text import bytes_label
from tare.workloads.gate import gate
from tare.workloads.kernels_time import TWO_READINGS, kernel_s
from tare.workloads.output import (
    LaunchTiming,
    OutputError,
    Parsed,
    Payload,
    about,
    decode,
    metric_of,
    number,
    records,
    timed,
)
from tare.workloads.plugin import WorkloadPlugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATES = frozenset({"bw", "bibw"})
SIZELESS = frozenset({"barrier"})
GAPS = {"send_gap_s": "send", "receive_gap_s": "receive"}
DEFAULT_SPACING_BYTES = 8
THIN_ITERATIONS = 20
THIN_WARMUP = 4
THIN_WINDOWS = 8
THIN_WINDOW = 8
ALONE = frozenset({"halo"})
"""The kernels that also run on one rank."""
SLOWEST = "mean of max over ranks"
BACK_TO_BACK = "mean over ranks, back to back"
"""The mean is used here: without synchronisation, the maxima over ranks of the iterations exceed the loop's time."""


class Kernels(WorkloadPlugin):
    """Run `tare-kernels` with the list of the study."""

    name = "kernels"
    timer = "CLOCK_MONOTONIC"
    synchronisation = "per kernel: barrier before each iteration, start windows, or none"
    reduction = "maximum over ranks of each iteration; of halo, the mean"

    def serves(self, workload: Workload) -> bool:
        return bool(workload.kernels)

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        return (str(prefix / "bin" / "tare-kernels"), *(spec.token for spec in workload.kernels))

    def takes_turns(self, workload: Workload) -> bool:
        return True

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        return tuple(info for spec in workload.kernels for info in _infos(spec, workload.name))

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        return gate(lambda: _parsed(workload, stdout))

    def refuse(self, workload: Workload, placement: Placement) -> str | None:
        paired = [spec.kernel for spec in workload.kernels if spec.kernel not in ALONE]
        if paired and placement.ranks < 2:
            return f"{paired[0]} needs at least 2 ranks, but this placement has {placement.ranks}"
        return None

    def thin(self, workload: Workload) -> Workload:
        least: dict[tuple[str, str | None], KernelSpec] = {}
        for spec in workload.kernels:
            known = least.setdefault((spec.kernel, spec.sync), spec)
            if _size(spec) < _size(known):
                least[spec.kernel, spec.sync] = spec
        return replace(workload, kernels=tuple(map(_thin, least.values())))

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        return sum(kernel_s(spec, placement.ranks) for spec in workload.kernels)


def _thin(spec: KernelSpec) -> KernelSpec:
    """Return a kernel with few iterations; those of bandwidths have a window of a few messages each.

    Without start windows: clocks of ranks that share a core take tens of seconds to synchronise.
    """
    most = THIN_WINDOWS if spec.kernel in RATES else THIN_ITERATIONS
    usual = THIN_WARMUP if spec.warmup is None else spec.warmup
    sync = "barrier" if spec.kernel in TWO_READINGS and spec.sync is None else spec.sync
    small = replace(spec, iterations=min(most, spec.iterations or most), warmup=min(usual, THIN_WARMUP), sync=sync)
    return replace(small, window=min(THIN_WINDOW, spec.window or THIN_WINDOW)) if spec.kernel in RATES else small


def _parsed(workload: Workload, stdout: str) -> Parsed:
    all_records = records(stdout)
    kernels = [record for record in all_records if record["type"] == "kernel"]
    if len(kernels) != len(workload.kernels):
        raise OutputError(f"only {len(kernels)} of {len(workload.kernels)} kernels printed a result")
    metrics: list[Metric] = []
    samples: dict[str, NDArray[np.float64]] = {}
    iterations: dict[str, NDArray[np.float64]] = {}
    spans: dict[str, tuple[float, float]] = {}
    for spec, record in zip(workload.kernels, kernels, strict=True):
        if record["kernel"] != spec.kernel:
            raise OutputError(f"the output has a result of {record['kernel']} in place of {spec.kernel}")
        columns = decode(record["columns"], record["data"])
        made = _spacing(spec, columns) if spec.kernel == "spacing" else [_metric(spec, record, columns)]
        metrics += made
        if spec.kernel != "spacing":
            iterations[made[0].key] = columns["mean_s" if made[0].statistic == BACK_TO_BACK else "max_s"]
        begin_s, end_s = map(number, record["span_s"])
        spans.update(dict.fromkeys((metric.key for metric in made), (begin_s, end_s)))
        samples.update({f"{_key(spec)}/{name}": values for name, values in columns.items()})
    return Parsed(
        metrics=tuple(metrics),
        **about(all_records),
        payload=_payload(kernels),
        measured_s=sum(number(record["elapsed_s"]) for record in kernels),
        wrong=tuple(r["spec"] for r in kernels if not r["verified"]),
        samples=samples,
        iterations=iterations,
        spans_s=spans,
    )


def _key(spec: KernelSpec) -> str:
    size = "" if spec.kernel in SIZELESS else f":{_size(spec)}"
    rate = f"@{spec.rate_hz:g}" if spec.rate_hz is not None else ""
    return f"{spec.kernel}{size}{rate}"


def _size(spec: KernelSpec) -> int:
    return DEFAULT_SPACING_BYTES if spec.message_bytes is None else spec.message_bytes


def _label(spec: KernelSpec) -> str:
    return spec.kernel if spec.kernel in SIZELESS else f"{spec.kernel} {bytes_label(_size(spec))}"


def _infos(spec: KernelSpec, group: str) -> list[MetricInfo]:
    if spec.kernel == "spacing":
        return [_gap(spec, side, group) for side in GAPS.values()]
    window = (spec.window or 64) * (2 if spec.kernel == "bibw" else 1)
    return [
        MetricInfo(
            key=_key(spec),
            label=_label(spec),
            kind=MetricKind.RATE if spec.kernel in RATES else MetricKind.COST,
            statistic=BACK_TO_BACK if _is_back_to_back(spec.kernel, spec.sync or "none") else SLOWEST,
            group=group,
            message_bytes=None if spec.kernel in SIZELESS else _size(spec),
            done_per_sample=window * _size(spec) if spec.kernel in RATES else 0,
        )
    ]


def _gap(spec: KernelSpec, side: str, group: str = "") -> MetricInfo:
    return MetricInfo(
        key=f"{_key(spec)}.{side}",
        label=f"{_label(spec)} {side}",
        kind=MetricKind.COST,
        statistic="p99 minus median gap",
        group=group,
        message_bytes=_size(spec),
        judged=False,
    )


def _is_back_to_back(kernel: str, sync: str) -> bool:
    """Return whether every rank's samples come from a loop without synchronisation."""
    return kernel in ALONE and sync == "none"


def _metric(spec: KernelSpec, record: Mapping[str, Any], columns: Mapping[str, NDArray[np.float64]]) -> Metric:
    back_to_back = _is_back_to_back(spec.kernel, record["sync"])
    samples = columns["mean_s" if back_to_back else "max_s"]
    statistics = launch_statistics(samples)
    means = [number(v) for v in record["rank_mean_s"] if v is not None]
    loop = [number(v) for v in record.get("rank_loop_s") or ()]
    (info,) = _infos(spec, "")
    return metric_of(
        info,
        timed(statistics.mean_s, _label(spec)),
        statistic=BACK_TO_BACK if back_to_back else SLOWEST,
        median_s=statistics.median_s,
        p99_s=statistics.p99_s,
        rank_average_s=sum(means) / len(means) if means else statistics.mean_s,
        samples=len(samples),
        late=int(record.get("late", 0)),
        done_per_sample=int(record.get("bytes_per_sample", 0)) if spec.kernel in RATES else 0,
        message_bytes=record.get("message_bytes"),
        loop_s=sum(loop) / len(loop) if loop else None,
    )


def _spacing(spec: KernelSpec, columns: Mapping[str, NDArray[np.float64]]) -> list[Metric]:
    metrics = []
    for column, side in GAPS.items():
        gaps = columns[column]
        gap, statistics = _gap(spec, side), launch_statistics(gaps)
        typical = {"median_s": statistics.median_s, "p99_s": statistics.p99_s}
        metrics.append(metric_of(gap, p99_minus_median(gaps), **typical, rank_average_s=0.0, samples=len(gaps)))
    return metrics


def _payload(kernels: list[dict[str, Any]]) -> Payload:
    parts = [record["payload"] for record in kernels]
    return Payload(
        low_bytes=sum(int(p["bytes_min"]) for p in parts),
        high_bytes=sum(int(p["bytes_max"]) for p in parts),
        messages=sum(int(p["messages"]) for p in parts),
        known=True,
    )
