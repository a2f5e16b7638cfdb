"""`tare network`: a network by hand, on a lab of its own or on one that is up, until it is taken down."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from integration.live import Watch, ended, live, pids_of, reached, start, tare, wait_for

pytestmark = live("docker", "cni")
RUN = Path("/run/tare")


def test_a_network_stays_up_between_commands_and_goes_with_its_lab(tmp_path: Path) -> None:
    watch, name = Watch(), f"w{os.getpid()}"
    up = tare("network", "up", "bridge", "--name", name, cwd=tmp_path)
    try:
        assert up.status == 0, up.stderr
        watch.look(name)
        assert f"network bridge on the lab {name}: Linux's bridge itself" in up.stdout
        assert re.search(r"n0 -> n1: [1-5] of 5 echoes", up.stdout), up.stdout
        assert "a packet of 1500 bytes passes whole" in up.stdout
        assert f"tare network exec --name {name} n0 -- ip address" in up.stdout
        inside = tare("network", "exec", "--name", name, "n1", "--", "ip", "-o", "address", cwd=tmp_path)
        assert "10.214.1.2/24" in inside.stdout, inside.stderr
        pinged = tare("network", "exec", "--name", name, "n0", "--", "ping", "-c1", "-W60", "10.214.1.2", cwd=tmp_path)
        assert pinged.status == 0, pinged.stdout
        again = tare("network", "up", "macvlan", "--name", name, cwd=tmp_path)
        assert again.status == 2
        assert f"tare network down --name {name}" in again.stderr
        keeper = json.loads((RUN / f"{name}-network" / "network.json").read_text())["pid"]
    finally:
        down = tare("network", "down", "--name", name, cwd=tmp_path)
    assert down.status == 0, down.stderr
    # Whoever adopted it may take a moment to reap what has ended.
    wait_for(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper is gone")
    assert watch.left(name) == []
    assert tare("network", "down", "--name", name, cwd=tmp_path).status == 2


def test_a_network_can_be_put_on_a_lab_that_is_up_which_stays(tmp_path: Path) -> None:
    watch, name = Watch(), f"w{os.getpid()}"
    made = tare("lab", "up", "--name", name, "--nics", "2", cwd=tmp_path)
    assert made.status == 0, made.stderr
    try:
        before = pids_of(name)
        up = tare("network", "up", "macvlan", "--name", name, cwd=tmp_path)
        assert up.status == 0, up.stderr
        assert re.search("[1-5] of 5 echoes", up.stdout), up.stdout
        assert tare("network", "down", "--name", name, cwd=tmp_path).status == 0
        wait_for(lambda: pids_of(name) == before, "lab as it was")
        none = tare("network", "up", "overlay", "--runtime", "docker", "--name", name, cwd=tmp_path)
        assert none.status == 5
        assert "has no Docker" in none.stderr
    finally:
        tare("lab", "down", "--name", name, cwd=tmp_path)
    assert watch.left(name) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_in_the_foreground_it_stays_until_a_signal_comes(number: signal.Signals, tmp_path: Path) -> None:
    watch, name = Watch(), f"w{os.getpid()}"
    process = start("network", "up", "host", "--name", name, "--foreground", cwd=tmp_path)
    reached(process, (RUN / f"{name}-network" / "network.json").exists, "network")
    watch.look(name)
    os.kill(process.pid, number)
    result = ended(process)
    assert result.status == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"the network on the lab {name} is being removed"
    assert len(watch.namespaces) > 5
    assert watch.left(name) == []


def test_a_keeper_that_was_killed_is_noticed_and_its_lab_removed_by_the_next(own_state: Path, tmp_path: Path) -> None:
    watch, name = Watch(), f"w{os.getpid()}"
    assert tare("network", "up", "bridge", "--name", name, cwd=tmp_path).status == 0
    watch.look(name)
    os.kill(json.loads((own_state / f"{name}-network" / "network.json").read_text())["pid"], signal.SIGKILL)
    wait_for(lambda: tare("network", "down", "--name", name, cwd=tmp_path).status == 2, "note of its end")
    assert pids_of(name), "nothing was left: the test proves nothing"
    assert tare("network", "up", "bridge", "--name", name, cwd=tmp_path).status == 0
    assert tare("network", "down", "--name", name, cwd=tmp_path).status == 0
    assert watch.left(name) == []


def test_what_cannot_be_brought_up_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    watch, name = Watch(), f"w{os.getpid()}"
    (tmp_path / "x.conf").write_text('{"name": "x", "type": "macvlan", "master": "nowhere0"}')
    failed = tare("network", "up", "cni:x.conf", "--name", name, cwd=tmp_path)
    assert failed.status == 5, failed.stdout
    assert "CNI macvlan" in failed.stderr
    assert "Link not found (code 999)" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert watch.left(name) == []


def test_networks_are_listed_with_what_is_the_product_itself(tmp_path: Path) -> None:
    listed = tare("network", "list", cwd=tmp_path)
    assert listed.status == 0
    assert "bridge: available" in listed.stdout
    assert "weave: " in listed.stdout
    assert "Weave Net rebuilt" in listed.stdout
