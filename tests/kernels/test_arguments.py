"""The command line: what is refused, and how; what Python knows of the kernels is what the program itself says."""

from __future__ import annotations

import re

import pytest

from kernels.builds import SOURCE, check
from kernels.launching import ticking
from tare.study import KNOWN
from tare.workloads.catalogue import BARRIER, READINGS
from tare.workloads.catalogue import KERNELS as DESCRIBED
from tare.workloads.kernels import ALONE

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


@pytest.mark.parametrize(
    ("arguments", "bad", "allowed"),
    [
        ((), "no kernel given", "latency, bw, bibw"),
        (("latncy",), "'latncy'", "latency, bw, bibw"),
        (("--fast",), "'--fast'", "--no-samples"),
        (("--order=0,0", "halo", "halo"), "kernel 0 twice", "each once"),
        (("--order=0", "halo", "halo"), "names 1 of 2 kernels", "each once"),
        (("--order=0,1,0", "halo", "halo"), "more than the 2 kernels", "given"),
        (("--order=0,2", "halo", "halo"), "--order=2", "from 0 to 1"),
        (("--order=,0", "halo"), "--order=", "from 0 to 0"),
        (("--order=", "halo"), "--order=", "from 0 to 0"),
        (("latency:size=8",), "'size'", "bytes, iterations, warmup, sync, skew"),
        (("barrier:bytes=8",), "'bytes'", "iterations, warmup, sync"),
        (("latency:bytes=-1",), "bytes=-1", "from 0 to 2147483647"),
        (("latency:bytes=1k",), "bytes=1k", "from 0 to 2147483647"),
        (("latency:bytes=2147483648",), "bytes=2147483648", "from 0 to 2147483647"),
        (("latency:bytes=",), "bytes=", "from 0 to 2147483647"),
        (("latency:bytes",), "'bytes'", "key=value"),
        (("latency:",), "''", "key=value"),
        (("latency:bytes=8,bytes=9",), "'bytes'", "once"),
        (("latency:iterations=0",), "iterations=0", "from 1 to"),
        (("latency:sync=maybe",), "sync=maybe", "none, barrier, window"),
        (("allreduce:bytes=6",), "bytes=6", "a multiple of 4"),
        (("halo:bytes=12",), "bytes=12", "a multiple of 8"),
        (("halo:bytes=0",), "bytes=0", "from 8 to"),
        (("halo:skew=8",), "'skew'", "bytes, iterations, warmup, sync"),
        (("bw:skew=4096",), "skew=4096", "from 0 to 4095"),
        (("bw:window=0",), "window=0", "from 1 to 65536"),
        (("spacing:rate=nan",), "rate=nan", "above 0"),
        (("spacing:warmup=0",), "warmup=0", "from 1 to"),
    ],
)
def test_a_bad_argument_ends_with_code_2_and_one_sentence(alone, arguments, bad, allowed):
    run = alone(*arguments)
    assert run.code == 2
    assert run.lines == []
    (sentence,) = run.complaints
    assert bad in sentence
    assert allowed in sentence
    assert "MPI_ABORT" not in run.stderr


def test_a_bad_argument_is_reported_once_for_all_ranks_and_a_good_one_before_it_is_not_run(launch):
    run = launch("latency:iterations=2", "alltoall:bytes=2147483647")
    assert run.code == 2
    assert run.lines == []
    (sentence,) = run.complaints
    assert "bytes=2147483647" in sentence
    assert "up to 1073741823" in sentence
    assert "MPI_ABORT" not in run.stderr


@pytest.mark.parametrize("kernel", ["latency", "bw", "bibw", "spacing"])
def test_one_rank_is_refused_where_two_are_needed(alone, kernel):
    run = alone(kernel)
    assert run.code == 2
    assert "needs at least 2 ranks" in run.complaints[0]


def test_ranks_with_different_arguments_are_refused_and_do_not_hang(launch, build):
    program = str(build("openmpi") / "tare-kernels")
    run = launch("latency:iterations=2", ":", "-n", "1", program, "barrier:iterations=2", ranks=1)
    assert run.code == 2
    assert "different arguments" in run.complaints[0]


def test_clocks_that_disagree_are_refused_for_start_windows(launch):
    run = launch("barrier:sync=window", env={"TARE_FAULT": "clock:barrier", **ticking()})
    assert run.code == 2
    offset_s = re.search(r"CLOCK_MONOTONIC of rank 1 is off by (\S+) s", run.complaints[0])
    assert offset_s is not None
    assert float(offset_s[1]) == pytest.approx(1, abs=1e-3)


def test_the_list_describes_every_kernel(listed):
    fields = {"name", "description", "timer", "synchronisation", "reduction", "metric", "min_ranks", "defaults"}
    for kernel in listed.values():
        assert set(kernel) == fields
        assert kernel["metric"] in {"cost", "rate"}


def test_help_names_every_kernel_and_no_fault(build, listed):
    said = check(build("openmpi") / "tare-kernels", "--help")
    for kernel in listed:
        assert kernel in said
    assert "FAULT" not in said


def test_the_documentation_describes_every_kernel_and_field(launch, listed, build):
    text = (SOURCE.parent / "docs" / "kernels.md").read_text()
    startup = launch(str(build("openmpi") / "modules"), program="tare-startup", ranks=1)
    fields = {field for line in (*launch("barrier:iterations=1").lines, *startup.lines) for field in line}
    assert [name for name in (*listed, *fields) if f"`{name}`" not in text] == []


# --- neither drifts ---


@pytest.fixture(scope="module")
def refusals(alone):
    """Return what the program says to a message of nothing and to one of nine bytes, by size and kernel."""
    return {size: {name: alone(f"{name}:bytes={size}").stderr for name in KNOWN.kernels} for size in (0, 9)}


def test_the_kernels_are_those_that_the_program_lists_in_its_order(listed):
    assert tuple(listed) == KNOWN.kernels == tuple(DESCRIBED)
    assert {name for name, kernel in listed.items() if kernel["min_ranks"] == 1} == ALONE


def test_the_catalogue_tells_the_synchronisation_of_each_kernel(listed):
    word = {BARRIER: "barrier", READINGS: "none", "none": "none"}
    told = {name: word[synchronisation] for name, (_, synchronisation) in DESCRIBED.items()}
    assert told == {name: kernel["synchronisation"] for name, kernel in listed.items()}


@pytest.mark.parametrize(("field", "default"), [("windowed", "window"), ("paced", "rate_hz")])
def test_a_window_and_a_rate_are_known_where_they_have_a_default(listed, field, default):
    assert getattr(KNOWN, field) == tuple(name for name, kernel in listed.items() if kernel["defaults"][default])


@pytest.mark.parametrize(
    ("field", "size", "said"),
    [
        ("unsized", 0, "has no key 'bytes'"),
        ("never_empty", 0, "bytes=0 is not allowed"),
        ("of_floats", 9, "a multiple of 4"),
        ("of_doubles", 9, "a multiple of 8"),
    ],
)
def test_the_sizes_that_a_study_is_refused_are_those_that_the_program_refuses(refusals, field, size, said):
    assert getattr(KNOWN, field) == tuple(name for name, words in refusals[size].items() if said in words)
