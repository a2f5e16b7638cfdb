"""docs/slurm.md, command by command, as an ordinary user: on two nodes of a real Slurm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import live
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import REPOSITORY, lend

pytestmark = [*live("slurm", "apptainer", "mmdebstrap"), pytest.mark.alone]
PAGE = REPOSITORY / "docs" / "slurm.md"
INSTALL = "pip install tare-hpc"
SUBMIT = "tare submit site.yaml --wait"
"""Submits six jobs on the page; with all of them the test would take three minutes."""
REPORTS = ("results/first/report.html", "results/site/report.html", "results/site-srun/report.html", "site.html")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmNodes]:
    with slurm_nodes(2, cores=2) as up:
        lend(up.cache)
        yield up


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_every_command_of_the_page_works_as_it_stands(cluster: SlurmNodes) -> None:
    scripts = blocks("sh")
    assert sum(INSTALL in script for script in scripts) == 1
    assert sum(SUBMIT in script for script in scripts) == 1
    seen = ""
    for script in scripts:
        # what pip installs is tried in root file systems of other distributions (test_other_distributions.py)
        shorter = script.replace(INSTALL, "tare --version").replace(SUBMIT, f"{SUBMIT} --allocations 2")
        shorter = re.sub(
            r"^(.*tare (?:run|report|submit|explain) .*)$", r"\1 || [ $? -eq 3 ]", shorter, flags=re.MULTILINE
        )  # so few rounds are inconclusive
        ended = cluster.shell(f"set -e\n{shorter}")
        seen += ended.stdout
        assert ended.returncode == 0, f"{script}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}\n{cluster.logs()}"
    for report in REPORTS:
        assert (cluster.home / report).stat().st_size > 10_000, report
    assert "On these nodes" in seen
    assert "#SBATCH --array=1-6%1" in seen
    assert "#PBS -J 1-6%1" in seen
    assert "costs with a proven cause: " in seen or "No cell costs anything" in seen, seen
    assert "unavailable" not in seen, seen
    assert not re.search(r"\d+ failed", seen), seen
    assert len(list((cluster.home / "results" / "site.job").glob("*_[12].log"))) == 2
    facts = json.loads((cluster.home / "results" / "site" / "plan.json").read_text())["facts"]
    assert [each["rounds"] for each in facts["allocations"].values()] == [[0], [1]]


def test_the_yaml_of_the_page_is_what_a_study_takes(tmp_path: Path) -> None:
    from tare import study

    for number, block in enumerate(blocks("yaml")):
        file = tmp_path / f"{number}.yaml"
        more = "cluster: slurm\n" if "cluster:" not in block else "environments: [bare, apptainer]\n"
        file.write_text(f"{block}\n{more}workloads: {{w: {{command: [true]}}}}\n")
        assert study.load(file).cluster == "slurm", block
