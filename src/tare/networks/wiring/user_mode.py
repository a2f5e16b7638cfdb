"""Run user-mode networks: a process outside the pod copies between its interface and ordinary sockets of the node.

An ordinary user's containers get a network this way, because it needs no privileges over the node's network. The node's
kernel sees the sockets of that process, and nothing of the pod.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.daemons.daemons import agent_argv
from tare.errors import InfrastructureError
from tare.networks.wiring.plug import interface_in
from tare.system import process
from tare.system.node import Nic, Pod
from tare.system.packages import install
from tare.system.process import Popen, find
from tare.system.user_namespace import is_real_root
from tare.system.waiting import wait_until

TUN: Final = Path("/dev/net/tun")
NETNS: Final = "/run/netns"
"""Path of the pod's network namespace in the process's own mounts: it drops privileges before opening it."""
BESIDE: Final = (
    f'set -e; mount -t tmpfs -o mode=755 tare /run; : > {NETNS}; mount --bind "/proc/$0/ns/net" {NETNS}; '
    'exec env --default-signal=PIPE "$@"'
)
"""Python ignores SIGPIPE, and pasta of Debian 12 exits if it starts with the signal ignored."""
MTU: Final = 65520
MACHINE_NIC: Final = Nic(name="", address="10.0.2.100", prefix=24)
"""What a pod has behind a user-mode network on a machine, as slirp4netns gives it; no address of the machine."""
ROUTES: Final = Path("/proc/net/route")
DEFAULT_ROUTE: Final = re.compile(r"^\S+\t0{8}\t", re.MULTILINE)
START_LIMIT_S: Final = 60.0


def probe(program: str, package: str) -> str | None:
    """Return why a user-mode network is not available here, or None."""
    if not is_real_root():
        return f"{program} runs in the cgroup of its node, which needs root"
    if find(program) is None:
        return f"{program} is not installed: {install(package)}"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{program} needs {TUN}, which cannot be opened here: modprobe tun"
    return None


def probe_machine(program: str, package: str) -> str | None:
    """Return why a user-mode network is not available to this user on this machine, or None."""
    if find(program) is None:
        return f"{program} is not installed: {install(package)}"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{program} needs {TUN}, which this user cannot open: have an administrator run chmod 666 {TUN}"
    if not re.search(DEFAULT_ROUTE, ROUTES.read_text()):
        return f"{program} copies the address of the interface with the default route, and this machine has none"
    return None


@contextmanager
def run_user_mode(pod: Pod, argv: Sequence[str], subnet: str) -> Iterator[None]:
    """Keep the process of a pod's network running, in the network and the cgroup of its node.

    `argv` names the pod's network namespace as `netns_of` says.
    """
    node = pod.node
    if userns_of(pod):
        with tempfile.TemporaryDirectory(prefix="tare-") as folder, _helper(pod, argv, subnet, Path(folder) / "log"):
            yield
        return
    inside = () if node.is_machine else ("nsenter", f"--net=/proc/{node.pid}/ns/net", "--")
    entry = {
        "cgroups": [str(folder) for folder in node.group.leaf.folders],
        "argv": [*inside, "unshare", "--mount", "--propagation", "private"],
    }
    whole = agent_argv(entry, ("/bin/sh", "-c", BESIDE, str(pod.pid), *argv))
    with tempfile.TemporaryDirectory(prefix="tare-") as folder, _helper(pod, whole, subnet, Path(folder) / "log"):
        yield


def netns_of(pod: Pod) -> str:
    """Return the path by which the process of a network finds a pod's network namespace."""
    return f"/proc/{pod.pid}/ns/net" if userns_of(pod) else NETNS


def userns_of(pod: Pod) -> str:
    """Return the path of the user namespace that owns a pod's network, "" if the process of the network is root."""
    return f"/proc/{pod.pid}/ns/user" if pod.node.is_machine and os.geteuid() != 0 else ""


@contextmanager
def _helper(pod: Pod, argv: Sequence[str], subnet: str, log: Path) -> Iterator[None]:
    with process.beside(argv, log=log, grace_s=0.5) as helper:
        _wait(pod, helper, subnet, log)
        yield


def _has_address(pod: Pod, subnet: str) -> bool:
    """Return whether a pod has an address in a subnet."""
    if not pod.node.is_machine:
        try:
            interface_in(pod.pid, subnet)
        except InfrastructureError:
            return False
        return True
    try:
        leaves = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", Path(f"/proc/{pod.pid}/net/fib_trie").read_text())
    except OSError:
        return False
    return any(ipaddress.ip_address(leaf) in ipaddress.ip_network(subnet) for leaf in leaves)


def _wait(pod: Pod, helper: Popen[str], subnet: str, log: Path) -> None:
    """Wait until the pod has an address; raise `InfrastructureError` with the process's output if it gets none."""
    wait_until(lambda: _has_address(pod, subnet) or helper.poll() is not None, START_LIMIT_S)
    if not _has_address(pod, subnet):
        output = log.read_text(errors="replace")[-600:].strip() or "no output"
        raise InfrastructureError(f"the network of {pod.name} did not come up: {output}")
