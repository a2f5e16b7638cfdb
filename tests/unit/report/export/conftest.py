"""Results of every kind of cell, for all tests that only read them."""

from __future__ import annotations

import pytest

import exports
from tare.report.frames import Source


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return exports.source(exports.example(tmp_path_factory.mktemp("results") / "r"))
