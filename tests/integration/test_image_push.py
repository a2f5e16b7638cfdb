"""`tare image push` to a real registry, Debian's docker-registry: with and without TLS and passwords."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import tare, wait_for
from tare.errors import ImageError, InfrastructureError
from tare.images.inside import archive
from tare.images.registry.push import push
from tare.images.registry.reference import parse
from tare.system.process import beside, run

pytestmark = [pytest.mark.integration, pytest.mark.requires("registry", "skopeo")]

PROGRAM: Final = "/opt/tare/docker-registry/usr/bin/docker-registry"
PASSWORD: Final = "pass-w0rd"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A registry that runs; `authority` is its certificate, if it speaks TLS."""

    port: int
    folder: Path
    authority: Path | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def get(self, path: str, user: str = "") -> tuple[int, Mapping[str, str], bytes]:
        """Ask as another client does."""
        tls = ssl.create_default_context(cafile=str(self.authority)) if self.authority else None
        request = urllib.request.Request(f"http{'s' if tls else ''}://{self.host}{path}", headers={"Accept": MANIFEST})
        if user:
            request.add_header("Authorization", f"Basic {authorization(user, PASSWORD)}")
        client = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with client.open(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.headers, b""

    def has(self, repository: str, digest: str, user: str = "") -> dict[str, Any]:
        """Return a manifest, each part of which the registry gives with the content that its digest says."""
        status, headers, content = self.get(f"/v2/{repository}/manifests/{digest}", user)
        assert (status, headers["Docker-Content-Digest"]) == (200, digest)
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
        manifest: dict[str, Any] = json.loads(content)
        for part in (manifest["config"], *manifest["layers"]):
            status, _, blob = self.get(f"/v2/{repository}/blobs/{part['digest']}", user)
            assert (status, len(blob)) == (200, part["size"])
            assert f"sha256:{hashlib.sha256(blob).hexdigest()}" == part["digest"]
        return manifest


def authorization(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def hashed(password: str) -> str:
    """Return a password as htpasswd has it (bcrypt), by the C library that the registry's hashes come from as well."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    made: bytes = crypt(password.encode(), b"$2y$05$" + b"abcdefghijklmnopqrstuu")
    assert made.startswith(b"$2y$")
    return made.decode()


@contextmanager
def registry(folder: Path, *, passwords: bool = False, tls: bool = False) -> Iterator[Running]:
    port, key, certificate = free_port(), folder / "key.pem", folder / "ca.pem"
    settings: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "none"},
    }
    if passwords:
        (folder / "htpasswd").write_text(f"me:{hashed(PASSWORD)}\n")
        settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
    if tls:
        argv = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=tare -addext subjectAltName=IP:127.0.0.1 -days 2"
        run((*argv.split(), "-keyout", str(key), "-out", str(certificate)))
        settings["http"]["tls"] = {"certificate": str(certificate), "key": str(key)}
    (folder / "config.yml").write_text(json.dumps(settings))
    with serving(folder):
        made_ = Running(port=port, folder=folder, authority=certificate if tls else None)
        wait_for(lambda: _answers(made_), f"an answer of the registry: {folder / 'log'}")
        yield made_


def serving(folder: Path, before: tuple[str, ...] = ()) -> AbstractContextManager[object]:
    """Keep a registry running with the settings and images of a folder; `before` is put before it (`nsenter ...`)."""
    argv = (*before, PROGRAM, "serve", str(folder / "config.yml"))
    return beside(argv, log=folder / "log", grace_s=1.0)


def _answers(made: Running) -> bool:
    try:
        return made.get("/v2/")[0] in (200, 401)
    except OSError:
        return False


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(os.urandom(5 << 20))
    configuration = archive.config(archive.sha256_of(layer), ("PATH=/bin",), {})
    archive.write_oci_layout(tmp_path / "image.oci.tar", layer, configuration, "tag")
    return tmp_path / "image.oci.tar"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of Docker's configuration, which has no login yet."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    file = tmp_path / "docker" / "config.json"
    file.parent.mkdir()
    file.write_text("{}")
    return file


def test_an_image_is_pushed_as_it_is_and_can_be_had_by_its_digest(tmp_path: Path, layout: Path) -> None:
    with registry(tmp_path) as made:
        digest = push(layout, parse(f"{made.host}/group/tare:1", "x"))
        manifest = made.has("group/tare", digest)
        assert made.get("/v2/group/tare/manifests/1")[1]["Docker-Content-Digest"] == digest
        assert len(manifest["layers"]) == 1
        assert push(layout, parse(f"{made.host}/group/tare:2", "x")) == digest
        assert sorted(json.loads(made.get("/v2/group/tare/tags/list")[2])["tags"]) == ["1", "2"]


def test_nothing_arrives_of_an_archive_that_is_damaged(tmp_path: Path, layout: Path) -> None:
    data = bytearray(layout.read_bytes())
    data[-2048 - (1 << 20)] ^= 1
    with registry(tmp_path) as made:
        for content in (bytes(data), b"no tar at all", bytes(10240)):
            layout.write_bytes(content)
            with pytest.raises(ImageError, match="is damaged"):
                push(layout, parse(f"{made.host}/group/tare:1", "x"))
        assert made.get("/v2/group/tare/manifests/1")[0] == 404


def test_a_registry_with_passwords_takes_dockers_and_no_others(tmp_path: Path, layout: Path, config: Path) -> None:
    with registry(tmp_path, passwords=True) as made:
        reference = parse(f"{made.host}/tare:1", "x")
        wrong = authorization("me", "wr0ng-pass")
        for auths in ({}, {made.host: {"auth": wrong}}, {made.host: {"auth": f"{wrong}%"}}):
            config.write_text(json.dumps({"auths": auths}))
            with pytest.raises(InfrastructureError) as caught:
                push(layout, reference)
            assert f"skopeo login {made.host}" in caught.value.remedy
            assert not {"wr0ng-pass", wrong} & set(re.split(r"[ `]", str(caught.value)))
        auth = authorization("me", PASSWORD)
        config.write_text(json.dumps({"auths": {made.host: {"auth": auth}}}))
        digest = push(layout, reference)
        assert made.get(f"/v2/tare/manifests/{digest}")[0] == 401
        made.has("tare", digest, user="me")


def test_tls_is_checked_and_a_registry_of_ones_own_authority_is_trusted_if_it_is_named(
    tmp_path: Path, layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry(tmp_path, tls=True) as made:
        reference = parse(f"{made.host}/tare:1", "x")
        with pytest.raises(InfrastructureError, match="certificate signed by unknown authority") as caught:
            push(layout, reference)
        assert "SSL_CERT_FILE" in caught.value.remedy
        assert made.authority is not None
        monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
        made.has("tare", push(layout, reference))


@pytest.mark.slow
@pytest.mark.requires("root", "mmdebstrap", "openmpi")
def test_the_command_pushes_a_studys_image_and_prints_its_reference_by_digest(tmp_path: Path, config: Path) -> None:
    with registry(tmp_path, passwords=True) as made:
        ended = tare("image", "push", f"{made.host}/me/tare", cwd=tmp_path)
        assert ended.status == 5
        assert f"skopeo login {made.host}" in ended.stderr
        auth = authorization("me", PASSWORD)
        config.write_text(json.dumps({"auths": {made.host: {"auth": auth}}}))
        ended = tare("image", "push", f"{made.host}/me/tare:study", cwd=tmp_path)
        assert ended.status == 0, ended.stderr
        assert PASSWORD not in ended.stdout + ended.stderr
        assert auth not in ended.stdout + ended.stderr
        (digest,) = re.fullmatch(rf"{made.host}/me/tare@(sha256:[0-9a-f]{{64}})\n", ended.stdout).groups()  # type: ignore[union-attr]
        made.has("me/tare", digest, user="me")
    ended = tare("image", "push", "tare", cwd=tmp_path)
    assert ended.status == 2
    assert "names no registry" in ended.stderr
