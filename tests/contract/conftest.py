"""Fixtures of the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.launch_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
