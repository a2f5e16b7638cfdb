"""Requests to a Docker daemon: which of its images stay for later studies."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from nodes import make_node
from tare.node import Node
from tare.services.docker_api import keep_newest_images


class Images(socketserver.ThreadingUnixStreamServer):
    """A daemon that has images, by the time of their import."""

    created: dict[str, int]


class Handler(BaseHTTPRequestHandler):
    """List and remove images."""

    server: Images

    def do_GET(self) -> None:
        self._answer([{"Id": name, "Created": created} for name, created in self.server.created.items()])

    def do_DELETE(self) -> None:
        del self.server.created[self.path.removeprefix("/images/").removesuffix("?force=true")]
        self._answer([])

    def address_string(self) -> str:
        return "a client"

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Images]:
    with Images(str(tmp_path / "docker.sock"), Handler) as server:
        server.created = {"sha256:old": 10, "sha256:newest": 40, "sha256:new": 30, "sha256:older": 5}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def node_of(server: Images) -> Node:
    return replace(make_node(0), docker_socket=str(server.server_address))


@pytest.mark.parametrize(
    ("count", "stay"),
    [(2, {"sha256:newest", "sha256:new"}), (4, {"sha256:old", "sha256:newest", "sha256:new", "sha256:older"})],
)
def test_the_images_that_were_imported_last_stay(daemon: Images, count: int, stay: set[str]) -> None:
    keep_newest_images(node_of(daemon), count)
    assert set(daemon.created) == stay
