"""Launch over ssh: an sshd in each pod, and the launcher in the first, the "master container" (PEARC'18, 3.2 to 3.4).

Keys are created for one environment of one run and removed with its folder; the hosts' key is pinned. An sshd listens
only on its pod's own address, accepts only this key, and passes on the environment that the runtime gives to commands
in its pod: the image's. On a node's network it has its own port (from the paper's 9100 on), elsewhere 22.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.daemons.daemons import agent_argv
from tare.errors import InfrastructureError
from tare.system.node import Pod
from tare.system.packages import install, script
from tare.system.process import find, need, run

PORT_ON_NODE: Final = 9100
PORT: Final = 22
AGENT_NAME: Final = "tare-ssh"
EMPTY: Final = "empty"
"""The folder of the keys in which an sshd locks up what talks to clients, where a container has no /run of its own."""
RIGHTS: Final = ("CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT")
"""What an sshd needs to listen on port 22 and to give up its rights (capabilities(7))."""
SEPARATION: Final = "/run/sshd"
"""Where an sshd of Debian looks for that folder."""
SSHD: Final = ("/usr/sbin/sshd", "/opt/tare/openssh/usr/sbin/sshd")
START: Final = (
    "mkdir -p {folder}; for sshd in {programs}; do [ ! -x $sshd ] || "
    '{{ said=$($sshd -t -f "$0" 2>&1) || {{ echo "$said" >&2; exit 1; }}; exec $sshd -f "$0"; }}; done; '
    "echo 'there is no sshd here' >&2; exit 127"
).format(programs=" ".join(SSHD), folder=SEPARATION)
"""Starts an sshd: its configuration is the argument. It daemonizes once it listens."""

LISTENS_S: Final = 60.0
NOT_PASSED_ON: Final = frozenset({"HOME", "HOSTNAME", "PWD", "SHLVL", "TERM", "USER", "LOGNAME", "SHELL", "_"})
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """A host that is reached by ssh: its name in the host file, its sshd's address and port, and its pod."""

    name: str
    address: str
    port: int
    pod: Pod


def port_of(pod: Pod, address: str, folder: Path, wanted: int = 0) -> int:
    """Return the port of a pod's sshd: `wanted`, or 9100 on a node's network and 22 on the pod's own.

    Pods of several environments, or placements, can share a node's address: each takes the port after those before it.
    `folder` holds this launch's keys; its siblings hold those of other launches.
    """
    port = wanted or (PORT if pod.own_network else PORT_ON_NODE)
    taken = {line for file in folder.parent.glob("ssh-*/sshd-*") for line in file.read_text().splitlines()[:1]}
    while listen_line(address, port) in taken:
        port += 1
    return port


def listen_line(address: str, port: int) -> str:
    """Return the first line of an sshd's configuration."""
    return f"ListenAddress {address}:{port}"


def client_config(hosts: Sequence[SshHost], folder: Path) -> str:
    """Return the client's configuration: an alias for each host, and none of the user's settings."""
    aliases = "".join(
        f"Host {host.name}\n  HostName {host.address}\n  Port {host.port}\n  HostKeyAlias {host.name}\n"
        for host in hosts
    )
    return (
        f"{aliases}Host *\n"
        f"  User root\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n  BatchMode yes\n  PreferredAuthentications publickey\n"
        "  ForwardAgent no\n  ForwardX11 no\n  ConnectTimeout 20\n  LogLevel ERROR\n"
    )


def known_hosts(hosts: Sequence[SshHost], public_key: str) -> str:
    """Return the pinned keys: every host has this launch's key."""
    kind, key = public_key.split()[:2]
    return "".join(f"{host.name} {kind} {key}\n" for host in hosts)


def daemon_config(host: SshHost, folder: Path, environment: Mapping[str, str]) -> str:
    """Return the configuration of a host's sshd; sessions get `environment`."""
    passed = " ".join(
        f'"{name}={value}"'
        for name, value in sorted(environment.items())
        if name not in NOT_PASSED_ON and VARIABLE.fullmatch(name) and not re.search(r'["\\\n]', value)
    )
    return (
        f"{listen_line(host.address, host.port)}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\n"
        "PermitRootLogin prohibit-password\nPubkeyAuthentication yes\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nAllowUsers root\n"
        "AllowAgentForwarding no\nAllowTcpForwarding no\nX11Forwarding no\nPermitTunnel no\nPrintMotd no\n"
        "MaxStartups 128\nMaxSessions 64\nLoginGraceTime 20\nLogLevel ERROR\n"
        f"{f'SetEnv {passed}' if passed else ''}\n"
    )


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Keep the folder with the keys; create it before the pods that are shown it, and remove it after them."""
    keygen = need("ssh-keygen", package="openssh-client")
    folder.mkdir(mode=0o755)
    (folder / EMPTY).mkdir(mode=0o755)
    for name in ("user", "host"):
        run((keygen, "-q", "-t", "ed25519", "-N", "", "-C", "tare", "-f", str(folder / name)), timeout_s=20)
    agent = folder / AGENT_NAME
    agent.write_text(f'#!/bin/sh\nexec ssh -F {shlex.quote(str(folder))}/config "$@"\n')
    agent.chmod(0o755)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def introduce(hosts: Sequence[SshHost], folder: Path) -> None:
    """Write the client's configuration and the pinned keys for all hosts of a launch."""
    (folder / "config").write_text(client_config(hosts, folder))
    (folder / "known_hosts").write_text(known_hosts(hosts, (folder / "host.pub").read_text()))


@contextmanager
def listening(hosts: Sequence[SshHost], folder: Path) -> Iterator[tuple[frozenset[int], ...]]:
    """Keep an sshd in the pod of each of a node's hosts; yield their process numbers by host."""
    started: list[frozenset[int]] = []
    try:
        for host in hosts:
            started += [_start(host, folder)]
        yield tuple(started)
    finally:
        for pid in {pid for pids in started for pid in pids}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _start(host: SshHost, folder: Path) -> frozenset[int]:
    """Start the sshd of a host and return its number.

    Its own cgroup sets it apart from the processes that it starts.
    """
    pod = host.pod
    config = folder / f"sshd-{host.name}"
    config.write_text(daemon_config(host, folder, _environment_of(pod)))
    if listens(pod.pid, host.port):
        raise InfrastructureError(
            f"port {host.port} of {host.name} is in use, so sshd cannot listen on it",
            remedy="choose another one with ssh_port",
        )
    before = set(pod.group.pids())
    entry: dict[str, object] = {"argv": list(pod.enter)}
    if pod.join_groups:
        entry |= {"cgroups": [str(group) for group in pod.group.folders], "cpus": list(pod.node.cores)}
    result = run(agent_argv(entry, ("/bin/sh", "-c", START, str(config))), check=False, timeout_s=20)
    until = time.monotonic() + LISTENS_S
    while result.status == 0 and time.monotonic() < until:
        if listens(pod.pid, host.port):
            return frozenset(pod.group.pids()) - before
        time.sleep(0.005)
    last_line = result.stderr_tail.splitlines()[-1:] or [f"it did not listen within {LISTENS_S:g} s"]
    raise InfrastructureError(f"sshd of {host.name} does not start on {host.address}:{host.port}: {last_line[0]}")


def listens(pid: int, port: int) -> bool:
    """Return whether a process listens on a TCP port in a process's network namespace (proc(5), /proc/net/tcp)."""
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


def _environment_of(pod: Pod) -> dict[str, str]:
    """Return the variables that a command gets which the runtime starts in a pod; a bare pod has none."""
    what = f"asking {pod.name} for its variables"
    text = run(("env", "-i", *pod.enter, "env", "-0"), what=what, timeout_s=20).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def probe_node() -> str | None:
    """Return what bare processes, which use this machine's files, lack for ssh, or None."""
    if not any(Path(path).exists() for path in SSHD):
        return f"sshd is not installed: {script('tools/bootstrap')} unpacks it, or {install('openssh-server')}"
    if find("ssh") is None:
        return f"ssh is not installed: {install('openssh-client')}"
    return None
