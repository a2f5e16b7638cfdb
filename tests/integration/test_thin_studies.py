"""Every file of studies/ still runs: its thin version starts each environment, placement and workload that it names.

Files that other tests run whole, or that ask more of a machine than this one has, are planned only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from integration.live import live, outcome, tare, trials
from tare import study
from tare.compare.claims import read_paper
from tare.compare.claims.model import Running, Test
from tare.errors import EXIT_CELLS_FAILED
from tare.study.feasibility.availability import make_plan
from tare.study.plan.cells import available
from tare.study.plan.thin import thin

pytestmark = live()
EVERY: Final = ("docker", "podman", "apptainer", "charliecloud")
"""What all studies but the quick start need."""

REPOSITORY: Final = Path(__file__).parents[2]
STUDIES: Final = REPOSITORY / "studies"
ELSEWHERE: Final[Mapping[str, str]] = {
    "comet-rights": "test_local_user runs the whole file, as an ordinary user",
    "cloudlab-packets": "its 128 ranks on 2 cores do not end within minutes",
    "cloudlab-packets-144": "its 144 ranks on 2 cores do not end within minutes",
    "cloudlab-packets-filled": "its 128 ranks on 2 cores do not end within minutes",
    "cloudlab-packets-filled-144": "its 144 ranks on 2 cores do not end within minutes",
    "sites/slurm-apptainer": "it is a pattern for sites with Slurm",
}
"""Studies that are planned only, and why."""

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kisti-kubernetes": ("kubernetes", "mpi-operator", "flannel", "etcd", "cni", "iptables"),
    "kubernetes-networks": ("kubernetes", "cilium", "flannel", "etcd", "cni", "iptables"),
}
"""What a study needs, all of whose cells would be unavailable without."""

OFTEN: Final[Mapping[str, str]] = {
    "quickstart": "smoke", **dict.fromkeys(("startup", "mpi", "placement", "anywhere"), "live")
}  # fmt: skip
"""Studies whose thin versions run in `make test` and in `make test-live`; the others run in `make test-all`."""

CONTRADICTED: Final[Mapping[str, frozenset[str]]] = {
    "pearc18-products": frozenset({"a port is mapped", "an attachable overlay"}),
}
"""Workloads that state what a paper says of a product, and that the product which is installed may not do."""


def may_fail(name: str, cell: str) -> bool:
    """Return whether launches of a cell may fail: a product contradicts a paper, or a claim says that they do."""
    workload, _, environment = cell.split(" / ")
    return workload in CONTRADICTED.get(name, frozenset()) or environment in failing(name)


@cache
def failing(name: str) -> frozenset[str]:
    """Return the environments of a study of which a claim says that launches in them fail."""
    testings = (
        claim.by.testing
        for file in sorted((REPOSITORY / "claims").glob("*.yaml"))
        for claim in read_paper(file).claims.values()
        if isinstance(claim.by, Test) and claim.by.study == name
    )
    return frozenset(place.environment for each in testings if isinstance(each, Running) for place in each.failing)


def names() -> list[str]:
    """Return the names of all study files."""
    return sorted(str(path.relative_to(STUDIES).with_suffix("")) for path in STUDIES.rglob("*.yaml"))


def thin_ones() -> list[object]:
    """Return the studies that are run, each with its target and with what it needs."""
    return [pytest.param(name, marks=marks(name)) for name in names() if name not in ELSEWHERE]


def marks(name: str) -> list[pytest.MarkDecorator]:
    needed = ("docker",) if name == "quickstart" else (*EVERY, *NEEDS.get(name, ()))
    return [getattr(pytest.mark, OFTEN.get(name, "long")), pytest.mark.requires(*needed)]


@pytest.mark.parametrize("name", thin_ones())
def test_the_thin_version_of_a_study_runs(name: str, tmp_path: Path) -> None:
    path = STUDIES / f"{name}.yaml"
    result = tare("run", "--thin", path, "-o", tmp_path / "r", cwd=REPOSITORY)
    # tasks of a Swarm service go on for a moment after `docker service rm`; tare ends what is left of a launch
    found = trials(tmp_path / "r", leave=name == "pearc18-products")
    allowed = {
        trial["key"]["cell"] for trial in found if outcome(trial) == "Failed" and may_fail(name, trial["key"]["cell"])
    }
    wrong = {
        cell: trial["outcome"]
        for trial in found
        if (cell := trial["key"]["cell"]) not in allowed and outcome(trial) != "Completed"
    }
    assert (result.status, wrong) == (EXIT_CELLS_FAILED if allowed else 0, {}), result.stderr[-3000:]
    wanted = {cell.key for cell in available(make_plan(thin(study.load(path))))}
    assert {trial["key"]["cell"] for trial in found} == wanted


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_study_that_is_not_run_here_is_planned(name: str) -> None:
    assert name in names(), f"{name} is listed in ELSEWHERE, but there is no such study"
    assert make_plan(thin(study.load(STUDIES / f"{name}.yaml"))).cells
