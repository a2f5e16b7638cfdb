"""What benchmarks/pods.py plans: a study of a thousand pods, from nodes that no API server has sent."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_a_thousand_pods_are_planned_and_described_in_less_than_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "pods", raising=False)
    import pods

    began = time.process_time()
    _, count = pods.planned()
    assert count == 1000
    assert time.process_time() - began < 2.0
