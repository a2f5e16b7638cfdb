"""What launches say is read whole or not at all, and becomes metrics in seconds."""

from __future__ import annotations

import base64
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.model import KernelSpec, Metric, MetricKind, Placement, Workload
from tare.mpi.fake import PROGRAM
from tare.system.namespaces import plain_python
from tare.workloads import WORKLOADS
from tare.workloads.output import OutputError, Parsed, cpu_list, decode, ranks_of, records
from unit.launch_records import END, RANK, START, WALL, text

KERNELS = (
    KernelSpec(kernel="latency", message_bytes=8),
    KernelSpec(kernel="bw", message_bytes=1 << 20),
    KernelSpec(kernel="bibw", message_bytes=1 << 16, window=32),
    KernelSpec(kernel="barrier"),
    KernelSpec(kernel="spacing", message_bytes=64, rate_hz=10_000.0),
)
MICRO = Workload(name="micro", kernels=KERNELS)
APP = Workload(name="app", command=("/home/u/app",))


@cache
def said() -> str:
    """Return what a whole launch says; the fake program speaks as the kernels do (docs/kernels.md)."""
    argv = (
        plain_python(), "-IS", str(PROGRAM), "--factor", "1", "--hosts", "n0,n1", "--ranks-per-node", "2",
        *WORKLOADS["kernels"].argv(MICRO, Path("/opt/tare")),
    )  # fmt: skip
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={}).stdout


def parse(text: str) -> Parsed:
    return WORKLOADS["kernels"].parse(MICRO, text)


def changed(kind: str, index: int = 0, **values: Any) -> str:
    """Return a launch's output with some values of its index-th record of a kind replaced (None takes them away)."""
    lines = said().splitlines()
    at = [i for i, line in enumerate(lines) if f'"type": "{kind}"' in line][index]
    record = json.loads(lines[at].removeprefix("@tare "))
    for key, value in values.items():
        if value is None:
            del record[key]
        else:
            record[key] = value
    lines[at] = f"@tare {json.dumps(record)}"
    return "\n".join(lines) + "\n"


def wall(**values: Any) -> str:
    return text(START, RANK, WALL | values, END)


def test_a_whole_launch_gives_the_announced_metrics_in_seconds_with_every_sample() -> None:
    parsed = parse(said())
    announced = WORKLOADS["kernels"].metrics(MICRO, Placement(ranks_per_node=2))
    assert [metric.key for metric in parsed.metrics] == [info.key for info in announced]
    assert [metric.label for metric in parsed.metrics] == [info.label for info in announced]
    assert [metric.kind for metric in parsed.metrics] == [info.kind for info in announced]
    assert parsed.wrong == ()
    by_key = {metric.key: metric for metric in parsed.metrics}
    latency, bw = by_key["latency:8"], by_key["bw:1048576"]
    assert latency.value == pytest.approx(2e-6, rel=0.05)
    assert bw.value == pytest.approx(2e-6 + 2**20 * 1e-9, rel=0.05)
    assert (latency.kind, bw.kind) == (MetricKind.COST, MetricKind.RATE)
    assert (latency.done_per_sample, bw.done_per_sample) == (0, 64 << 20)
    samples = parsed.samples["latency:8/max_s"]
    assert len(samples) == 50
    assert parsed.metrics[0].value == pytest.approx(float(np.mean(samples)))
    assert parsed.metrics[0].samples == 50


def test_spacing_is_the_distance_of_p99_from_the_median_on_either_side_without_a_verdict() -> None:
    parsed = parse(said())
    sides = {m.key.rsplit(".", 1)[1]: m for m in parsed.metrics if m.key.startswith("spacing")}
    assert set(sides) == {"send", "receive"}
    assert sides["send"].value == pytest.approx(sides["send"].p99_s - sides["send"].median_s, rel=0.2)
    assert sides["send"].statistic == "p99 minus median gap"
    infos = WORKLOADS["kernels"].metrics(MICRO, Placement())
    assert [info.key for info in infos if not info.judged] == ["spacing:64@10000.send", "spacing:64@10000.receive"]
    assert [metric.judged for metric in parsed.metrics] == [info.judged for info in infos]


def test_ranks_come_in_order_with_where_they_were() -> None:
    ranks = parse(said()).ranks
    assert [(place.rank, place.host, place.cpus) for place in ranks] == [
        (0, "fake-0/n0", (0,)), (1, "fake-0/n0", (1,)), (2, "fake-1/n1", (2,)), (3, "fake-1/n1", (3,)),
    ]  # fmt: skip


def test_the_payload_is_summed_wrong_data_named_and_other_output_ignored() -> None:
    noisy = said().replace("@tare ", "some library says hello: @tare ").replace("\n", "\nwarning: nothing\n")
    assert parse(noisy).metrics == parse(said()).metrics
    text = changed("kernel", 0, payload={"bytes_min": 100, "bytes_max": 150, "messages": 7})
    payload = parse(text).payload
    assert (payload.low_bytes, payload.high_bytes, payload.messages, payload.known) == (100, 150, 7, True)
    assert parse(changed("kernel", 1, verified=False)).wrong == ("bw:bytes=1048576",)


def test_output_that_is_cut_off_anywhere_or_around_the_end_of_any_line_is_never_a_result() -> None:
    whole = said().rstrip("\n")
    ends = [i for i, character in enumerate(whole) if character == "\n"]
    around = {max(0, end + shift) for end in [*ends, len(whole)] for shift in (-2, -1, 0, 1, 2, 8)}
    for cut in sorted(around | {*range(0, len(whole), 37)}):
        if cut < len(whole):
            with pytest.raises(OutputError):
                parse(whole[:cut])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_line_that_is_lost_is_never_a_result(data: st.DataObject) -> None:
    lines = said().splitlines()
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    with pytest.raises(OutputError):
        parse("\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_output_is_refused_or_read_but_nothing_else_is_raised(data: st.DataObject) -> None:
    text = said()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.characters(codec="utf-8")) + text[at + data.draw(st.integers(0, 3)) :]
    try:
        found = len(parse(damaged).metrics)
    except OutputError:
        return
    assert found == 6


@pytest.mark.parametrize(
    ("kind", "index", "key"),
    [
        *(("kernel", 2, key) for key in (
            "columns", "data", "kernel", "rank_mean_s", "payload", "elapsed_s", "span_s", "verified",
        )),
        *(("rank", 1, key) for key in ("rank", "hostname", "boot_id", "pid", "namespaces")),
    ],
)  # fmt: skip
def test_a_record_without_one_of_its_parts_is_refused(kind: str, index: int, key: str) -> None:
    with pytest.raises(OutputError):
        parse(changed(kind, index, **{key: None}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"columns": ["max_s", "mean_s"]}, "protocol"),
        ({"data": ["not base64!"]}, "protocol"),
        ({"data": [base64.b64encode(b"seven b").decode()]}, "protocol"),
        ({"data": [""]}, "protocol"),
        ({"kernel": "allreduce"}, "a result of allreduce in place of latency"),
    ],
)
def test_samples_that_cannot_be_samples_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(OutputError, match=words):
        parse(changed("kernel", 0, **values))


def test_ranks_that_are_told_twice_or_not_at_all_are_refused() -> None:
    with pytest.raises(OutputError, match=r"ranks \[0, 1, 2, 2\]"):
        parse(changed("rank", 3, rank=2))
    with pytest.raises(OutputError, match="4 ranks reported where they ran, of 5"):
        parse(changed("start", ranks=5))
    with pytest.raises(OutputError, match="0 ranks reported where they ran, of 2"):
        ranks_of([{"type": "start", "ranks": 2}])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "wrote no record"),
        ("no record of ours\n", "wrote no record"),
        ('@tare {"type": "end"}\n', "not a start of protocol 1"),
        ('@tare {"type": "start", "protocol": 2}\n@tare {"type": "end"}\n', "not a start of protocol 1"),
        ('@tare {"type": "start", "protocol": 1}\n', "end record is missing"),
        ('@tare {"type": "start", "protocol": 1}\n@tare {"type": \n', "record 2 is broken"),
        ("@tare [1, 2]\n", "record 1 was not written by tare"),
    ],
)
def test_the_reason_names_the_record(text: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        records(text)


@given(st.sets(st.integers(0, 4095)))
def test_a_linux_core_list_is_read_as_it_is_written(cores: set[int]) -> None:
    assert cpu_list(_linux_list(cores)) == cores
    assert cpu_list(",".join(map(str, sorted(cores)))) == cores


def _linux_list(cores: set[int]) -> str:
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in ranges)


@pytest.mark.parametrize("text", ["x", "-3", "1-x", "2..4"])
def test_what_is_no_core_list_is_an_error_and_not_an_empty_set(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        cpu_list(text)


@given(st.lists(st.floats(width=64, allow_nan=False), max_size=50))
def test_a_column_comes_back_bit_by_bit(values: list[float]) -> None:
    text = base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()
    (column,) = decode(["max_s"], [text]).values()
    assert column.tobytes() == np.array(values, dtype="<f8").tobytes()


def test_keys_differ_by_size_and_rate_and_bidirectional_bandwidth_counts_both_ways() -> None:
    specs = (
        KernelSpec(kernel="latency", message_bytes=8), KernelSpec(kernel="latency", message_bytes=16),
        KernelSpec(kernel="spacing", rate_hz=1e3), KernelSpec(kernel="spacing", rate_hz=1e4),
    )  # fmt: skip
    infos = WORKLOADS["kernels"].metrics(Workload(name="w", kernels=specs), Placement())
    assert [info.key for info in infos] == [
        "latency:8", "latency:16",
        "spacing:8@1000.send", "spacing:8@1000.receive", "spacing:8@10000.send", "spacing:8@10000.receive",
    ]  # fmt: skip
    bw, bibw = (
        WORKLOADS["kernels"].metrics(
            Workload(name="w", kernels=(KernelSpec(kernel=k, message_bytes=1024),)), Placement()
        )
        for k in ("bw", "bibw")
    )
    assert (bw[0].done_per_sample, bibw[0].done_per_sample) == (64 * 1024, 128 * 1024)


def test_a_program_of_the_users_is_started_as_given_and_has_a_wall_time_if_it_ends_whole() -> None:
    plugin = WORKLOADS["command"]
    assert plugin.argv(APP, Path("/p")) == ("/home/u/app",)
    assert plugin.environment(APP, Path("/p")) == {"LD_PRELOAD": "/p/lib/libtare_wall.so"}
    parsed = plugin.parse(APP, wall())
    assert [(metric.key, metric.value, metric.kind) for metric in parsed.metrics] == [("wall", 2.5, MetricKind.COST)]
    assert (parsed.init_s, parsed.measured_s, parsed.payload.known) == (0.1, 2.5, False)
    assert parsed.ranks[0].cpus == (0, 1)
    with pytest.raises(OutputError, match="without MPI_Finalize"):
        plugin.parse(APP, text(START, RANK, END))


def barrier_of(parsed: Parsed) -> Metric:
    return next(metric for metric in parsed.metrics if metric.key == "barrier")


def test_a_collective_has_a_loop_reading_and_a_loop_without_synchronisation_the_mean_over_ranks() -> None:
    text = changed("kernel", 3, sync="window", rank_loop_s=[4e-6, 5e-6, 5e-6, 6e-6])
    metric = barrier_of(parse(text))
    assert metric.loop_s == pytest.approx(5e-6)
    assert metric.value == barrier_of(parse(said())).value
    assert barrier_of(parse(said())).loop_s is None
    halo = Workload(name="halo", kernels=(KernelSpec(kernel="halo", message_bytes=8),))
    encoded = [base64.b64encode(np.array(column).tobytes()).decode() for column in ([3e-6, 3e-6], [2e-6, 2e-6])]
    record = json.loads(said().splitlines()[5].removeprefix("@tare "))
    record |= {"kernel": "halo", "columns": ["max_s", "mean_s"], "data": encoded, "sync": "none"}
    lines = [*said().splitlines()[:5], f"@tare {json.dumps(record)}", said().splitlines()[-1]]
    (metric,) = WORKLOADS["kernels"].parse(halo, "\n".join(lines) + "\n").metrics
    (info,) = WORKLOADS["kernels"].metrics(halo, Placement())
    assert metric.value == pytest.approx(2e-6)
    assert metric.statistic == info.statistic == "mean over ranks, back to back"
