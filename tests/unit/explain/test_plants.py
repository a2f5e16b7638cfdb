"""Every plant is a study that can be planned, and names causes that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from plants import check
from plants.plants import PLAIN, PLANTED, PLANTS
from tare import study
from tare.explain.causes import CAUSES
from tare.plan.cells import expand


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_a_study_with_one_difference(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_library_folder", lambda library: f"/usr/lib/{library}")
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(check.study_of(PLANTS[name], 1)))
    plan = expand(study.load(file), lambda *_: None)
    assert {cell.environment.name for cell in plan.cells} == {PLAIN, f"{PLAIN} (A/A)", PLANTED}
    assert PLANTS[name].causes <= set(CAUSES)


def test_thirteen_kinds_and_nothing_are_planted() -> None:
    assert sum(bool(plant.causes) for plant in PLANTS.values()) == 13
    assert [name for name, plant in PLANTS.items() if not plant.causes] == ["nothing"]
