"""studies/anywhere.yaml says the same wherever it runs: in a lab, on hosts by ssh, and on one machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest

from integration.live import live, tare
from integration.ssh_hosts import REPOSITORY, SshHosts, lend, ssh_hosts
from tare.cli.session import summary_of
from tare.model import Comparison, Verdict
from tare.store.writer import read_only

pytestmark = [
    pytest.mark.timeout(1500),  # the first one counts
    *live("sshd", "apptainer", "charliecloud", "mmdebstrap", "podman", "uidmap", "passt"),
    pytest.mark.quiet,
    pytest.mark.long,
]
STUDY = "repository/studies/anywhere.yaml"
Cells = Mapping[tuple[str, str, str], Comparison]


@pytest.fixture(scope="module")
def everywhere() -> dict[str, Cells]:
    """Run the study in all three places and return its comparisons, by place."""
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        for options in ("--cluster local", "--hosts alpha,beta"):
            ended = hosts.shell(f"tare run {STUDY} {options}", timeout_s=600, alone="local" in options)
            assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
        found = {name: cells(hosts, name) for name in ("anywhere-local", "anywhere-ssh")}
        keep(hosts)
    ended_lab = tare("run", REPOSITORY / "studies" / "anywhere.yaml", "-o", kept() / "lab", "--fresh",
                     cwd=REPOSITORY, timeout_s=600)  # fmt: skip
    assert ended_lab.status in (0, 3), ended_lab.stdout[-4000:] + ended_lab.stderr[-4000:]
    return {"lab": comparisons(kept() / "lab"), "local": found["anywhere-local"], "ssh": found["anywhere-ssh"]}


def kept() -> Path:
    """Return the folder in which the results stay for a look at them."""
    folder = REPOSITORY / "results" / "test-anywhere"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep(hosts: SshHosts) -> None:
    for name in ("anywhere-local", "anywhere-ssh"):
        shutil.rmtree(kept() / name, ignore_errors=True)
        shutil.copytree(hosts.folder / "home" / "results" / name, kept() / name)
        os.system(f"chown -R 0:0 {kept() / name}")  # noqa: S605


def cells(hosts: SshHosts, name: str) -> Cells:
    return comparisons(hosts.folder / "home" / "results" / name)


def comparisons(folder: Path) -> Cells:
    found = summary_of(read_only(folder)).comparisons
    return {(each.group, each.metric, each.environment): each for each in found}


def test_no_cell_costs_in_one_place_and_gains_in_another(everywhere: dict[str, Cells]) -> None:
    for (here, one), (there, other) in combinations(everywhere.items(), 2):
        for key in one.keys() & other.keys():
            both = {one[key].verdict, other[key].verdict}
            assert not both >= {Verdict.COSTS, Verdict.GAINS}, (key, here, there)


def test_rootless_podman_behind_pasta_costs_wherever_it_runs(everywhere: dict[str, Cells]) -> None:
    ran = []
    for place, found in everywhere.items():
        own = [each for key, each in found.items() if key[2] == "podman-rootless+pasta"]
        if any(each.verdict not in (Verdict.UNAVAILABLE,) for each in own):
            ran.append(place)
            assert any(each.verdict is Verdict.COSTS for each in own), (place, [each.verdict for each in own])
    assert {"local", "ssh"} <= set(ran)


def test_costs_that_differ_keep_their_order(everywhere: dict[str, Cells]) -> None:
    wrong = []
    for (here, one), (there, other) in combinations(everywhere.items(), 2):
        for group, metric in {key[:2] for key in one.keys() & other.keys()}:
            names = [key[2] for key in one if key[:2] == (group, metric) and key in other]
            for first, second in combinations(names, 2):
                orders = [order(place[group, metric, first], place[group, metric, second]) for place in (one, other)]
                if None not in orders and orders[0] != orders[1]:
                    wrong.append((group, metric, first, second, here, there))
    assert wrong == [], json.dumps(wrong)


def order(one: Comparison, other: Comparison) -> bool | None:
    """Return whether the first costs less; None if the intervals overlap or one has none."""
    if one.overhead is None or other.overhead is None:
        return None
    if one.overhead.high < other.overhead.low:
        return True
    return False if other.overhead.high < one.overhead.low else None
