"""docs/clusters.md and docs/slurm.md, command by command, as an ordinary user: on one machine, by ssh, and on Slurm.

tests/unit/docs/test_examples.py checks in `make test` that tare takes what the pages say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from subprocess import CompletedProcess

import pytest

from integration.live import live
from integration.slurm_nodes import slurm_nodes
from integration.ssh_hosts import lend, ssh_hosts
from unit.docs.test_examples import blocks

pytestmark = [*live("apptainer", "mmdebstrap"), pytest.mark.long]
SHORTER = {
    "pip install tare_hpc-*.whl": "tare --version",  # test_other_distributions has what pip installs
    "rounds: 6": "rounds: 2, max_rounds: 2",
    "tare submit site.yaml --wait": "tare submit site.yaml --wait --allocations 2",
}


def followed(page: str, shell: Callable[[str], CompletedProcess[str]]) -> str:
    """Run every script of a page, with fewer rounds, and return what they print; inconclusive results are fine."""
    text = "".join(blocks(page, "sh"))
    assert text.count("pip install tare_hpc-*.whl") == text.count("rounds: 6") == 1
    seen = ""
    for block in blocks(page, "sh"):
        shorter = reduce(lambda text, pair: text.replace(*pair), SHORTER.items(), block)
        script = re.sub(
            r"^(.*tare (?:run|report|submit|explain) .*)$", r"\1 || [ $? -eq 3 ]", shorter, flags=re.MULTILINE
        )
        ended = shell(f"set -e\n{script}")
        seen += ended.stdout
        assert ended.returncode == 0, f"{script}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    assert "On these nodes" in seen
    assert not re.search(r"\d+ failed", seen), seen
    return seen


@pytest.mark.requires("sshd", "charliecloud")
def test_every_command_of_the_page_on_clusters_works_as_it_stands() -> None:
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        assert "On this machine" in followed("clusters", hosts.shell)
        for report in ("results/mine-local/report.html", "results/pair-ssh/report.html", "pair.html"):
            assert (hosts.folder / "home" / report).stat().st_size > 10_000, report


@pytest.mark.requires("slurm")
def test_every_command_of_the_page_on_slurm_works_as_it_stands() -> None:
    with slurm_nodes(2, cores=2) as cluster:
        lend(cluster.cache)
        seen = followed("slurm", cluster.shell)
        results = cluster.home / "results"
        for report in ("first/report.html", "site/report.html", "site-srun/report.html", "../site.html"):
            assert (results / report).stat().st_size > 10_000, report
        assert "#SBATCH --array=1-6%1" in seen
        assert "#PBS -J 1-6%1" in seen
        assert "costs with a proven cause: " in seen or "No cell costs anything" in seen, seen
        assert "unavailable" not in seen, seen
        assert len(list((results / "site.job").glob("*_[12].log"))) == 2
        facts = json.loads((results / "site" / "plan.json").read_text())["facts"]
        assert [each["rounds"] for each in facts["allocations"].values()] == [[0], [1]]
