"""Run containerd on a node of a lab, as what the kubelet starts containers with.

Everything that it writes is below the folder of its place, in the node's own /run, and ends with the node. Where a
process may not lower its `oom_score_adj` (a machine without CAP_SYS_RESOURCE), it leaves that as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.daemons.daemons import Daemon, Place, command, cover, run_daemon
from tare.errors import InfrastructureError
from tare.system.packages import install
from tare.system.process import find, run

PROGRAM: Final = "containerd"
CONTROL: Final = "ctr"
NAMESPACE: Final = "k8s.io"
"""containerd's namespace of what the kubelet uses."""
PLUG_INS: Final = Path("/usr/lib/cni")
PLUG_INS_OF_NODE: Final = "/run/tare-cni"
"""The folder on a node with links to those plug-ins, to which networks add their own."""
CNI_STATE: Final = Path("/var/lib/cni")
"""Where CNI notes addresses and results of pods: on every node a folder of its own is in its place."""
LIMIT_S: Final = 60.0
IMPORT_S: Final = 300.0
SPECIFICATION: Final = "container.json"
HOOK: Final = "show-boot-id"
SHOW_BOOT_ID: Final = """#!/bin/sh
# A container's /proc would show the machine's boot_id, the same on all nodes of a lab. The runtime calls this in the
# container's mount namespace before it becomes the root; its state is on the standard input.
set -e
bundle=$(sed -n 's/.*"bundle":"\\([^"]*\\)".*/\\1/p')
mount --bind "${0%/*}/boot_id" "$bundle/rootfs/proc/sys/kernel/random/boot_id"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Containerd:
    """A containerd; it answers once `wait` has returned."""

    daemon: Daemon

    @property
    def socket(self) -> str:
        """Return its socket, as the node sees it."""
        return socket_of(self.daemon.place)

    def wait(self) -> None:
        """Wait until it answers; raise `InfrastructureError` with the end of its log if it does not."""
        self.daemon.wait_for(self._answers, "an answer", limit_s=LIMIT_S)

    def import_image(self, archive: Path) -> None:
        """Import the images of a Docker archive, which the node must see at the same path."""
        self._ctr("images", "import", "--no-unpack", str(archive), timeout_s=IMPORT_S)

    def images(self) -> frozenset[str]:
        """Return the names of its images."""
        return frozenset(self._ctr("images", "ls", "-q").split())

    def _answers(self) -> bool | None:
        return True if self._ctr("version", check=False) else None

    def _ctr(self, *words: str, timeout_s: float = 30.0, check: bool = True) -> str:
        """Run containerd's client on the node and return its output, "" if it failed and that is no error."""
        place = self.daemon.place
        argv = (CONTROL, "--address", self.socket, "--namespace", NAMESPACE, *words)
        ended = run(command(place, place.node.group.leaf, argv), timeout_s=timeout_s, check=check)
        return "" if ended.status else ended.stdout


def probe() -> str | None:
    """Return what containerd needs and this machine lacks, or None."""
    for program, package in ((PROGRAM, "containerd"), ("runc", "runc")):
        if find(program) is None:
            return f"{program} is not installed: {install(package)}"
    if not (PLUG_INS / "loopback").exists():
        return f"CNI's plug-ins are not in {PLUG_INS}: {install('containernetworking-plugins')}"
    return None


def socket_of(place: Place) -> str:
    """Return the path of the socket of a place's containerd."""
    return f"{place.folder}/containerd.sock"


@contextmanager
def running(place: Place, *, sandbox_image: str, networks: Mapping[str, str]) -> Iterator[Containerd]:
    """Keep a containerd running in a place; its caller waits for it.

    `networks` has the folder of CNI configurations of each handler of runtime classes; "" is the usual one.
    """
    if reason := probe():
        raise InfrastructureError(f"containerd cannot be started: {reason}")
    file = place.path("containerd.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(configuration(place.folder, sandbox_image, networks))
    _write_specification(place)
    _cover_cni_state(place)
    _link_plug_ins(place)
    with run_daemon(place, "containerd", (PROGRAM, "--config", f"{place.folder}/containerd.toml")) as daemon:
        yield Containerd(daemon=daemon)


def _link_plug_ins(place: Place) -> None:
    folder = Path(f"/proc/{place.pid}/root{PLUG_INS_OF_NODE}")
    folder.mkdir(exist_ok=True)
    for plug_in in PLUG_INS.iterdir():
        (folder / plug_in.name).symlink_to(plug_in)


def _cover_cni_state(place: Place) -> None:
    """Put a folder of the node's own in the place of the machine's, so that nothing of its pods is left there."""
    place.path("cni-state").mkdir(exist_ok=True)
    CNI_STATE.mkdir(parents=True, exist_ok=True)
    cover(place, "cni-state", str(CNI_STATE))


def _write_specification(place: Place) -> None:
    """Write what all containers have in common: containerd's own, with a hook that shows them the node's boot_id."""
    place.path(SPECIFICATION).write_text(
        json.dumps(with_hook(json.loads(run((CONTROL, "oci", "spec")).stdout), place.folder))
    )
    place.path("boot_id").write_text(f"{place.node.boot_id}\n")
    place.path("boot_id").chmod(0o444)
    hook = place.path(HOOK)
    hook.write_text(SHOW_BOOT_ID)
    hook.chmod(0o755)


def with_hook(specification: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return a specification of containers (OCI runtime) with the hook in a folder."""
    return {**specification, "hooks": {"createContainer": [{"path": f"{folder}/{HOOK}"}]}}


def configuration(folder: str, sandbox_image: str, networks: Mapping[str, str]) -> str:
    """Return the text of containerd's configuration (version 2, TOML)."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    lines = [
        "version = 2",
        f"root = {_text(folder + '/containerd')}",
        f"state = {_text(folder + '/containerd-state')}",
        "[grpc]",
        f"  address = {_text(folder + '/containerd.sock')}",
        f"[{cri}]",
        "  restrict_oom_score_adj = true",
        f"  sandbox_image = {_text(sandbox_image)}",
        f"[{cri}.cni]",
        f"  bin_dir = {_text(PLUG_INS_OF_NODE)}",
        f"  conf_dir = {_text(networks[''])}",
        f"[{cri}.containerd]",
        '  default_runtime_name = "runc"',
    ]
    for handler, conf_dir in networks.items():
        lines += [
            f"[{cri}.containerd.runtimes.{handler or 'runc'}]",
            '  runtime_type = "io.containerd.runc.v2"',
            f"  base_runtime_spec = {_text(f'{folder}/{SPECIFICATION}')}",
            *([f"  cni_conf_dir = {_text(conf_dir)}"] if handler else []),
        ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """Return a basic string of TOML, which is written as in JSON."""
    return json.dumps(value)
