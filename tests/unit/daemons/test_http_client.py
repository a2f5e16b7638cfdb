"""A request to a daemon: its answer, or an error with the daemon, the request and the status."""

from __future__ import annotations

import json
import os
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tare.daemons import certificate, http_client
from tare.daemons.http_client import HttpClient, inside, through_socket
from tare.daemons.kubernetes import KubernetesDaemons
from tare.errors import RequestFailed

asked: list[dict[str, Any]] = []


class Answering(BaseHTTPRequestHandler):
    status: int
    content: bytes

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        signed = self.headers.get("Authorization")
        asked.append({"method": self.command, "path": self.path, "body": json.loads(body or b"{}"), "signed": signed})
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    do_GET = do_POST  # noqa: N815 - the base class calls it so


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        asked.clear()


def handler(status: int, content: bytes) -> type[Answering]:
    return type("Handler", (Answering,), {"status": status, "content": content})


@contextmanager
def client(folder: Path, status: int, content: bytes) -> Iterator[HttpClient]:
    with serving(socketserver.UnixStreamServer(str(folder / "socket"), handler(status, content))):
        yield HttpClient(name="the daemon", connected=through_socket(str(folder / "socket")), token="t0ken")


def test_a_request_is_signed_and_its_answer_is_json(tmp_path: Path) -> None:
    with client(tmp_path, 200, b'{"a": [1]}') as made:
        assert made.ask("POST", "/x?y=1", {"b": 2}) == {"a": [1]}
        assert asked == [{"method": "POST", "path": "/x?y=1", "body": {"b": 2}, "signed": "Bearer t0ken"}]
        assert made.answers("/x")
    (tmp_path / "socket").unlink()
    with client(tmp_path, 204, b"") as made:
        assert made.ask("POST", "/x") == {}


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (404, b'{"message": "no such image"}', "the daemon refuses GET /x with status 404: no such image"),
        (500, b"out of luck", "the daemon refuses GET /x with status 500: out of luck"),
        (503, b"[]", "the daemon refuses GET /x with status 503: []"),
        (200, b'{"a": ', "the daemon does not answer GET /x: its answer is not JSON, or too long"),
    ],
)
def test_an_error_has_the_daemon_the_request_and_the_status(
    status: int, content: bytes, message: str, tmp_path: Path
) -> None:
    with client(tmp_path, status, content) as made:
        with pytest.raises(RequestFailed) as caught:
            made.ask("GET", "/x")
        assert (caught.value.message, caught.value.status) == (message, status if status >= 400 else 0)
        assert "t0ken" not in str(caught.value) + repr(made)
        assert made.answers("/x") == (status == 200)


def test_an_answer_beyond_the_bound_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_ANSWER", 4)
    with client(tmp_path, 200, b'{"a": 1}') as made, pytest.raises(RequestFailed, match="not JSON, or too long"):
        made.ask("GET", "/x")


def test_a_daemon_that_is_gone_does_not_answer(tmp_path: Path) -> None:
    made = HttpClient(name="the daemon", connected=through_socket(str(tmp_path / "none")))
    with pytest.raises(RequestFailed, match=r"the daemon does not answer GET /x: .*No such file") as caught:
        made.ask("GET", "/x")
    assert caught.value.status == 0
    assert not made.answers("/x")


@pytest.mark.root
@pytest.mark.requires("root")
def test_with_tls_only_the_server_of_the_certificate_is_asked(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        certificate.make(tmp_path / name, "/CN=x", ("127.0.0.1",))
    server = socketserver.TCPServer(("127.0.0.1", 0), handler(200, b"{}"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "ours" / certificate.CERTIFICATE, tmp_path / "ours" / certificate.KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    address = ("127.0.0.1", int(server.server_address[1]))
    with serving(server):
        ours, theirs = (
            HttpClient(name=name, connected=inside(os.getpid(), address, certificate.context(tmp_path / name)))
            for name in ("ours", "theirs")
        )
        assert ours.ask("GET", "/x") == {}
        with pytest.raises(RequestFailed, match=r"theirs does not answer GET /x: .*certificate verify failed"):
            theirs.ask("GET", "/x")


@pytest.mark.parametrize(("status", "created"), [(201, True), (409, True), (404, None)])
def test_an_object_is_created_unless_it_is_there_or_its_kind_is_not_served_yet(
    status: int, created: bool | None, tmp_path: Path
) -> None:
    looks: list[bool | None] = []
    api = SimpleNamespace(wait_for=lambda look, what, limit_s: looks.append(look()))
    with client(tmp_path, status, b"{}") as made:
        daemons: Any = SimpleNamespace(
            server=made, api=api, _created=lambda *it: KubernetesDaemons._created(daemons, *it)
        )
        KubernetesDaemons.create(daemons, "/apis/x", {"kind": "X"})
        assert asked[0]["body"] == {"kind": "X"}
    assert looks == [created]


def test_an_object_that_the_api_server_refuses_is_an_error(tmp_path: Path) -> None:
    refused = pytest.raises(RequestFailed, match="refuses POST /apis/x with status 403: no rights")
    with client(tmp_path, 403, b'{"message": "no rights"}') as made, refused:
        KubernetesDaemons._created(SimpleNamespace(server=made), "/apis/x", {})  # type: ignore[arg-type]
