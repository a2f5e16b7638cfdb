"""docs/clusters.md, command by command, as an ordinary user: on one machine, then on two by ssh."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import live
from integration.ssh_hosts import REPOSITORY, SshHosts, lend, ssh_hosts

pytestmark = [*live("sshd", "apptainer", "charliecloud", "mmdebstrap"), pytest.mark.alone]
PAGE = REPOSITORY / "docs" / "clusters.md"
INSTALL = "pip install tare-hpc"
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
ROUNDS = "rounds: 6"
"""The rounds of the page's study; with all of them the test would take four minutes."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshHosts]:
    with ssh_hosts(2, cores=2, shared=False) as up:
        lend(up.cache)
        up.configure_user()
        yield up


def commands() -> list[str]:
    """Return the blocks of commands of the page."""
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_every_command_of_the_page_works_as_it_stands(hosts: SshHosts) -> None:
    blocks = commands()
    assert sum(INSTALL in block for block in blocks) == 1
    assert sum(ROUNDS in block for block in blocks) == 1
    seen = ""
    for block in blocks:
        # what pip installs is tried in root file systems of other distributions (test_other_distributions.py)
        script = block.replace(INSTALL, "tare --version").replace(ROUNDS, "rounds: 2, max_rounds: 2")
        script = re.sub(
            r"^(tare (?:run|report) .*)$", r"\1 || [ $? -eq 3 ]", script, flags=re.MULTILINE
        )  # some are inconclusive
        ended = hosts.shell(f"set -e\n{script}")
        seen += ended.stdout
        assert ended.returncode == 0, f"{block}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    home = hosts.folder / "home"
    for report in ("results/mine-local/report.html", "results/pair-ssh/report.html", "pair.html"):
        assert (home / report).stat().st_size > 10_000, report
    assert "On this machine" in seen
    assert "On these nodes" in seen
    assert not re.search(r"\d+ failed", seen), seen


def test_the_yaml_of_the_page_is_what_a_study_takes(tmp_path: Path) -> None:
    from tare import study

    hosts, pods = PAGE.read_text().split("## Pods of a Kubernetes")
    for number, block in enumerate(YAML.findall(hosts)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"{block}\nenvironments: [bare, docker]\nworkloads: {{w: {{command: [true]}}}}\n")
        assert study.load(file).lab.hosts, shlex.quote(block)
    file = tmp_path / "pods.yaml"
    file.write_text(YAML.findall(pods)[0])
    assert study.load(file).lab.kubernetes.selector == "pool=hpc"
