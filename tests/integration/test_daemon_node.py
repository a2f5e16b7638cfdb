"""`bare+dockerd` really runs on a node whose packet filter tracks connections for Docker, and `bare` does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.live import by_environment, ended, live, outcome, start, write_study

pytestmark = live("docker")

RULES = "echo node=$(hostname) rules=$(iptables-save | grep -c ctstate)"


@pytest.mark.parametrize(("name", "node", "tracks"), [("bare", "n", False), ("bare+dockerd", "d", True)])
def test_the_rules_of_the_daemon_are_where_the_ranks_are(name: str, node: str, tracks: bool, tmp_path: Path) -> None:
    command = ("launch", "--runtime", name, "--nodes", "2", "-n", "2", "--", "/bin/sh", "-c", RULES)
    result = ended(start(*command, cwd=tmp_path), 110)
    lines = sorted(line for line in result.stdout.splitlines() if line.startswith("node="))
    assert len(lines) == 2, result.stderr
    for index, line in enumerate(lines):
        assert line.startswith(f"node={node}{index} ")
        assert (int(line.rpartition("=")[2]) > 0) is tracks


def test_in_a_study_it_completes_on_the_twins_and_proves_its_traffic(tmp_path: Path) -> None:
    study = write_study(tmp_path, "daemon", ["bare", "bare+dockerd"])
    result = ended(start("run", study, cwd=tmp_path), 110)
    found = by_environment(tmp_path / "results" / "daemon")
    for name, node in (("bare", "n"), ("bare+dockerd", "d")):
        (trial,) = found[name]
        assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
        carried = {each["node"] for each in trial["traffic"] if each["role"] == "data NIC"}
        assert carried == {f"{node}0", f"{node}1"}
