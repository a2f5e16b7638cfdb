"""What launches leave behind on a lab's nodes and on this machine is ended and named, and pods and daemons go on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from integration.live import by_environment, compiled, live, outcome, pids_of, tare, trials, write_study
from waiting import wait_until

pytestmark = live()
ONE = "[{nodes: 1, ranks_per_node: 2}]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("left")
    compiled("leaves", place)
    return place


def remove_frozen_groups() -> bool:
    """Remove the groups of this machine that programs on cluster local have made; return whether none is left."""
    for group in Path("/sys/fs/cgroup/freezer").glob("frozen-*"):
        with suppress(OSError):  # what was ended in it is not collected yet, or another test has removed it
            group.rmdir()
    return not [*Path("/sys/fs/cgroup/freezer").glob("frozen-*")]


def study(folder: Path, how: str, environments: list[str], cluster: str) -> Path:
    workloads = f"{{p: {{command: [./leaves-openmpi, {how}], time_limit: 60s}}}}"
    name, a_a = f"{how}{cluster.strip('{')[:3]}", str(len(environments) == 1).lower()
    return write_study(folder, name, environments, cluster=cluster, placements=ONE, workloads=workloads, a_a=a_a)


@pytest.mark.parametrize("cluster", ["{lab: {nodes: 1}}", "local"])
@pytest.mark.parametrize("how", ["cleared", "ignores", "stops", "keeper", "moves", "freezes"])
def test_it_is_ended_and_named_by_each_trial_and_by_the_report(how: str, cluster: str, folder: Path) -> None:
    path = study(folder, how, ["bare"], cluster)
    result = tare("run", path, "--fresh", cwd=folder)
    assert result.status in (0, 3), result.stderr
    names = {"cleared": "sleep", "keeper": "tare-holder"}
    for trial in trials(folder / "results" / path.stem, leave=True):
        assert (outcome(trial), trial["left"]) == ("Completed", {names.get(how, "rogue"): 1})
    assert "Launches left processes behind" in " ".join(result.stdout.split())
    assert pids_of(result.lab) == set()
    if (how, cluster) == ("freezes", "local"):
        wait_until(remove_frozen_groups, "its processes' end")


@pytest.mark.requires("docker", "mmdebstrap")
def test_a_container_and_its_daemon_go_on(folder: Path) -> None:
    path = study(folder, "cleared", ["bare", "docker+host"], "{lab: {nodes: 1}}")
    result = tare("run", path, "--fresh", cwd=folder)
    assert result.status in (0, 3), result.stderr
    for name, found in by_environment(folder / "results" / path.stem, leave=True).items():
        assert {outcome(trial) for trial in found} == {"Completed"}, name
        assert all(trial["left"] == {"sleep": 1} for trial in found), name
