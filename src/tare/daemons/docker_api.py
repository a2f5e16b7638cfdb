"""Send requests to a Docker daemon over its socket: starting a client for each request takes longer than the request.

Docker Engine API 1.41: https://docs.docker.com/engine/api/v1.41/
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

from tare.daemons.daemons import MOST_ANSWER
from tare.errors import CommandFailed, InfrastructureError
from tare.system.node import Node

TIMEOUT_S: Final = 60.0


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("docker", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the daemon's socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def request(
    node: Node,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    what: str,
    timeout_s: float = TIMEOUT_S,
) -> Mapping[str, Any]:
    """Send one request to a node's daemon and return its response; `what` names the action in messages.

    Raises `CommandFailed` with the daemon's error message, and `InfrastructureError` if it does not respond.
    """
    connection = _Connection(node.docker_socket, timeout_s)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read(MOST_ANSWER)
        content: Mapping[str, Any] = json.loads(data) if data.strip() else {}
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InfrastructureError(f"{what} on {node.name} failed: the daemon does not answer ({error})") from error
    finally:
        connection.close()
    if answer.status >= http.HTTPStatus.BAD_REQUEST:
        raise CommandFailed(
            f"{what} on {node.name} failed: {content.get('message', answer.reason)}", status=answer.status
        )
    return content


def answers(node: Node) -> bool:
    """Return whether a node's daemon responds."""
    try:
        request(node, "GET", "/version", what="asking its version", timeout_s=5)
    except InfrastructureError:
        return False
    return True


def image_present(node: Node, tag: str) -> bool:
    """Return whether a node's daemon has an image."""
    try:
        request(node, "GET", f"/images/{tag}/json", what=f"looking for the image {tag}")
    except CommandFailed as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def keep_newest_images(node: Node, count: int) -> None:
    """Remove all images but the `count` that were imported last from a daemon that has no containers."""
    listed: Any = request(node, "GET", "/images/json", what="listing its images")
    newest_first = sorted(listed, key=lambda image: image["Created"], reverse=True)
    for image in newest_first[count:]:
        request(node, "DELETE", f"/images/{image['Id']}?force=true", what="removing an old image")


def start_container(node: Node, name: str, config: Mapping[str, Any]) -> int:
    """Create and start a container; return the number of its first process in the daemon's pid namespace."""
    what = f"starting the container {name}"
    request(node, "POST", f"/containers/create?name={name}", config, what=what)
    request(node, "POST", f"/containers/{name}/start", what=what)
    return int(request(node, "GET", f"/containers/{name}/json", what=what)["State"]["Pid"])


def remove_container(node: Node, name: str) -> None:
    """Remove a container, running or not; it is no error if it does not exist."""
    try:
        request(node, "DELETE", f"/containers/{name}?force=true", what=f"removing the container {name}")
    except CommandFailed as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise
