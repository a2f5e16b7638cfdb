"""What a study can name is what is registered; of kernels, see tests/kernels/test_declarations.py."""

from __future__ import annotations

import pytest

from tare.cluster import CLUSTERS
from tare.mpi import MPIS
from tare.study import KNOWN, parse
from tare.wiring.transports import NAMES
from tare.workloads.kernels import RATES, SIZELESS

REST = "\nenvironments: [bare, docker]\nworkloads: {w: {kernels: [barrier]}}\n"


def test_the_transports_are_those_that_the_mpi_can_be_told() -> None:
    assert {key.partition(":")[0] for mpi in MPIS.values() for key in mpi.ways} == set(NAMES)


def test_kernels_without_a_size_or_with_a_rate_are_the_same_to_studies_and_results() -> None:
    assert set(KNOWN.unsized) == SIZELESS
    assert set(KNOWN.windowed) == RATES


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_registered_cluster_is_named_by_its_name_alone_or_with_settings(name: str) -> None:
    plain = parse(f"cluster: {name}{REST}")
    assert (plain.cluster, plain.lab.nodes) == (name, 2)
    full = parse(f"cluster: {{{name}: {{nodes: 3, cores_per_node: 4}}}}{REST}")
    assert (full.cluster, full.lab.nodes, full.lab.cores_per_node) == (name, 3, 4)
