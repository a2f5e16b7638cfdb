"""What tools/programs brings is held to hashes, and goes where the adapters look for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tare.host import wheels
from tare.workloads.programs import PROGRAMS
from tare.workloads.programs.neuron import DRIVER, PLACE

ROOT = Path(__file__).parents[4]
TOOL = (ROOT / "tools" / "programs").read_text()


def pins(name: str) -> list[str]:
    text = (ROOT / "lock" / f"{name}.txt").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", ["imb", "hnn"])
def test_every_line_of_a_lock_has_a_version_a_hash_and_no_address(name: str) -> None:
    assert pins(name)
    for line in pins(name):
        assert re.fullmatch(r"[a-z0-9_-]+==[0-9.]+\s+--hash=sha256:[0-9a-f]{64}", line), line


def test_the_versions_are_those_whose_results_are_known() -> None:
    versions = dict(line.split()[0].split("==") for line in pins("hnn"))
    assert versions["hnn-core"] == "0.6.1"
    assert versions["neuron"] == "8.2.7"
    assert "mpi4py" in versions


def test_the_tool_puts_programs_where_they_are_looked_for() -> None:
    folder = re.search(r"^readonly FOLDER=(\S+)", TOOL, re.MULTILINE)
    assert folder
    assert PROGRAMS["IMB-MPI1"].places == (f"{folder[1]}/imb/bin",)
    assert PROGRAMS["hnn"].places == (f"{folder[1]}/hnn/bin",)
    assert f"{folder[1]}/hnn" == PLACE


def test_the_tool_links_imb_to_the_libraries_of_mpich5() -> None:
    assert f"readonly LIBRARIES={wheels.folder('mpich5')}/lib\n" in TOOL


def test_the_driver_that_the_tool_installs_is_there() -> None:
    driver = re.search(r"^readonly DRIVER=(\S+)", TOOL, re.MULTILINE)
    assert driver
    assert (ROOT / driver[1]).is_file()
    assert Path(driver[1]).name == DRIVER


def test_the_driver_ends_no_process() -> None:
    text = (ROOT / "src/tare/workloads/drivers" / DRIVER).read_text()
    assert not re.search(r"kill|terminate|MPIBackend\(|subprocess|psutil", text)
