"""Open connections by ssh: one to each host, over which its service and all launches of a study go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tare.agent.remote.timing import CONNECT_S, PROBE_S, PROBES
from tare.clusters.connections import Connections
from tare.clusters.ssh_errors import explained
from tare.errors import MissingTool
from tare.system.packages import install
from tare.system.process import find

OPTIONS: Final = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(PROBE_S),
    "ServerAliveCountMax": str(PROBES),
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "LogLevel": "ERROR",
}
"""Keep ssh from prompting, and make it reject unknown host keys."""


def ssh_argv(program: str, config: str, socket: Path, host: str, *, first: bool) -> tuple[str, ...]:
    """Return the argv prefix that runs one string on a host; the `first` opens the connection that others share."""
    options = {**OPTIONS, "ControlPath": str(socket), "ControlMaster": "yes" if first else "no", "ControlPersist": "no"}
    words = (word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    return (program, *(("-F", config) if config else ()), "-T", *words, "--", host)


class SshConnections(Connections):
    """Connections to hosts by ssh."""

    def __init__(self, hosts: Sequence[str], config: str = "", *, netlink: bool = False) -> None:
        program = find("ssh")
        if program is None:
            raise MissingTool("ssh is not installed", remedy=install("openssh-client"))
        self._program, self._config = program, config
        super().__init__(hosts, kind="ssh", netlink=netlink)

    def opening(self, number: int) -> tuple[str, ...]:
        self._socket(number).unlink(missing_ok=True)
        return ssh_argv(self._program, self._config, self._socket(number), self.hosts[number], first=True)

    def reach(self, number: int) -> tuple[str, ...]:
        return ssh_argv(self._program, self._config, self._socket(number), self.hosts[number], first=False)

    def explain(self, number: int, words: str) -> str:
        return explained(self.hosts[number], words)

    def _socket(self, number: int) -> Path:
        return self._folder / str(number)
