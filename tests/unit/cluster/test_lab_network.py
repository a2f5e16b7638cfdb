"""A lab makes its links in namespaces of its own: the machine's network is as it was while the lab is up."""

from __future__ import annotations

import os
import subprocess
import sys

from unit.images.writing import root

PROGRAM = """
import subprocess
import sys
from pathlib import Path
from tare.cluster import lab
from tare.model import LabSpec

LOOKS = ("ip -o -d link", "ip -o addr", "ip rule", "ip route show table all", "tc qdisc", "bridge fdb")

def network():
    settings = {str(file): file.read_text() for file in Path("/proc/sys/net").glob("ipv[46]/conf/*/*forwarding")}
    said = [subprocess.run(look.split(), capture_output=True, text=True, check=True).stdout for look in LOOKS]
    return settings, Path("/proc/sys/net/ipv4/ip_forward").read_text(), said

before = network()
made = lab.up(sys.argv[1], LabSpec(nodes=2, subnets=2, segmented=True), nics=2)
try:
    assert made.nodes[1].nics and network() == before, network()
finally:
    lab.down(made)
assert network() == before, network()
"""
"""What runs in a network namespace that stands for the machine's, so that other tests change nothing in it."""


@root
def test_the_machine_s_network_is_as_it_was_while_a_lab_is_up() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = ("unshare", "--net", sys.executable, "-c", PROGRAM, f"utest{os.getpid()}")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
