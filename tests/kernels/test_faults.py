"""Faults on request: what a harness sees of a launch that goes wrong."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

KERNELS = (
    "latency", "bw", "bibw", "sendrecv", "barrier", "alltoall", "alltoallv", "allgather", "allreduce", "halo",
    "spacing",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_wrong_data_is_noticed_and_ends_with_code_3_and_whole_output(launch, kernel):
    other = "barrier" if kernel != "barrier" else "latency"
    run = launch(f"{kernel}:iterations=3", f"{other}:iterations=3", env={"TARE_FAULT": f"corrupt:{kernel}"})
    assert run.code == 3
    struck, spared = run.of_type("kernel")
    assert struck["verified"] is False
    assert struck["verify_errors"] > 0
    assert spared["verified"] is True
    assert run.lines[-1]["type"] == "end"
    assert run.lines[-1]["exit"] == 3


@pytest.mark.parametrize("fault", ["crash", "exit"])
@pytest.mark.parametrize("kernel", ["latency", "barrier", "spacing"])
def test_a_rank_that_dies_leaves_no_end_line_and_a_code_that_is_not_0(launch, fault, kernel):
    run = launch(f"{kernel}:iterations=3", env={"TARE_FAULT": f"{fault}:{kernel}"})
    assert run.code == (7 if fault == "exit" else 139)
    assert run.of_type("end") == []


def test_a_rank_that_hangs_hangs_the_launch(launch):
    with pytest.raises(subprocess.TimeoutExpired):
        launch("latency:iterations=3", env={"TARE_FAULT": "hang:latency"}, timeout_s=3)


@pytest.mark.parametrize("wish", ["", "corrupt", "corrupt:", "corrupt:bw", "melt:latency", ":" * 200])
def test_a_fault_that_is_not_for_this_kernel_does_nothing(launch, wish):
    run = launch("latency:iterations=3", env={"TARE_FAULT": wish})
    assert run.code == 0
    assert run.kernel["verified"] is True
