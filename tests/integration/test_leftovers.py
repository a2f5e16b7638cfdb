"""What is made is undone: at the end, on Ctrl-C and SIGTERM, and after kill -9 by the next command."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Watch,
    cgroup_folders,
    ended,
    lab_site,
    links_in,
    live,
    pids_of,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)
from tare.deploy.pods import deployed
from tare.host.namespaces import netlink
from tare.model import Environment, Placement
from tare.node_service.order import Files

pytestmark = [*live("cni"), pytest.mark.alone]
WITH_DAEMONS = ["bare", "docker+bridge", "docker+overlay"]
NEEDED = pytest.mark.requires("docker", "mmdebstrap")
ENOUGH = "{rounds: 40, max_rounds: 40}"


def has_trials(results: Path) -> bool:
    return bool(trials(results))


@pytest.mark.parametrize(
    ("environments", "number"),
    [
        pytest.param(["bare", "bare+bridge", "bare+direct"], signal.SIGINT, id="bare-SIGINT"),
        pytest.param(["bare", "bare+bridge", "bare+direct"], signal.SIGTERM, id="bare-SIGTERM", marks=pytest.mark.long),
        pytest.param(WITH_DAEMONS, signal.SIGINT, id="docker-SIGINT", marks=NEEDED),
        pytest.param(WITH_DAEMONS, signal.SIGTERM, id="docker-SIGTERM", marks=[NEEDED, pytest.mark.long]),
    ],
)
def test_a_run_that_is_interrupted_undoes_everything_and_ends_with_130(
    environments: list[str], number: signal.Signals, tmp_path: Path
) -> None:
    study = write_study(tmp_path, "cut", environments, repetition=ENOUGH)
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    with watch.looking(name):
        wait_for(lambda: has_trials(tmp_path / "results" / "cut") or process.poll() is not None, "trial")
        assert process.poll() is None, process.stderr.read()
        os.kill(process.pid, number)
        result = ended(process, 30)
    assert result.status == 130, result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("tare: interrupted"), result.stderr
    assert "Traceback" not in result.stderr
    assert len(watch.namespaces) > 5
    assert watch.left(name) == []


@pytest.mark.parametrize("when", ["while the lab is made", "while pods are made"])
def test_a_run_that_is_interrupted_early_undoes_everything_too(when: str, tmp_path: Path) -> None:
    study = write_study(tmp_path, "early", ["bare", "bare+bridge", "bare+macvlan"], repetition=ENOUGH)
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    if when == "while the lab is made":
        wait_for(lambda: cgroup_folders(name) or process.poll() is not None, "cgroup")
    else:
        wait_for(lambda: len(pids_of(name)) > 4 or process.poll() is not None, "pod")
    os.kill(process.pid, signal.SIGINT)
    result = ended(process, 30)
    assert result.status == 130, result.stderr
    assert watch.left(name) == []


@pytest.mark.parametrize("second", ["run", "clean"])
def test_what_a_killed_run_left_is_removed_by_the_next_run_and_by_clean(second: str, tmp_path: Path) -> None:
    study = write_study(tmp_path, "dead", ["bare", "bare+bridge"], repetition="{rounds: 2, max_rounds: 2}")
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    wait_for(lambda: has_trials(tmp_path / "results" / "dead") or process.poll() is not None, "trial")
    watch.look(name)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert pids_of(name), "nothing was left: the test proves nothing"
    if second == "run":
        result = tare("run", study, cwd=tmp_path)
        assert result.status in (0, 3), result.stderr
        assert watch.left(result.lab) == []
    else:
        listed = tare("clean", "--dry-run", cwd=tmp_path)
        assert f"would remove cgroup /tare/{name}" in listed.stdout
        assert pids_of(name), "--dry-run removed something"
        from tare.node_service import clean  # `tare clean` would also remove the labs of others who test here

        clean.remove_lab(name)
    wait_for(lambda: not pids_of(name), "end of the processes", 5)
    assert watch.left(name) == []


# --- NICs are given back whole ----------------------------------------------------------------------------------


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
def test_a_network_gives_its_nic_back_whole_and_leaves_no_link(network: str, broken: bool, tmp_path: Path) -> None:
    environment = Environment(name=network, runtime="bare", network=network)
    files = Files(host_prefix=tmp_path)
    watch = Watch()
    with lab_site(nics=2) as site:
        name = site.name
        before = [interfaces(node.pid) for node in site.nodes]
        switch = interfaces(site.lab.switch_pid)
        try:
            with deployed(site, environment, Placement(), slot=0, nic=1, files=files) as up:
                during = [interfaces(node.pid) for node in site.nodes]
                inside = [interfaces(side.pod.pid) for side in up.sides]
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
        wait_for(lambda: [interfaces(node.pid) for node in site.nodes] == before, "whole NIC", 5)
        wait_for(lambda: interfaces(site.lab.switch_pid) == switch, "whole switch", 5)
    assert watch.left(name) == []


def test_a_run_s_state_folder_tells_who_owns_it(tmp_path: Path) -> None:
    study = write_study(tmp_path, "own", ["bare", "bare+bridge"], repetition=ENOUGH)
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    (file,) = wait_for(lambda: list(Path("/run/tare").glob(f"{name}-*/owner.json")), "state folder", 10)
    wait_for(lambda: file.read_text().strip(), "owner")
    assert json.loads(file.read_text())["pid"] == process.pid
    os.kill(process.pid, signal.SIGINT)
    assert ended(process).status == 130
