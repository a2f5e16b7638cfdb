"""What other people's results say of allocations is read within bounds."""

from __future__ import annotations

import pytest

from tare.summary.allocations import KEY, allocation_caveats, node_hours, rounds_of


@pytest.mark.parametrize(
    "stated", [7, [], {"1": 7}, {"1": {"rounds": 3}}, {"1": {"rounds": {"a": 1}, "node hours": "x"}}]
)
def test_allocations_of_any_shape_are_passed_over(stated: object) -> None:
    facts = {KEY: stated}
    assert rounds_of(facts) == {}
    assert list(allocation_caveats(facts)) == []
    assert node_hours(facts) == 0.0
