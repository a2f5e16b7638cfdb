"""What a study can name is what is registered: in Python for plug-ins, in C for kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.cluster import CLUSTERS
from tare.mpi import MPIS
from tare.study import KNOWN, parse
from tare.wiring.transports import NAMES
from tare.workloads.catalogue import KERNELS as DESCRIBED
from tare.workloads.catalogue import READINGS
from tare.workloads.kernels import ALONE, RATES, SIZELESS

KERNELS = Path(__file__).parents[3] / "kernels" / "kernels"
REST = "\nenvironments: [bare, docker]\nworkloads: {w: {kernels: [barrier]}}\n"


def registry_in_c() -> list[str]:
    """Return the kernels in the order of registry.c."""
    return re.findall(r"&kernel_(\w+)", (KERNELS / "registry.c").read_text())


def entry_in_c(kernel: str) -> str:
    """Return the struct that registers a kernel."""
    return (KERNELS / f"{kernel}.c").read_text().partition(f"const struct kernel kernel_{kernel} =")[2]


def takes(key: str) -> Callable[[str], bool]:
    def check(entry: str) -> bool:
        keys = re.findall(r"\.keys = ([^,]*),", entry)[0]
        return re.search(rf"\b{key}\b", keys) is not None or (key == "KEY_BYTES" and "KEYS_COMMON" in keys)

    return check


def test_the_transports_are_those_that_the_mpi_can_be_told() -> None:
    assert KNOWN.transports == tuple(NAMES)
    assert {key.partition(":")[0] for mpi in MPIS.values() for key in mpi.ways} == set(NAMES)


def test_the_kernels_are_those_of_the_registry_in_c() -> None:
    assert list(KNOWN.kernels) == registry_in_c()
    assert set(KNOWN.unsized) == SIZELESS
    assert set(KNOWN.windowed) == RATES


@pytest.mark.parametrize(
    ("field", "holds"),
    [
        ("unsized", lambda entry: not takes("KEY_BYTES")(entry)),
        ("windowed", takes("KEY_WINDOW")),
        ("paced", takes("KEY_RATE")),
        ("paced", lambda entry: "SAMPLES_GAPS" in entry),
        ("of_floats", lambda entry: ".bytes_multiple = 4," in entry),
        ("of_doubles", lambda entry: ".bytes_multiple = 8," in entry),
        ("never_empty", lambda entry: re.search(r"\.bytes_min = [1-9]", entry) is not None),
    ],
)
def test_what_is_known_of_the_kernels_is_what_their_sources_say(field: str, holds: Callable[[str], bool]) -> None:
    assert getattr(KNOWN, field) == tuple(kernel for kernel in registry_in_c() if holds(entry_in_c(kernel)))


def test_the_kernels_that_need_no_partner_are_those_whose_sources_say_so() -> None:
    assert {kernel for kernel in registry_in_c() if ".min_ranks = 1," in entry_in_c(kernel)} == ALONE


def test_the_catalogue_has_every_kernel_with_its_own_synchronisation() -> None:
    assert list(DESCRIBED) == registry_in_c()
    for kernel, (_, synchronisation) in DESCRIBED.items():
        assert ("SYNC_BARRIER" in entry_in_c(kernel)) == synchronisation.startswith("a barrier")
        assert ("SYNC_NONE" in entry_in_c(kernel)) == (synchronisation in {"none", READINGS})


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_registered_cluster_is_named_by_its_name_alone_or_with_settings(name: str) -> None:
    plain = parse(f"cluster: {name}{REST}")
    assert (plain.cluster, plain.lab.nodes) == (name, 2)
    full = parse(f"cluster: {{{name}: {{nodes: 3, cores_per_node: 4}}}}{REST}")
    assert (full.cluster, full.lab.nodes, full.lab.cores_per_node) == (name, 3, 4)
