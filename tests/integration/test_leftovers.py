"""What is made is undone: at the end, on Ctrl-C and SIGTERM, and after kill -9 by the next command."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.live import Watch, ended, lab_site, links_in, live, pids_of, tare, wait_for, write_study
from integration.studies import stopped
from tare.clusters.lab_site import LabSite
from tare.model import Environment, Placement
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.system.namespaces import netlink

pytestmark = live("cni")
BARE = ["bare", "bare+bridge"]
WITH_DAEMONS = ["bare", "docker+bridge", "docker+overlay"]
NEEDED = pytest.mark.requires("docker", "mmdebstrap")


@pytest.mark.parametrize(
    ("point", "number", "environments"),
    [
        pytest.param("store:after-trial:2", signal.SIGINT, BARE, marks=pytest.mark.smoke),
        ("lab:held", signal.SIGINT, BARE),
        ("pods:deployed:2", signal.SIGTERM, ["bare", "bare+direct", "bare+macvlan"]),
        ("turns:seated", signal.SIGINT, BARE),
        pytest.param("launch:started:3", signal.SIGTERM, WITH_DAEMONS, marks=NEEDED),
    ],
)
def test_a_run_that_is_interrupted_undoes_everything_and_ends_with_130(
    point: str, number: signal.Signals, environments: list[str], tmp_path: Path
) -> None:
    study = write_study(tmp_path, "cut", environments)
    watch = Watch()
    with stopped(point, "run", study, cwd=tmp_path) as process:
        name = f"s{process.pid}"
        (owner,) = Path("/run/tare").glob(f"{name}-*/owner.json")
        assert json.loads(owner.read_text())["pid"] == process.pid
        watch.look(name)
        os.kill(process.pid, number)
    result = ended(process)
    assert result.status == 130, result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("tare: interrupted"), result.stderr
    assert "Traceback" not in result.stderr
    assert len(watch.namespaces) > 5
    assert watch.left(name) == []


@pytest.mark.parametrize(
    ("second", "point"),
    [
        pytest.param("clean", "lab:before-down", marks=pytest.mark.smoke),
        ("run", "lab:up"),
        ("run", "lab:after-down"),
    ],
)
@pytest.mark.usefixtures("own_state")
def test_what_a_killed_run_left_is_removed_by_the_next_run_and_by_clean(
    second: str, point: str, tmp_path: Path
) -> None:
    study = write_study(tmp_path, "dead", BARE)
    watch = Watch()
    with stopped(point, "run", study, cwd=tmp_path) as process:
        name = f"s{process.pid}"
        watch.look(name)
        os.kill(process.pid, signal.SIGKILL)
    assert ended(process).status == -signal.SIGKILL
    assert watch.left(name), "nothing was left: the test proves nothing"
    if second == "run":
        result = tare("run", study, "--fresh", cwd=tmp_path)
        assert result.status in (0, 3), result.stderr
        assert watch.left(result.lab) == []
    else:
        listed = tare("clean", "--dry-run", cwd=tmp_path)
        assert f"would remove cgroup /tare/{name}" in listed.stdout
        assert pids_of(name), "--dry-run removed something"
        cleaned = tare("clean", cwd=tmp_path)
        assert cleaned.status == 0, cleaned.stdout + cleaned.stderr
    wait_for(lambda: not pids_of(name), "end of the processes")
    assert watch.left(name) == []


# --- NICs are given back whole ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    with lab_site(nics=2) as made:
        yield made


def interfaces(pid: int) -> dict[str, Any]:
    """Return what a node's network looks like: every link with kind, address, MTU, state, master, and its IPv4."""
    with netlink(pid) as route:
        addresses: dict[int, list[str]] = {}
        for entry in route.get_addr(family=2):
            addresses.setdefault(entry["index"], []).append(f"{entry.get_attr('IFA_LOCAL')}/{entry['prefixlen']}")
        return {
            link.get_attr("IFLA_IFNAME"): {
                "mac": link.get_attr("IFLA_ADDRESS"),
                "mtu": link.get_attr("IFLA_MTU"),
                "state": link.get_attr("IFLA_OPERSTATE"),
                "up": bool(link["flags"] & 1),
                "master": link.get_attr("IFLA_MASTER"),
                "addresses": sorted(addresses.get(link["index"], [])),
            }
            for link in links_in(route)
        }


@pytest.mark.parametrize("broken", [False, True], ids=["at the end", "after an error"])
@pytest.mark.parametrize("network", ["bridge", "direct", "macvlan"])
def test_a_network_gives_its_nic_back_whole_and_leaves_no_link(
    network: str, broken: bool, site: LabSite, tmp_path: Path
) -> None:
    environment = Environment(name=network, runtime="bare", network=network)
    before = [interfaces(node.pid) for node in site.nodes]
    switch = interfaces(site.lab.switch_pid)
    try:
        with deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=tmp_path)) as up:
            during = [interfaces(node.pid) for node in site.nodes]
            inside = [interfaces(pod.pid) for pod in up.pods]
            if broken:
                raise RuntimeError("the round broke")
    except RuntimeError:
        assert broken
    for node in (0, 1):
        assert during[node] != before[node]
        assert "eth0" in inside[node]
        assert inside[node]["eth0"]["addresses"] == before[node]["data1"]["addresses"]
        assert ("data1" in during[node]) == (network != "direct")
        assert during[node]["data0"] == before[node]["data0"]
    wait_for(lambda: [interfaces(node.pid) for node in site.nodes] == before, "whole NIC")
    wait_for(lambda: interfaces(site.lab.switch_pid) == switch, "whole switch")
