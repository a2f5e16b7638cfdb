"""studies/anywhere.yaml says the same wherever it runs: in a lab, on hosts by ssh, on one machine, and on Slurm."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

import pytest

from integration.live import live, tare
from integration.places import Cells, comparisons, contradictions, kept, swapped
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import REPOSITORY, SshHosts, lend, ssh_hosts
from tare.analysis.explain import explain
from tare.analysis.summary.allocations import rounds_of
from tare.cli.session import summary_of
from tare.model import Verdict
from tare.store.writer import read_only

pytestmark = [
    pytest.mark.timeout(1500),  # five whole studies
    *live("sshd", "slurm", "apptainer", "charliecloud", "mmdebstrap", "podman", "uidmap", "passt"),
    pytest.mark.measures,
]
STUDY = "repository/studies/anywhere.yaml"
NAMES = ("anywhere-local", "anywhere-ssh")
BY_LAUNCHER = {"mpirun": "anywhere-slurm", "srun": "anywhere-slurm-srun"}
"""By mpirun in one allocation, by srun over as many as there are rounds."""
KEPT = "test-anywhere"
ROUNDS = 6
"""The fewest from which a verdict follows."""


@pytest.fixture(scope="module")
def everywhere() -> dict[str, Cells]:
    """Run the study in all places, on Slurm by mpirun and by srun, and return its comparisons, by place."""
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        for options in ("--cluster local", "--hosts alpha,beta"):
            run = f"tare run {STUDY} {options} --rounds {ROUNDS}"
            ended = hosts.shell(run, alone="local" in options)
            assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
        keep(hosts, NAMES)
    with slurm_nodes(2, cores=2) as nodes:
        lend(nodes.cache)
        for command in (
            f"salloc --nodes=2 --exclusive tare run {STUDY} --cluster slurm --launcher mpirun --rounds {ROUNDS}",
            f"tare submit {STUDY} --allocations {ROUNDS} --launcher srun --time 10min --wait",
        ):
            ended = nodes.shell(command)
            assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
        keep(nodes, BY_LAUNCHER.values())
    ended_lab = tare("run", REPOSITORY / "studies" / "anywhere.yaml", "-o", kept(KEPT) / "lab", "--fresh", "--rounds",
                     str(ROUNDS), cwd=REPOSITORY)  # fmt: skip
    assert ended_lab.status in (0, 3), ended_lab.stdout[-4000:] + ended_lab.stderr[-4000:]
    return {name: comparisons(kept(KEPT) / name) for name in ("lab", *NAMES, *BY_LAUNCHER.values())}


def keep(places: SshHosts | SlurmNodes, names: Iterable[str]) -> None:
    """Copy the results of the user's head."""
    for name in names:
        shutil.rmtree(kept(KEPT) / name, ignore_errors=True)
        shutil.copytree(places.folder / "home" / "results" / name, kept(KEPT) / name)
        for path in (kept(KEPT) / name, *(kept(KEPT) / name).rglob("*")):
            os.chown(path, 0, 0)


def test_no_cell_costs_in_one_place_and_gains_in_another(everywhere: dict[str, Cells]) -> None:
    assert contradictions(everywhere) == []


def test_rootless_podman_behind_pasta_costs_wherever_it_runs(everywhere: dict[str, Cells]) -> None:
    ran = []
    for place, found in everywhere.items():
        own = [each for key, each in found.items() if key[2] == "podman-rootless+pasta"]
        if any(each.verdict not in (Verdict.UNAVAILABLE,) for each in own):
            ran.append(place)
            assert any(each.verdict is Verdict.COSTS for each in own), (place, [each.verdict for each in own])
    assert {*NAMES, "anywhere-slurm"} <= set(ran)


def test_costs_that_differ_keep_their_order(everywhere: dict[str, Cells]) -> None:
    assert swapped(everywhere) == []


def test_both_launchers_of_slurm_run_what_an_ordinary_user_has(everywhere: dict[str, Cells]) -> None:
    ran = {
        place: {key[2] for key, each in everywhere[place].items() if each.verdict is not Verdict.UNAVAILABLE}
        for place in BY_LAUNCHER.values()
    }
    assert {"bare+image", "apptainer", "charliecloud", "podman-rootless+pasta"} <= ran["anywhere-slurm"]
    assert {"bare+image", "apptainer", "charliecloud"} <= ran["anywhere-slurm-srun"]


def test_no_cell_fails(everywhere: dict[str, Cells]) -> None:
    failing = [(place, key) for place, cells in everywhere.items() for key, each in cells.items()
               if each.verdict in (Verdict.FAILS, Verdict.INVALID)]  # fmt: skip
    assert failing == []


def test_most_costs_on_slurm_have_a_proven_cause(everywhere: dict[str, Cells]) -> None:
    assert everywhere
    for place in BY_LAUNCHER.values():
        stored = read_only(kept(KEPT) / place)
        costs = explain(stored.plan, stored.trials, summary_of(stored))
        named = {(cost.evidence.here.cell.key, cost.evidence.info.key): bool(cost.named) for cost in costs}
        assert named, place
        assert sum(named.values()) >= 0.8 * len(named), (place, named)


def test_a_report_says_whether_its_rounds_come_from_one_allocation(everywhere: dict[str, Cells]) -> None:
    assert everywhere
    for launcher, place in BY_LAUNCHER.items():
        report = (kept(KEPT) / place / "report.html").read_text()
        assert ("One allocation" in report) == (launcher == "mpirun")
        rounds = sorted(rounds_of(read_only(kept(KEPT) / place).facts).values())
        assert rounds == ([list(range(ROUNDS))] if launcher == "mpirun" else [[number] for number in range(ROUNDS)])
