"""Cluster `ssh`: a study on hosts with a real sshd, as an ordinary user and as root, and what is left there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.live import MICRO, live, outcome
from integration.ssh_hosts import NAME, SshHosts, lend, ssh_hosts

pytestmark = live("sshd", "apptainer", "charliecloud", "mmdebstrap", "docker")
ORDINARY = ("bare", "bare+image", "apptainer", "charliecloud")
OWNED = ("bare", "bare+bridge", "docker+host", "docker+bridge", "docker+overlay")


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshHosts]:
    """Two hosts that share nothing, and their twins."""
    with ssh_hosts(2, nics=4, twins=True, shared=False) as up:
        lend(up.cache)
        yield up


def study(hosts: SshHosts, name: str, environments: tuple[str, ...], cluster: str, *, rounds: int = 1) -> Path:
    path = hosts.folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ncluster: {{ssh: {{ssh_config: {hosts.config}, {cluster}}}}}\n"
        f"environments: [{', '.join(environments)}]\nplacements: [{{nodes: 2, ranks_per_node: 1}}]\n"
        f"workloads: {{micro: {{time_limit: 300s, kernels: {MICRO}}}}}\n"
        f"repetition: {{rounds: {rounds}, max_rounds: {rounds}, turns: 2, reruns: 0}}\na_a: false\n"
    )
    return path


def stored(hosts: SshHosts, name: str, *, root: bool = False) -> list[dict[str, Any]]:
    folder = hosts.folder / "home" / "results" / name
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def left(hosts: SshHosts) -> list[str]:
    """Return what is left on the hosts: the user's processes, folders of runs, cgroups, links that were not there."""
    found = []
    for node in (*hosts.site.nodes, *hosts.site.daemon_nodes):
        seen = hosts.on(
            node, "/bin/sh", "-c",
            f"ps -o args= -u {NAME}; ps -o args= -C dockerd,containerd,orted; ls -d /tmp/tare-s* /run/docker* "
            "/tmp/tare-*/*/owner.json /run/tare/*/owner.json 2> /dev/null; "
            "ip -o link | grep -E 'docker|veth|tare|macvlan'",
        )  # fmt: skip
        found += [f"{node.name}: {line}" for line in seen.stdout.splitlines()]
    return found


def test_a_study_runs_as_an_ordinary_user_and_leaves_nothing(hosts: SshHosts) -> None:
    path = study(hosts, "ordinary", ORDINARY, "hosts: [alpha, beta]")
    ended = hosts.tare("run", path)
    assert ended.returncode == 3, ended.stdout + ended.stderr  # one round decides nothing
    trials = stored(hosts, "ordinary")
    assert len(trials) == len(ORDINARY)
    assert {outcome(trial) for trial in trials} == {"Completed"}
    assert "On these nodes" in ended.stdout
    assert left(hosts) == []


def test_networks_and_daemons_of_a_lab_work_on_hosts_where_tare_is_root(hosts: SshHosts) -> None:
    nodes = "hosts: [root@alpha, root@beta], daemon_hosts: [root@dalpha, root@dbeta]"
    network = "subnet: 10.214.0.0/24, nics: [data1, data2, data3], pod_addresses: 10.213.128.0/18"
    ended = hosts.tare("run", study(hosts, "owned", OWNED, f"{nodes}, {network}"), root=True)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert {outcome(trial) for trial in stored(hosts, "owned")} == {"Completed"}
    assert left(hosts) == []


def test_hosts_can_be_given_on_the_command_line(hosts: SshHosts) -> None:
    path = hosts.folder / "moved.yaml"
    path.write_text(study(hosts, "moved", ("bare", "apptainer"), "hosts: [x]").read_text())
    path.write_text(path.read_text().replace(f"cluster: {{ssh: {{ssh_config: {hosts.config}, hosts: [x]}}}}\n", ""))
    ended = hosts.tare("plan", path, "--hosts", "alpha,beta", "--ssh-config", hosts.config)
    assert ended.returncode == 0, ended.stderr
    assert "study moved-ssh: 2 cells, 2 can run here" in ended.stdout
    assert list((hosts.run / "tare").glob("ssh*")) == []  # the connections of a command without a run


def test_the_doctor_asks_the_hosts_in_a_screen_of_lines(hosts: SshHosts) -> None:
    ended = hosts.tare("doctor", "--hosts", "alpha,beta", "--ssh-config", hosts.config)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("cluster ssh (")
    assert len(lines) <= 24
    assert any(line.startswith("  runtimes: bare, ") for line in lines)
    assert list((hosts.run / "tare").glob("ssh*")) == []  # the connections of a command without a run


def test_a_host_that_is_down_is_named_with_the_reason(hosts: SshHosts) -> None:
    ended = hosts.tare("plan", study(hosts, "down", ("bare", "apptainer"), "hosts: [alpha, nowhere]"))
    assert ended.returncode == 5
    assert "node nowhere cannot be reached: there is no host of this name" in ended.stderr
