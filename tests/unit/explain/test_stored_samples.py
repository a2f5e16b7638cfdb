"""Explanations of stored results: planted causes and the quick start say nothing impossible."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from possible import explanation_of, impossible

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "explained").glob("*.tar.xz"))


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


def more_than_all(cost: Any) -> None:
    cost["suspects"][0]["share"]["high"] = 1.19


def adds_up(cost: Any) -> None:
    cost["not_explained"]["value"] += 0.2


def lower_ends(cost: Any) -> None:
    for each in (cost["suspects"][0]["share"], cost["not_explained"]):
        each["low"] = each["value"] = 0.6


def ruled_out(cost: Any) -> None:
    cost["refuted"] = [cost["cause"]]


def costs_more_without(cost: Any) -> None:
    cost["suspects"][0]["without"]["low"] = 99.0


def unproven(cost: Any) -> None:
    cost["suspects"][0]["proven"] = False


@pytest.mark.parametrize("damage", [more_than_all, adds_up, lower_ends, ruled_out, costs_more_without, unproven])
def test_what_is_impossible_is_found(damage: Callable[[Any], None], explanation: Mapping[str, Any]) -> None:
    document = deepcopy(dict(explanation))
    damage(document["costs"][0])
    assert list(impossible(document))
