"""Run user-mode networks: a process outside the pod copies between its interface and ordinary sockets of the node.

An ordinary user's containers get a network this way, because it needs no privileges over the node's network. The node's
kernel sees the sockets of that process, and nothing of the pod.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.host import process
from tare.host.packages import install
from tare.host.process import Popen, find
from tare.host.user_namespace import is_real_root
from tare.node import Pod
from tare.services.daemons import agent_argv
from tare.wiring.plug import interface_in

TUN: Final = Path("/dev/net/tun")
NETNS: Final = "/run/netns"
"""Path of the pod's network namespace in the process's own mounts: it drops privileges before opening it."""
BESIDE: Final = (
    f'set -e; mount -t tmpfs -o mode=755 tare /run; : > {NETNS}; mount --bind "/proc/$0/ns/net" {NETNS}; '
    'exec env --default-signal=PIPE "$@"'
)
"""Python ignores SIGPIPE, and pasta of Debian 12 exits if it starts with the signal ignored."""
MTU: Final = 65520
START_LIMIT_S: Final = 10.0


def probe(program: str, package: str) -> str | None:
    """Return why a user-mode network is not available here, or None."""
    if not is_real_root():
        return f"{program} runs in the cgroup of its node, which needs root"
    if find(program) is None:
        return f"{program} is not installed: {install(package)}"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{program} needs {TUN}, which cannot be opened here: modprobe tun"
    return None


@contextmanager
def run_user_mode(pod: Pod, argv: Sequence[str], subnet: str) -> Iterator[None]:
    """Keep the process of a pod's network running, in the network and the cgroup of its node."""
    node = pod.node
    entry = {
        "cgroups": [str(folder) for folder in node.group.leaf.folders],
        "argv": ["nsenter", f"--net=/proc/{node.pid}/ns/net", "--", "unshare", "--mount", "--propagation", "private"],
    }
    whole = agent_argv(entry, ("/bin/sh", "-c", BESIDE, str(pod.pid), *argv))
    with tempfile.TemporaryDirectory(prefix="tare-") as folder:
        log = Path(folder) / "log"
        with process.beside(whole, log=log, grace_s=0.5) as helper:
            _wait(pod, helper, subnet, log)
            yield


def _wait(pod: Pod, helper: Popen[str], subnet: str, log: Path) -> None:
    """Wait until the pod has an address; raise `InfrastructureError` with the process's output if it gets none."""
    until = time.monotonic() + START_LIMIT_S
    while True:
        try:
            interface_in(pod.pid, subnet)
        except InfrastructureError:
            if helper.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
                continue
            output = log.read_text(errors="replace")[-600:].strip() or "no output"
            raise InfrastructureError(f"the network of {pod.name} did not come up: {output}") from None
        return
