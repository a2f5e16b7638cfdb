"""An environment may have placements that differ from the study's; it stays in the same group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare import study
from tare.errors import StudyError
from tare.model import Binding, Placement, PlacementChange, Study
from tare.plan.cells import digest, expand

TEXT = """
environments:
  bare:
  limited: {{runtime: bare, placement: {{{change}}}}}
placements: [1x2 in 2c]
workloads: {{messages: {{kernels: [latency]}}}}
"""


def stated(tmp_path: Path, change: str) -> Study:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.format(change=change))
    return study.load(path)


def test_only_the_cells_of_the_environment_are_placed_otherwise(tmp_path: Path) -> None:
    plan = expand(stated(tmp_path, "binding: mpi-default, cpus_per_container: 0.5"), lambda *_: None)
    placements = {cell.environment.name: cell.placement for cell in plan.cells}
    usual = Placement(nodes=1, ranks_per_node=2, containers_per_node=2)
    assert placements["bare"] == placements["bare (A/A)"] == usual
    assert placements["limited"].binding is Binding.MPI_DEFAULT
    assert placements["limited"].cpus_per_container == 0.5
    assert len({cell.group for cell in plan.cells}) == 1


def test_a_change_that_cannot_be_placed_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"environments\.limited\.placement"):
        stated(tmp_path, "containers_per_node: 3")


def test_no_change_leaves_the_digest_as_it_was() -> None:
    assert not PlacementChange()
    assert PlacementChange().of(Placement(nodes=3)) == Placement(nodes=3)


def test_a_change_changes_the_digest(tmp_path: Path) -> None:
    one, other = (stated(tmp_path, f"cpus_per_container: {cpus}") for cpus in (0.5, 0.25))
    assert digest(one) != digest(other)
