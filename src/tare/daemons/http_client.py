"""Send requests to daemons over HTTP: through a Unix socket, or with TLS from inside a node's network namespace.

Every request has its own connection. The standard library is enough, and urllib3 opens no connection in another network
namespace (docs/adr/0036-libraries.md).
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from tare.errors import RequestFailed
from tare.system.namespaces import inside_network

REQUEST_S: Final = 60.0
READY_S: Final = 5.0
MOST_ANSWER: Final = 64 << 20
"""Bytes that are read of one answer of a daemon."""

Connected = Callable[[float], AbstractContextManager[http.client.HTTPConnection]]
"""What connects, with a time limit in seconds for each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """A client of one daemon. `name` is what messages call the daemon; a `token` signs every request."""

    name: str
    connected: Connected
    token: str = field(default="", repr=False)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the daemon's answer, which is JSON, or {} if it is empty; raise `RequestFailed`."""
        status, data = self._send(method, path, body, REQUEST_S)
        try:
            content = json.loads(data) if data.strip() else {}
        except ValueError:
            content = None
        if status >= HTTPStatus.BAD_REQUEST:
            words = content.get("message") if isinstance(content, dict) else None
            said = words or data[-300:].decode(errors="replace").strip()
            raise RequestFailed(f"{self.name} refuses {method} {path} with status {status}: {said}", status=status)
        if content is None:
            raise RequestFailed(f"{self.name} does not answer {method} {path}: its answer is not JSON, or too long")
        return content

    def answers(self, path: str) -> bool:
        """Return whether the daemon answers a GET with success."""
        try:
            return self._send("GET", path, None, READY_S)[0] == HTTPStatus.OK
        except RequestFailed:
            return False

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, limit_s: float) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            with self.connected(limit_s) as connection:
                connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read(MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise RequestFailed(f"{self.name} does not answer {method} {path}: {reason}") from error


def through_socket(path: str) -> Connected:
    """Return what connects to a Unix socket."""

    @contextmanager
    def connected(limit_s: float) -> Iterator[http.client.HTTPConnection]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
            opened.settimeout(limit_s)
            opened.connect(path)
            connection = http.client.HTTPConnection("localhost", timeout=limit_s)
            connection.sock = opened
            yield connection

    return connected


def inside(pid: int, server: tuple[str, int], context: ssl.SSLContext) -> Connected:
    """Return what connects with TLS to a server's address and port, in the network namespace of a process."""

    @contextmanager
    def connected(limit_s: float) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPSConnection(*server, timeout=limit_s, context=context)
        try:
            with inside_network(pid):  # a socket stays in the namespace in which it was created
                connection.connect()
            yield connection
        finally:
            connection.close()

    return connected
