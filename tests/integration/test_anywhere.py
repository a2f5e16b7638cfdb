"""studies/anywhere.yaml says the same wherever it runs: in a lab, on hosts by ssh, and on one machine."""

from __future__ import annotations

import os
import shutil

import pytest

from integration.live import live, tare
from integration.places import Cells, comparisons, contradictions, kept, swapped
from integration.ssh_hosts import REPOSITORY, SshHosts, lend, ssh_hosts
from tare.model import Verdict

pytestmark = [
    pytest.mark.timeout(1500),  # the first one counts
    *live("sshd", "apptainer", "charliecloud", "mmdebstrap", "podman", "uidmap", "passt"),
    pytest.mark.quiet,
]
STUDY = "repository/studies/anywhere.yaml"
NAMES = ("anywhere-local", "anywhere-ssh")
KEPT = "test-anywhere"


@pytest.fixture(scope="module")
def everywhere() -> dict[str, Cells]:
    """Run the study in all three places and return its comparisons, by place."""
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        for options in ("--cluster local", "--hosts alpha,beta"):
            ended = hosts.shell(f"tare run {STUDY} {options}", timeout_s=600, alone="local" in options)
            assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
        keep(hosts)
    ended_lab = tare("run", REPOSITORY / "studies" / "anywhere.yaml", "-o", kept(KEPT) / "lab", "--fresh",
                     cwd=REPOSITORY, timeout_s=600)  # fmt: skip
    assert ended_lab.status in (0, 3), ended_lab.stdout[-4000:] + ended_lab.stderr[-4000:]
    return {name: comparisons(kept(KEPT) / name) for name in ("lab", *NAMES)}


def keep(hosts: SshHosts) -> None:
    """Copy the results of the user's head."""
    for name in NAMES:
        shutil.rmtree(kept(KEPT) / name, ignore_errors=True)
        shutil.copytree(hosts.folder / "home" / "results" / name, kept(KEPT) / name)
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
    assert set(NAMES) <= set(ran)


def test_costs_that_differ_keep_their_order(everywhere: dict[str, Cells]) -> None:
    assert swapped(everywhere) == []
