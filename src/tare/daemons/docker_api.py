"""Send requests to a Docker daemon over its socket: starting a client for each request takes longer than the request.

Docker Engine API 1.41: https://docs.docker.com/engine/api/v1.41/
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tare.daemons.http_client import HttpClient, through_socket
from tare.errors import RequestFailed
from tare.system.node import Node


def daemon(node: Node) -> HttpClient:
    """Return a client of a node's daemon."""
    return HttpClient(name=f"the Docker daemon on {node.name}", connected=through_socket(node.docker_socket))


def image_present(node: Node, tag: str) -> bool:
    """Return whether a node's daemon has an image."""
    try:
        daemon(node).ask("GET", f"/images/{tag}/json")
    except RequestFailed as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def keep_newest_images(node: Node, count: int) -> None:
    """Remove all images but the `count` that were imported last from a daemon that has no containers."""
    listed = daemon(node).ask("GET", "/images/json")
    newest_first = sorted(listed, key=lambda image: image["Created"], reverse=True)
    for image in newest_first[count:]:
        daemon(node).ask("DELETE", f"/images/{image['Id']}?force=true")


def start_container(node: Node, name: str, config: Mapping[str, Any]) -> int:
    """Create and start a container; return the number of its first process in the daemon's pid namespace."""
    client = daemon(node)
    client.ask("POST", f"/containers/create?name={name}", config)
    client.ask("POST", f"/containers/{name}/start")
    return int(client.ask("GET", f"/containers/{name}/json")["State"]["Pid"])


def remove_container(node: Node, name: str) -> None:
    """Remove a container, running or not; it is no error if it does not exist."""
    try:
        daemon(node).ask("DELETE", f"/containers/{name}?force=true")
    except RequestFailed as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
