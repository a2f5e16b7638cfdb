"""Tutorials, docs/clusters.md and docs/slurm.md, command by command: on one machine, by ssh, on Slurm, in a lab.

All but the lab's are run as an ordinary user.

tests/unit/docs/test_examples.py checks in `make test` that tare takes what the pages say.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from integration.live import TARE, live
from integration.slurm_nodes import slurm_nodes
from integration.ssh_hosts import REPOSITORY, lend, ssh_hosts
from unit.docs.test_examples import DOCS, blocks

pytestmark = [*live("apptainer", "mmdebstrap"), pytest.mark.long]
INSTALLED = {"pip install tare_hpc-*.whl": "tare --version"}  # test_other_distributions has what pip installs
SHORTER = {
    **INSTALLED,
    "rounds: 6": "rounds: 2, max_rounds: 2",
    "tare submit site.yaml --wait": "tare submit site.yaml --wait --allocations 2",
    "tare submit job.yaml --wait": "tare submit job.yaml --wait --allocations 2",
}
"""What is run in place of words of a page, so that it takes less time."""


def scripts(page: str, *, without: str = "") -> list[str]:
    """Return the scripts of a page, `without` those of a section."""
    left_out = re.findall(rf"^## {without}$.*?(?=^## )", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    assert bool(left_out) == bool(without)
    return [block for block in blocks(page, "sh") if not any(block in section for section in left_out)]


def followed(
    found: list[str], shell: Callable[[str], CompletedProcess[str]], words: Mapping[str, str] = SHORTER
) -> str:
    """Run every script, with other `words` for some, and return what they print; inconclusive results are fine."""
    seen = ""
    for block in found:
        shorter = reduce(lambda text, pair: text.replace(*pair), words.items(), block)
        script = re.sub(
            r"^(.*tare (?:run|quick|report|submit|explain) .*)$", r"\1 || [ $? -eq 3 ]", shorter, flags=re.MULTILINE
        )
        ended = shell(f"set -e\n{script}")
        seen += ended.stdout
        assert ended.returncode == 0, f"{script}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    assert not re.search(r"\d+ failed", seen), seen
    return seen


@pytest.fixture
def alone() -> Iterator[Callable[[str], CompletedProcess[str]]]:
    """Provide a shell of an ordinary user of this machine, in a folder of their own; tare and its image are there."""
    with ssh_hosts(1, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        yield lambda script: hosts.shell(f"mkdir -p work && cd work && {script}", alone=True)


@pytest.mark.requires("sshd")
def test_every_command_of_the_first_tutorial_works_and_ends_in_a_table(
    alone: Callable[[str], CompletedProcess[str]],
) -> None:
    seen = followed(scripts("tutorials/first-verdict"), alone, INSTALLED)
    assert re.search(r"^apptainer +[✓▲▼?]", seen, re.MULTILINE), seen


@pytest.mark.requires("sshd", "charliecloud")
def test_every_command_of_the_second_tutorial_works_with_the_program_of_the_first(
    alone: Callable[[str], CompletedProcess[str]],
) -> None:
    program = next(script for script in scripts("tutorials/first-verdict") if "mpicc" in script)
    seen = followed([program, *scripts("tutorials/your-application"), "tail -c 20 app.html"], alone, INSTALLED)
    (heat,) = set(re.findall(r"^heat [\d.]+$", seen, re.MULTILINE))
    assert f"`{heat}`" in (DOCS / "tutorials" / "your-application.md").read_text()
    assert re.search(r"^charliecloud +[✓▲▼?]", seen, re.MULTILINE), seen
    assert "</html>" in seen


@pytest.mark.requires("sshd")
def test_every_command_of_the_tutorial_on_clusters_works_on_hosts_by_ssh() -> None:
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        assert "On these nodes" in followed(scripts("tutorials/your-cluster", without="By Slurm"), hosts.shell)


@pytest.mark.requires("slurm")
def test_every_command_of_the_tutorial_on_clusters_works_on_slurm() -> None:
    with slurm_nodes(2, cores=2) as cluster:
        lend(cluster.cache)
        assert "On these nodes" in followed(scripts("tutorials/your-cluster", without="By ssh"), cluster.shell)
        assert (cluster.home / "job.html").stat().st_size > 10_000


@pytest.mark.requires("podman")
def test_every_command_of_the_tutorial_on_causes_works_as_it_stands(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "tare"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(TARE)} "$@"\n')
    command.chmod(0o755)
    variables = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY / "src")}

    def shell(script: str) -> CompletedProcess[str]:
        return run(("/bin/sh", "-c", script), cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    seen = followed(scripts("tutorials/why-slow"), shell, {})
    assert "packet filter and connection tracking (proven: " in seen, seen
    assert "remedy: " in seen, seen


@pytest.mark.requires("sshd", "charliecloud")
def test_every_command_of_the_page_on_clusters_works_as_it_stands() -> None:
    with ssh_hosts(2, cores=2, shared=False) as hosts:
        lend(hosts.cache)
        hosts.configure_user()
        seen = followed(scripts("clusters"), hosts.shell)
        assert "On this machine" in seen
        assert "On these nodes" in seen
        for report in ("results/mine-local/report.html", "results/pair-ssh/report.html", "pair.html"):
            assert (hosts.folder / "home" / report).stat().st_size > 10_000, report


@pytest.mark.requires("slurm")
def test_every_command_of_the_page_on_slurm_works_as_it_stands() -> None:
    with slurm_nodes(2, cores=2) as cluster:
        lend(cluster.cache)
        seen = followed(scripts("slurm"), cluster.shell)
        assert "On these nodes" in seen
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
