"""Strategies of costs and of log ratios for the tests of the statistics."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

RELAXED = settings(deadline=None, max_examples=60)
costs = st.floats(min_value=1e-8, max_value=1e3)
pairs = st.lists(st.tuples(costs, costs), min_size=0, max_size=14)
logs = st.lists(st.floats(min_value=-2, max_value=2), min_size=2, max_size=20)
