"""A study that is moved to another cluster or launcher has another name, and its environments that launcher."""

from __future__ import annotations

import pytest

from tare.errors import UsageError
from tare.model import Launching, Study
from tare.study import moved, parse

TEXT = """
cluster: {cluster}
environments: {{bare: , own: {{runtime: bare, launch: daemon}}}}
placements: [2x1]
workloads: {{micro: {{kernels: [barrier]}}}}
"""


def study(cluster: str = "slurm") -> Study:
    return parse(TEXT.format(cluster=cluster))


def launches(stated: Study) -> list[Launching]:
    return [each.launch for each in stated.environments]


def test_a_launcher_is_that_of_environments_that_name_none() -> None:
    by_srun = moved(study(), None, launcher="srun")
    assert launches(by_srun) == [Launching.SRUN, Launching.DAEMON]
    assert by_srun.lab.slurm.srun
    assert launches(moved(study(), None)) == [Launching.EXEC, Launching.DAEMON]


def test_another_launcher_or_cluster_means_another_name_and_so_other_results() -> None:
    own = study()
    assert moved(own, None).name == own.name
    assert moved(own, None, launcher="srun").name == f"{own.name}-srun"
    assert moved(own, None, launcher="mpirun").name == own.name
    assert moved(study("lab"), "slurm", launcher="srun").name == f"{own.name}-slurm-srun"


def test_a_study_that_states_srun_keeps_it_and_can_be_moved_back() -> None:
    stated = study("{slurm: {launcher: srun}}")
    assert launches(moved(stated, None)) == [Launching.SRUN, Launching.DAEMON]
    back = moved(stated, None, launcher="mpirun")
    assert launches(back) == [Launching.EXEC, Launching.DAEMON]
    assert back.name == f"{stated.name}-mpirun"
    assert launches(moved(stated, "lab")) == [Launching.EXEC, Launching.DAEMON]  # there is no srun there


@pytest.mark.parametrize(
    ("cluster", "launcher", "part"),
    [("slurm", "srum", "srum"), ("lab", "srun", "cluster lab has one launcher"), ("slrum", "", "slrum")],
)
def test_a_launcher_or_cluster_that_cannot_be_is_refused(cluster: str, launcher: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        moved(study(), cluster, launcher=launcher)
