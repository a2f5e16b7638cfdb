"""The machine's cores are dealt out to the nodes of a lab: none twice, unless there are too few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.cluster.lab import divide_cores
from tare.errors import RefusedError
from tare.model import LabSpec


@given(st.integers(1, 64), st.integers(1, 32))
def test_cores_are_dealt_evenly_and_none_twice_where_there_are_enough(available: int, nodes: int) -> None:
    chosen, shared = divide_cores(range(available), LabSpec(nodes=nodes))
    assert len(chosen) == nodes
    assert {len(cores) for cores in chosen} == {max(1, available // nodes)}
    dealt = [core for cores in chosen for core in cores]
    assert (len(set(dealt)) == len(dealt)) is (not shared)
    assert shared is (nodes > available)


@given(st.integers(1, 16), st.integers(1, 16), st.data())
def test_a_node_has_each_of_its_cores_once_and_all_are_the_machines(each: int, nodes: int, data: st.DataObject) -> None:
    available = data.draw(st.lists(st.integers(0, 255), min_size=each, max_size=64, unique=True))
    chosen, shared = divide_cores(available, LabSpec(nodes=nodes, cores_per_node=each))
    for cores in chosen:
        assert len(set(cores)) == len(cores) == each
        assert set(cores) <= set(available)
    assert shared is (each * nodes > len(available))


def test_nodes_that_share_cores_begin_at_others_and_none_has_more_than_the_machine() -> None:
    chosen, shared = divide_cores((0, 1), LabSpec(nodes=2, cores_per_node=2))
    assert (chosen, shared) == (((0, 1), (1, 0)), True)
    chosen, _ = divide_cores((4, 5, 6, 7), LabSpec(nodes=2, cores_per_node=3))
    assert [cores[0] for cores in chosen] == [4, 6]
    with pytest.raises(RefusedError, match="nodes of 3 cores are not possible: this machine has 2"):
        divide_cores((0, 1), LabSpec(nodes=1, cores_per_node=3))
