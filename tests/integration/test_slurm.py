"""studies/anywhere.yaml on a real Slurm cluster, as an ordinary user: by mpirun and by srun, in one allocation and over
several."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import live, tare
from integration.places import Cells, comparisons, contradictions, kept, swapped
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import REPOSITORY, lend
from tare.model import Verdict
from tare.store.writer import read_only

pytestmark = [
    pytest.mark.timeout(900),  # the first one counts
    *live("slurm", "apptainer", "charliecloud", "mmdebstrap", "podman", "uidmap", "passt"),
    pytest.mark.quiet,
]
STUDY = "repository/studies/anywhere.yaml"
KEPT = "test-slurm"
INSIDE = ("anywhere-slurm", "anywhere-slurm-srun")
ALLOCATIONS = 2
SMALL = """
environments: [bare, apptainer]
placements: [{nodes: 2, ranks_per_node: 1}]
workloads:
  messages:
    kernels: [{latency: {message_bytes: 8, iterations: 500, warmup: 100}}]
repetition: {rounds: 2, turns: 4}
a_a: false
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmNodes]:
    with slurm_nodes(2, cores=2) as nodes:
        lend(nodes.cache)
        yield nodes


@pytest.fixture(scope="module")
def everywhere(cluster: SlurmNodes) -> dict[str, Cells]:
    """Run the study inside one allocation by both launchers, and in a lab; return its comparisons, by place."""
    for launcher in ("mpirun", "srun"):
        run = f"tare run {STUDY} --cluster slurm --launcher {launcher}"
        ended = cluster.shell(f"salloc --nodes=2 --exclusive {run}", timeout_s=400)
        assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
    for name in INSIDE:
        keep(cluster, name)
    lab = tare("run", REPOSITORY / "studies" / "anywhere.yaml", "-o", kept(KEPT) / "lab", "--fresh",
               cwd=REPOSITORY, timeout_s=400)  # fmt: skip
    assert lab.status in (0, 3), lab.stdout[-4000:] + lab.stderr[-4000:]
    return {name: comparisons(kept(KEPT) / name) for name in ("lab", *INSIDE)}


def keep(cluster: SlurmNodes, name: str) -> Path:
    """Copy the user's results."""
    place = kept(KEPT) / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(cluster.home / "results" / name, place)
    for path in (place, *place.rglob("*")):
        os.chown(path, 0, 0)
    return place


def test_both_launchers_run_what_an_ordinary_user_has(everywhere: dict[str, Cells]) -> None:
    ran = {
        place: {key[2] for key, each in cells.items() if each.verdict is not Verdict.UNAVAILABLE}
        for place, cells in everywhere.items()
    }
    assert {"bare+image", "apptainer", "charliecloud", "podman-rootless+pasta"} <= ran["anywhere-slurm"]
    assert {"bare+image", "apptainer", "charliecloud"} <= ran["anywhere-slurm-srun"]
    failing = [(place, key) for place, cells in everywhere.items() for key, each in cells.items()
               if each.verdict in (Verdict.FAILS, Verdict.INVALID)]  # fmt: skip
    assert failing == []


def test_no_cell_costs_in_one_place_and_gains_in_another(everywhere: dict[str, Cells]) -> None:
    assert contradictions(everywhere) == []


def test_costs_that_differ_keep_their_order(everywhere: dict[str, Cells]) -> None:
    assert swapped(everywhere) == []


def test_rank_places_are_read_back_and_no_core_is_shared(everywhere: dict[str, Cells]) -> None:
    assert everywhere
    for name in INSIDE:
        trials = [trial for trial in read_only(kept(KEPT) / name).trials if trial.ranks]
        assert trials
        for trial in trials:
            of_host: dict[str, list[int]] = {}
            for place in trial.ranks:
                of_host.setdefault(place.host, []).extend(place.cpus)
            assert all(len(set(cpus)) == len(cpus) for cpus in of_host.values()), trial.key


def test_a_report_of_one_allocation_says_so(everywhere: dict[str, Cells]) -> None:
    assert everywhere
    for name in INSIDE:
        assert "One allocation" in (kept(KEPT) / name / "report.html").read_text()


def test_submitted_rounds_are_of_several_allocations(cluster: SlurmNodes) -> None:
    (cluster.home / "small.yaml").write_text(SMALL)
    submit = f"tare submit small.yaml --allocations {ALLOCATIONS} --launcher srun --time 5min --wait"
    ended = cluster.shell(submit, timeout_s=200)
    assert ended.returncode in (0, 3), ended.stdout[-3000:] + ended.stderr[-3000:]
    results = cluster.home / "results" / "small-slurm-srun"
    facts = json.loads((results / "plan.json").read_text())["facts"]["allocations"]
    assert sorted(each["rounds"] for each in facts.values()) == [[0], [1]]
    assert all(each["nodes"] == "c1, c2" and each["node hours"] > 0 for each in facts.values())
    assert "One allocation" not in (results / "report.html").read_text()


def test_nothing_is_left_on_the_nodes(cluster: SlurmNodes, everywhere: dict[str, Cells]) -> None:
    assert everywhere
    for node in cluster.site.nodes:
        left = cluster.root("sh", "-c", "ls -d /tmp/tare-s* /tmp/run/tare/s* 2> /dev/null; pgrep -a tare-kernels",
                            node=node.index).stdout  # fmt: skip
        assert left == "", left
    assert cluster.shell("squeue --noheader").stdout == ""
