"""Explanations of stored results: planted causes and the quick start say nothing impossible."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from possible import explanation_of, impossible

SAMPLES = sorted((Path(__file__).parents[3] / "data" / "explained").glob("*.tar.xz"))


def unpacked(sample: Path, folder: Path) -> Path:
    shutil.unpack_archive(sample, folder)
    (found,) = folder.iterdir()
    return found


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name.removesuffix(".tar.xz"))
def test_no_share_sum_or_named_cause_is_impossible(sample: Path, tmp_path: Path) -> None:
    document = explanation_of(unpacked(sample, tmp_path))
    assert document["costs"] or "nothing" in sample.name
    assert list(impossible(document)) == []


@pytest.fixture(scope="module")
def explanation(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    (sample,) = (each for each in SAMPLES if "misleading-daemon" in each.name)
    return explanation_of(unpacked(sample, tmp_path_factory.mktemp("sample")))


SHARE = ("suspects", 0, "share")
DAMAGES: Mapping[str, Mapping[tuple[str | int, ...], object]] = {
    "a share is above 1": {(*SHARE, "high"): 1.19},
    "shares are more than the cost": {("not_explained", "value"): 0.9},
    "so are their lower ends": {
        (*place, end): 0.6 for place in (SHARE, ("not_explained",)) for end in ("low", "value")
    },
    "a cause is ruled out": {("refuted",): ["offload"]},
    "it costs more without its cause": {("suspects", 0, "without", "low"): 99.0},
    "a cause is named without a proof": {("suspects", 0, "proven"): False},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_impossible_is_found(damage: str, explanation: Mapping[str, Any]) -> None:
    document = deepcopy(dict(explanation))
    for (*path, last), value in DAMAGES[damage].items():
        inner = document["costs"][0]
        for step in path:
            inner = inner[step]
        inner[last] = value
    assert list(impossible(document))
