"""Faults on request: what a harness sees of a launch that goes wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from kernels.launching import argv_of, end_by_its_ranks
from tare.study import KNOWN
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


@pytest.mark.parametrize("kernel", KNOWN.kernels)
def test_wrong_data_is_noticed_and_ends_with_code_3_and_whole_output(launch, kernel):
    other = "barrier" if kernel != "barrier" else "latency"
    run = launch(f"{kernel}:iterations=3", f"{other}:iterations=3", env={"TARE_FAULT": f"corrupt:{kernel}"})
    assert run.code == 3
    struck, spared = run.of_type("kernel")
    assert (struck["verified"], spared["verified"]) == (False, True)
    assert struck["verify_errors"] > 0
    assert run.lines[-1]["type"] == "end"
    assert run.lines[-1]["exit"] == 3


@pytest.mark.parametrize(
    ("fault", "kernel", "code"), [("crash", "latency", 139), ("exit", "barrier", 7), ("exit", "spacing", 7)]
)
def test_a_rank_that_dies_leaves_no_end_line_and_a_code_that_is_not_0(launch, fault, kernel, code):
    run = launch(f"{kernel}:iterations=3", env={"TARE_FAULT": f"{fault}:{kernel}"})
    assert run.code == code
    assert run.of_type("end") == []


def test_a_rank_that_hangs_hangs_the_launch(build):
    program = build("openmpi") / "tare-kernels"
    argv = argv_of("openmpi", 2, {"TARE_FAULT": "hang:latency"}, program, "latency:iterations=3")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as job:
        wait_until(lambda: any(map(is_paused, psutil.Process(job.pid).children(recursive=True))), "a rank that hangs")
        assert job.poll() is None
        end_by_its_ranks(job)


def is_paused(process: psutil.Process) -> bool:
    """Tell whether a rank waits for nothing but a signal."""
    try:
        return process.name() == "tare-kernels" and "pause" in Path(f"/proc/{process.pid}/wchan").read_text()
    except (OSError, psutil.Error):
        return False  # it has just begun


@pytest.mark.parametrize("wish", ["", "corrupt:", "corrupt:bw", "melt:latency", ":" * 200])
def test_a_fault_that_is_not_for_this_kernel_does_nothing(launch, wish):
    run = launch("latency:iterations=3", env={"TARE_FAULT": wish})
    assert run.code == 0
    assert run.kernel["verified"] is True
