"""The environments of studies/quickstart.yaml cost the same on hosts by ssh where tare is root as in a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.live import live, tare
from integration.places import Cells, comparisons, contradictions, kept, swapped
from integration.ssh_hosts import REPOSITORY, ssh_hosts
from tare.analysis.explain import explain
from tare.cli.session import summary_of
from tare.model import Verdict
from tare.store.writer import read_only

pytestmark = [
    pytest.mark.timeout(1800),  # two whole studies
    *live("sshd", "docker", "mmdebstrap"),
    pytest.mark.measures,
]
NICS = 9
KEPT = "test-quickstart"
HOSTS = """cluster:
  ssh:
    ssh_config: {config}
    hosts: [root@alpha, root@beta]
    daemon_hosts: [root@dalpha, root@dbeta]
    subnet: 10.214.0.0/24
    nics: [{nics}]
    pod_addresses: 10.213.128.0/18
"""
LAB = "cluster:\n  lab:\n    nodes: 2\n"


@pytest.fixture(scope="module")
def everywhere() -> dict[str, Cells]:
    """Run the study in both places and return its comparisons, by place."""
    path = REPOSITORY / "studies" / "quickstart.yaml"
    assert LAB in path.read_text()
    of_lab = tare("run", path, "-o", kept(KEPT) / "lab", "--fresh", cwd=REPOSITORY)
    assert of_lab.status in (0, 3), of_lab.stdout[-4000:] + of_lab.stderr[-4000:]
    with ssh_hosts(2, nics=NICS, twins=True) as hosts:
        study = hosts.folder / "quickstart.yaml"
        nics = ", ".join(f"data{number}" for number in range(1, NICS))
        study.write_text(path.read_text().replace(LAB, HOSTS.format(config=hosts.config, nics=nics)))
        by_ssh = hosts.tare("run", study, root=True)
        assert by_ssh.returncode in (0, 3), by_ssh.stdout[-4000:] + by_ssh.stderr[-4000:]
        shutil.rmtree(kept(KEPT) / "ssh", ignore_errors=True)
        shutil.copytree(results(hosts.folder), kept(KEPT) / "ssh")
    return {name: comparisons(kept(KEPT) / name) for name in ("lab", "ssh")}


def results(folder: Path) -> Path:
    """Return the one results folder of the head's home."""
    (found,) = (folder / "home" / "results").iterdir()
    return found


def test_no_environment_costs_in_the_lab_and_gains_by_ssh(everywhere: dict[str, Cells]) -> None:
    assert contradictions(everywhere) == []


def test_dockers_overlay_costs_in_both(everywhere: dict[str, Cells]) -> None:
    for place, found in everywhere.items():
        verdicts = [each.verdict for key, each in found.items() if key[2] == "docker+overlay"]
        assert Verdict.COSTS in verdicts, (place, verdicts)


def test_costs_that_differ_keep_their_order(everywhere: dict[str, Cells]) -> None:
    assert swapped(everywhere) == []


def test_the_study_proves_the_causes_of_most_of_its_own_costs(everywhere: dict[str, Cells]) -> None:
    rows: dict[tuple[str, str], set[str]] = {}
    for place in everywhere:
        stored = read_only(kept(KEPT) / place)
        for cost in explain(stored.plan, stored.trials, summary_of(stored)):
            named = rows.setdefault((place, cost.evidence.here.cell.environment.name), set())
            named |= {cost.named.name} if cost.named else set()
    assert sum(bool(named) for named in rows.values()) >= 0.8 * len(rows), rows
    assert all("encapsulation" in rows[place, "docker+overlay"] for place in everywhere), rows
