"""Images are pushed whole, once, to the right place, and with nobody else's credentials."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import ImageError, InfrastructureError, UsageError
from tare.images.inside import archive
from tare.images.registry import client as client_module
from tare.images.registry.credentials import Credentials, config_file, find_credentials
from tare.images.registry.push import push
from tare.images.registry.reference import Reference, is_loopback, parse, split_port
from unit.scripts import script

SECRET = "s3cret-pass"


@dataclass
class Registry:
    """A registry in this process. `drops` is how many uploads end early, `bearer` whether it wants a token."""

    user: str = ""
    bearer: bool = False
    drops: int = 0
    wrong_digest: bool = False
    port: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{SECRET}".encode()).decode()

    def reference(self) -> Reference:
        return parse(f"{self.host}/group/tare:1", "x")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def registry(self) -> Registry:
        return self.server.registry  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def is_allowed(self) -> bool:
        if not self.registry.user:
            return True
        said = self.headers.get("Authorization", "")
        self.registry.authorizations.append(said)
        if said == ("Bearer right" if self.registry.bearer else self.registry.basic):
            return True
        how = 'Basic realm="x"'
        if self.registry.bearer:
            how = f'Bearer realm="http://{self.registry.host}/token?x=1",service="reg",scope="s"'
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(401, b'{"errors": [{"code": "UNAUTHORIZED", "message": "who?\\u001b[2J"}]}', WWW_Authenticate=how)
        return False

    def do(self) -> None:
        registry, parts = self.registry, urlsplit(self.path)
        registry.seen.append((self.command, parts.path))
        if parts.path == "/token":
            self.token(parse_qs(parts.query))
            return
        if not self.is_allowed():
            return
        kind, _, name = parts.path.removeprefix("/v2/group/tare/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) if self.command in ("PUT", "POST") else b""
        if self.command == "PUT" and kind == "blobs" and registry.drops:
            registry.drops -= 1
            self.close_connection = True
            return
        getattr(self, f"{self.command.lower()}_{kind or 'v2'}", self.answer_nothing)(name, body, parse_qs(parts.query))

    do_GET = do_HEAD = do_POST = do_PUT = do  # noqa: N815 - the base class calls them so

    def answer_nothing(self, *_: Any) -> None:
        self.answer(200 if self.path == "/v2/" else 404)

    def token(self, asked: dict[str, list[str]]) -> None:
        said = self.headers.get("Authorization", "")
        self.registry.authorizations.append(said)
        right = said == self.registry.basic
        if self.command == "POST":
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            right, asked = form["refresh_token"] == [SECRET], form
        assert asked["scope"] == ["repository:group/tare:pull,push"]
        self.answer(200, b'{"token": "right"}') if right else self.answer(401, b"{}")

    def head_blobs(self, name: str, *_: Any) -> None:
        self.answer(200 if name in self.registry.blobs else 404)

    def post_blobs(self, *_: Any) -> None:
        self.answer(202, Location="/v2/group/tare/blobs/uploads/1?state=a")

    def put_blobs(self, _name: str, body: bytes, query: dict[str, list[str]]) -> None:
        (digest,) = query["digest"]
        assert query["state"] == ["a"]
        if digest != f"sha256:{hashlib.sha256(body).hexdigest()}":
            self.answer(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}')
            return
        self.registry.blobs[digest] = body
        self.answer(201, Docker_Content_Digest=digest)

    def put_manifests(self, name: str, body: bytes, _query: Any) -> None:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self.registry.manifests |= {name: body, digest: body}
        self.answer(201, Docker_Content_Digest="sha256:0" if self.registry.wrong_digest else digest)

    def head_manifests(self, name: str, *_: Any) -> None:
        self.answer(200 if name in self.registry.manifests else 404)


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.registry = made  # type: ignore[attr-defined]
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(os.urandom(3 << 20))
    configuration = archive.config(archive.sha256_of(layer), ("PATH=/bin",), {})
    archive.write_oci_layout(tmp_path / "image.oci.tar", layer, configuration, "tag")
    return tmp_path / "image.oci.tar"


def test_an_image_arrives_whole_and_its_digest_is_its_manifests(registry: Registry, layout: Path) -> None:
    said: list[str] = []
    digest = push(layout, registry.reference(), progress=said.append)
    manifest = registry.manifests["1"]
    assert digest == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    named = json.loads(manifest)
    assert set(registry.blobs) == {named["config"]["digest"], *(each["digest"] for each in named["layers"])}
    assert [line.split(": ")[1] for line in said] == ["pushing it", "pushing it"]
    said.clear()
    assert push(layout, registry.reference(), progress=said.append) == digest
    assert [line.split(": ")[1] for line in said] == ["the registry has it", "the registry has it"]
    assert [method for method, path in registry.seen if "uploads" in path] == ["POST", "PUT"] * 2


def test_an_upload_that_ends_early_is_made_again_and_wrong_content_is_told(registry: Registry, layout: Path) -> None:
    registry.drops = 2
    push(layout, registry.reference(), pause_s=0)
    assert len(registry.blobs) == 2
    registry.blobs.clear()
    registry.drops = 99
    with pytest.raises(InfrastructureError, match="failed 4 times") as caught:
        push(layout, registry.reference(), pause_s=0)
    assert "run the same command again" in caught.value.remedy
    registry.drops, registry.wrong_digest = 0, True
    with pytest.raises(InfrastructureError, match="has other content than was sent"):
        push(layout, registry.reference())


@pytest.mark.parametrize("bearer", [False, True])
def test_credentials_are_given_where_they_are_asked_for(registry: Registry, layout: Path, bearer: bool) -> None:
    registry.user, registry.bearer = "me", bearer
    push(layout, registry.reference(), Credentials(user="me", password=SECRET))
    assert len(registry.blobs) == 2
    for wrong in (None, Credentials(user="me", password="wr0ng-pass"), Credentials(identity_token="wr0ng-pass")):
        with pytest.raises(InfrastructureError) as caught:
            push(layout, registry.reference(), wrong)
        said = str(caught.value) + repr(caught.value) + repr(wrong)
        assert "docker login" in said
        assert "wr0ng-pass" not in said
        assert "\x1b" not in said


def test_an_answer_that_drips_ends(monkeypatch: pytest.MonkeyPatch, layout: Path) -> None:
    monkeypatch.setattr(client_module, "ANSWER_S", 0.05)
    monkeypatch.setattr(client_module, "TIMEOUT_S", 3600.0)  # each byte comes in time
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while connection.recv(4096):  # until the client hangs up
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(InfrastructureError, match=r"cannot be reached: its answer takes more than 0\.05 s"):
            push(layout, parse(f"127.0.0.1:{server.getsockname()[1]}/group/tare:1", "x"), plain_http=True)
        thread.join()


def test_an_identity_token_is_exchanged(registry: Registry, layout: Path) -> None:
    registry.user, registry.bearer = "me", True
    push(layout, registry.reference(), Credentials(identity_token=SECRET))
    assert all(SECRET not in said for said in registry.authorizations)


def test_plain_http_is_for_loopback_or_asked_for(
    registry: Registry, layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "is_loopback", lambda _: False)
    with pytest.raises(InfrastructureError, match="cannot be reached") as caught:
        push(layout, registry.reference())
    assert "--plain-http" in caught.value.remedy
    assert registry.seen == []
    push(layout, registry.reference(), plain_http=True)
    assert len(registry.blobs) == 2


def test_nothing_is_sent_of_an_archive_that_is_damaged(registry: Registry, layout: Path, tmp_path: Path) -> None:
    data = bytearray(layout.read_bytes())
    data[-2048 - (1 << 20)] ^= 1
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(data)
    with pytest.raises(ImageError, match="is damaged"):
        push(damaged, registry.reference())
    damaged.write_bytes(b"no tar at all")
    with pytest.raises(ImageError, match="no whole tar"):
        push(damaged, registry.reference())
    with tarfile.open(damaged, "w"):
        pass
    with pytest.raises(ImageError, match="no OCI image layout"):
        push(damaged, registry.reference())
    assert registry.seen == []


def test_nobody_is_led_from_tls_to_plain_http_and_loopback_is_known() -> None:
    client = client_module.RegistryClient(reference=parse("reg.example/a", "x"), scheme="https")
    answer = client_module.Response(status=202, headers={"location": "http://reg.example/up"})
    with pytest.raises(InfrastructureError, match="leads from TLS to http"):
        client.next_url(answer, "https://reg.example/v2/")
    with pytest.raises(InfrastructureError, match="does not say where"):
        client.next_url(client_module.Response(status=202, headers={}), "https://reg.example/v2/")
    assert all(is_loopback(host) for host in ("localhost", "localhost:5000", "127.0.0.1:80", "[::1]:5000", "127.1.2.3"))
    assert not any(is_loopback(host) for host in ("reg.example", "10.0.0.1:5000", "localhost.example", "127.example"))
    assert (split_port("[::1]:5000", 443), split_port("[::1]", 443)) == (("::1", 5000), ("::1", 443))
    assert split_port("reg.example", 443) == ("reg.example", 443)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reg.example/a/b:1", ("reg.example", "a/b", "1")),
        ("localhost/a", ("localhost", "a", "auto")),
        ("127.0.0.1:5000/a__b/c-d:v1.2", ("127.0.0.1:5000", "a__b/c-d", "v1.2")),
        ("[::1]:5000/a", ("[::1]:5000", "a", "auto")),
        ("REG.example/a", ("reg.example", "a", "auto")),
        ("docker.io/me/a", ("docker.io", "me/a", "auto")),
    ],
)
def test_a_reference_has_host_repository_and_tag(text: str, expected: tuple[str, str, str]) -> None:
    found = parse(text, "auto")
    assert (found.host, found.repository, found.tag) == expected
    assert found.by_digest("sha256:0") == f"{found.host}/{found.repository}@sha256:0"


@pytest.mark.parametrize(
    "text",
    ["", "a", "a/b", "reg.example", "reg.example/", "reg.example/A", "reg.example/a:", "reg.example/a@sha256:0",
     "reg.example/../a", "https://reg.example/a", "reg.example/a:b:c", "-reg.example/a", "reg.example/a b"],
)  # fmt: skip
def test_a_reference_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "auto")
    assert caught.value.remedy


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_is_a_reference_or_a_usage_error(text: str) -> None:
    try:
        assert str(parse(text, "auto")).count("/") >= 1
    except UsageError:
        pass


def written(folder: Path, config: object) -> Path:
    file = folder / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return file


def test_credentials_come_from_dockers_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = base64.b64encode(f"me:{SECRET}".encode()).decode()
    for key in ("reg.example:5000", "https://reg.example:5000", "http://reg.example:5000/v1/"):
        file = written(tmp_path, {"auths": {"other.example": {"auth": "eA=="}, key: {"auth": auth}}})
        assert find_credentials("reg.example:5000", file) == Credentials(user="me", password=SECRET)
    file = written(tmp_path, {"auths": {"https://index.docker.io/v1/": {"identitytoken": SECRET, "auth": auth}}})
    assert find_credentials("docker.io", file) == Credentials(identity_token=SECRET)
    assert find_credentials("reg.example", file) is None
    assert find_credentials("reg.example", tmp_path / "absent") is None
    for none in ([], {"auths": []}, {"auths": {"reg.example": 3}}, {"auths": {"reg.example": {}}}, {"credHelpers": 1}):
        assert find_credentials("reg.example", written(tmp_path, none)) is None
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert config_file() == file


def test_damaged_credentials_are_an_error_that_does_not_show_them(tmp_path: Path) -> None:
    damaged = base64.b64encode(SECRET.encode()).decode()
    for config in ({"auths": {"reg.example": {"auth": damaged}}}, {"auths": {"reg.example": {"auth": f"{SECRET}%"}}}):
        with pytest.raises(InfrastructureError, match="damaged credentials") as caught:
            find_credentials("reg.example", written(tmp_path, config))
        assert SECRET not in str(caught.value)
        assert damaged not in str(caught.value)
    with pytest.raises(InfrastructureError, match="it is no JSON") as caught:
        find_credentials("reg.example", written(tmp_path, f"{SECRET}{{"))
    assert SECRET not in str(caught.value)


def test_a_helper_gives_credentials_and_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-mine"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    config = written(tmp_path, {"credHelpers": {"reg.example": "mine"}, "auths": {"reg.example": {}}})

    def answers(text: str) -> None:
        script(helper, f'read -r server\n[ "$1" = get ] && [ "$server" = reg.example ] || exit 9\n{text}')

    answers(f'''echo '{{"Username": "me", "Secret": "{SECRET}"}}' ''')
    assert find_credentials("reg.example", config) == Credentials(user="me", password=SECRET)
    answers(f'''echo '{{"Username": "<token>", "Secret": "{SECRET}"}}' ''')
    assert find_credentials("reg.example", config) == Credentials(identity_token=SECRET)
    answers('echo "credentials not found in native keychain"; exit 1')
    assert find_credentials("reg.example", config) is None
    for text in (f"echo {SECRET}; exit 0", f"echo {SECRET}; echo {SECRET} >&2; exit 3"):
        answers(text)
        with pytest.raises(InfrastructureError, match="docker-credential-mine gives no credentials") as caught:
            find_credentials("reg.example", config)
        assert SECRET not in str(caught.value)
    for name in ("absent", "../evil", "a b"):
        with pytest.raises(InfrastructureError, match="which is not installed"):
            find_credentials("reg.example", written(tmp_path, {"credsStore": name}))
