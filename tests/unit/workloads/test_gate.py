"""Whatever a program prints, its launch fails with a reason at worst; what is accepted can be calculated with."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from tare.model import Caches, KernelSpec, Workload
from tare.workloads import WORKLOADS, Began
from tare.workloads.output import OutputError, Parsed

APP = Workload(name="app", command=("/home/u/app",))
START = {"type": "start", "protocol": 1, "ranks": 1, "mpi_library": "Open MPI 4.1.4", "init_s": 0.1}
RANK = {"type": "rank", "rank": 0, "hostname": "n0", "boot_id": "b0", "pid": 7, "cpus": "0-1", "namespaces": {"net": 1}}
WALL = {"type": "wall", "wall_s": 2.5}
END = {"type": "end", "exit": 0}
LATENCY = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),))
STARTUP = Workload(name="start", startup=Caches.WARM)


def text(*records: dict[str, Any]) -> str:
    return "".join(f"@tare {json.dumps(record)}\n" for record in records)


def command(start: dict[str, Any] = START, rank: dict[str, Any] = RANK, wall: dict[str, Any] = WALL) -> Parsed:
    return WORKLOADS["command"].parse(APP, text(start, rank, wall, END))


def column(*values: float) -> str:
    return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()


def latency(**changed: Any) -> Parsed:
    record = {
        "type": "kernel", "kernel": "latency", "spec": "latency:bytes=8", "verified": True, "elapsed_s": 0.1,
        "span_s": [5.0, 5.1],
        "columns": ["max_s", "mean_s"], "data": [column(1e-6, 2e-6), column(1e-6, 2e-6)], "message_bytes": 8,
        "rank_mean_s": [1.5e-6], "sync": "none", "late": 0, "payload": {"bytes_min": 0, "bytes_max": 0, "messages": 0},
    } | changed  # fmt: skip
    return WORKLOADS["kernels"].parse(LATENCY, text(START, RANK, record, END))


def test_a_whole_output_passes() -> None:
    assert command().metrics[0].value == 2.5
    assert latency().metrics[0].value == pytest.approx(1.5e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, 1e300, 1e-300, 10**400, "nan", True, None, [1]])
def test_a_wall_time_that_is_none_fails_the_launch_with_what_it_is(value: Any) -> None:
    with pytest.raises(OutputError):
        command(wall=WALL | {"wall_s": value})


def test_the_reason_says_which_figure_and_what_it_is() -> None:
    with pytest.raises(OutputError, match="wall time is nan s, which is impossible"):
        command(wall=WALL | {"wall_s": float("nan")})
    with pytest.raises(OutputError, match="wall time is -1 s, which is impossible"):
        command(wall=WALL | {"wall_s": -1})


@pytest.mark.parametrize("value", [float("nan"), -0.5, 1e300, 10**400])
def test_the_time_of_mpi_init_must_be_a_time(value: float) -> None:
    with pytest.raises(OutputError):
        command(start=START | {"init_s": value})


def test_a_record_that_is_nested_too_deeply_fails_the_launch() -> None:
    deep = "@tare " + "[" * 100_000 + "\n"
    with pytest.raises(OutputError, match="record 1 is broken"):
        WORKLOADS["command"].parse(APP, deep)


@pytest.mark.parametrize("changed", [{"ranks": 1e400}, {"ranks": 10**30}, {"mpi_library": "x" * 1_000_000}])
def test_a_start_record_with_hostile_values_fails_the_launch(changed: dict[str, Any]) -> None:
    with pytest.raises(OutputError):
        command(start=START | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"cpus": "0-99999999999"},
        {"cpus": "0-" + "9" * 5000},
        {"pid": 1e400},
        {"pid": 10**400},
        {"namespaces": {"net": 1e400}},
        {"namespaces": {"net": 10**400}},
        {"namespaces": [1]},
        {"shm_device": {"a": 1}},
        {"shm_device": 10**400},
        {"shared_memory_ranks": ["x"]},
        {"shared_memory_ranks": [10**400]},
        {"hostname": "n" * 1_000_000},
    ],
)
def test_a_rank_record_with_hostile_values_fails_the_launch(changed: dict[str, Any]) -> None:
    with pytest.raises(OutputError):
        command(rank=RANK | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"data": [column(1e-6, float("nan")), column(1e-6, 2e-6)]},
        {"data": [column(1e-6, 2e-6), column(1e-6, float("inf"))]},
        {"data": [column(-1e-6, -2e-6), column(1e-6, 2e-6)]},
        {"data": [column(0, 0), column(0, 0)]},
        {"data": [column(1e308, 1e308), column(1e308, 1e308)]},
        {"columns": ["max_s", "../../etc"]},
        {"columns": ["max_s", "a b"]},
        {"columns": ["max_s", "x" * 300]},
        {"late": 1e400},
        {"elapsed_s": float("inf")},
        {"elapsed_s": 10**400},
        {"span_s": [1.0]},
        {"span_s": ["now", "then"]},
        {"span_s": [10**400, 1.0]},
        {"message_bytes": "eight"},
        {"message_bytes": 8.0},
        {"message_bytes": True},
        {"rank_mean_s": [1e308, 1e308]},
        {"payload": {"bytes_min": 1e400, "bytes_max": 0, "messages": 0}},
        {"spec": ["x"], "verified": False},
    ],
)
def test_a_kernel_record_with_hostile_values_fails_the_launch(changed: dict[str, Any]) -> None:
    with pytest.raises(OutputError):
        latency(**changed)


def test_more_samples_than_any_launch_has_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.workloads.gate.MOST_SAMPLES", 3)
    with pytest.raises(OutputError, match="4 samples; at most 3 are stored"):
        latency()


def test_moments_of_a_start_up_that_cannot_be_fail_the_launch() -> None:
    told = {
        "type": "startup", "verified": True, "modules": 1, "wrong_modules": 0, "rank_main_s": [10.1],
        "rank_ready_s": [10.2], "rank_init_s": [0.1], "rank_modules_s": [0.01],
    }  # fmt: skip
    began = Began(launched_s=10.0, ended_s=11.0, pods_s=0.5)
    assert WORKLOADS["startup"].parse(STARTUP, text(START, RANK, told, END), began).metrics
    for changed in ({"rank_modules_s": [float("nan")]}, {"rank_modules_s": [-1]}, {"rank_init_s": [10**400]}):
        with pytest.raises(OutputError):
            WORKLOADS["startup"].parse(STARTUP, text(START, RANK, told | changed, END), began)


def test_what_a_program_says_reaches_the_reason_without_its_escapes() -> None:
    with pytest.raises(OutputError) as caught:
        command(start=START | {"mpi_library": "Open MPI\x1b[2J"})
    assert "\x1b" not in str(caught.value)
    iperf3 = Workload(name="i", program="iperf3")
    said = json.dumps({"error": "\x1b]0;owned\x07 \u202egnorw"})
    with pytest.raises(OutputError) as caught:
        WORKLOADS["program"].parse(iperf3, text(START, RANK, WALL) + f"{said}\n" + text(END))
    assert r"\x1b]0;owned\x07 \u202egnorw" in str(caught.value)


def test_a_program_that_finds_its_own_results_wrong_is_told_so_even_without_a_figure() -> None:
    lines = ["version=3.1"]
    tests = (
        "Spectral Convergence Tests::Result",
        "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Result",
        "Iteration Count Information::Result",
        "Reproducibility Information::Result",
    )
    lines += [f"{test}={'FAILED' if 'Spectral' in test else 'PASSED'}" for test in tests]
    lines += ["Final Summary::HPCG result is=INVALID."]
    parsed = WORKLOADS["program"].parse(
        Workload(name="h", program="hpcg"), text(START, RANK, WALL) + "\n".join(lines) + "\n" + text(END)
    )
    assert any("the result of the spectral convergence test is FAILED" in wrong for wrong in parsed.wrong)


def test_the_mounts_of_a_rank_are_a_text_of_several_lines() -> None:
    mounts = "rw 254:0 /\nro 0:25 /a\n" * 500
    (place,) = command(rank=RANK | {"rights": {"mounts": mounts}}).ranks
    assert place.rights["mounts"] == mounts
