"""What Python knows of the kernels is what the program itself says, so that neither can drift."""

from __future__ import annotations

import pytest

from tare.study import KNOWN
from tare.workloads.catalogue import BARRIER, READINGS
from tare.workloads.catalogue import KERNELS as DESCRIBED
from tare.workloads.kernels import ALONE

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


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
