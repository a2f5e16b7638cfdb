"""Run etcd, the key-value store through which hosts coordinate in flannel and Docker's classic overlay.

It is Debian's, unpacked by `tools/networks` because installing the package would start one on this machine. Each
environment that needs one gets its own; its data are in the node's /run and end with the node.

Containers on a node's network can reach it, so it serves only who has its certificate (`tare.daemons.certificate`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.daemons import certificate
from tare.daemons.certificate import CERTIFICATE, KEY
from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.daemons.http_client import HttpClient, inside
from tare.errors import InfrastructureError
from tare.system.packages import script
from tare.system.process import find

OWN: Final = Path("/opt/tare/etcd/usr/bin/etcd")
PORT: Final = 2379
PEER_PORT: Final = 2380
LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdStore:
    """An etcd at an address on the control network; it responds once `wait` has returned."""

    address: str
    daemon: Daemon

    @property
    def url(self) -> str:
        """Return its URL for clients."""
        return url_of(self.address)

    def wait(self) -> None:
        """Wait until it responds; raise `InfrastructureError` with the end of its log if it does not."""
        server = self._server()
        self.daemon.wait_for(lambda: server.answers("/health") or None, "an answer", limit_s=LIMIT_S)

    def put(self, key: str, value: str) -> None:
        """Store a value under a key through etcd's API 3."""
        body = {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}
        self._server().ask("POST", "/v3/kv/put", body)

    def _server(self) -> HttpClient:
        place = self.daemon.place
        connected = inside(place.pid, (self.address, PORT), certificate.context(place.path()))
        return HttpClient(name=f"etcd at {self.url}", connected=connected)


def url_of(address: str) -> str:
    """Return the URL for clients of an etcd at an address."""
    return f"https://{address}:{PORT}"


def program() -> str | None:
    """Return the path of etcd, or None: the system's, which gets security updates, else the unpacked one."""
    return find("etcd") or (str(OWN) if OWN.exists() else None)


def probe() -> str | None:
    """Return that etcd is missing and how to install it, or None."""
    return certificate.probe() if program() else f"etcd is not installed: run {script('tools/networks etcd')}"


@contextmanager
def running(place: Place, address: str, *, version_2: bool = False) -> Iterator[EtcdStore]:
    """Keep an etcd running in a place that has the address, and in its folder a certificate for it.

    Its caller may wait for it at once or later.
    """
    path = program()
    if path is None:
        raise InfrastructureError(probe() or "no etcd")
    with run_daemon(place, "etcd", command(path, address, place.folder, version_2=version_2)) as daemon:
        yield EtcdStore(address=address, daemon=daemon)


def command(path: str, address: str, folder: str, *, version_2: bool) -> tuple[str, ...]:
    """Return the argv of a single etcd; with `version_2` it also supports the API that Docker uses."""
    client, peer = url_of(address), f"https://{address}:{PEER_PORT}"
    known, key = f"{folder}/{CERTIFICATE}", f"{folder}/{KEY}"
    return (
        path, "--name", "tare", "--data-dir", f"{folder}/etcd",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"tare={peer}",
        "--cert-file", known, "--key-file", key, "--trusted-ca-file", known, "--client-cert-auth=true",
        "--peer-cert-file", known, "--peer-key-file", key, "--peer-trusted-ca-file", known,
        "--peer-client-cert-auth=true",
        "--logger", "zap", "--log-level", "warn",
        *(("--enable-v2=true",) if version_2 else ()),
    )  # fmt: skip
