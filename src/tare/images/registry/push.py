"""Push an image layout (a tar, as `tare image convert IMAGE oci` makes it) to a registry.

Each part is asked for first (HEAD), so that what is there is not sent again: after an interruption, or for an image
that shares a layer. Digests are calculated here before anything is sent, and compared with what the registry says.
"""

from __future__ import annotations

import hashlib
import http
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from tare.errors import ImageError, InfrastructureError
from tare.images.cache import Progress, silent
from tare.images.inside.budget import MOST_TEXT_BYTES
from tare.images.registry.client import ConnectionEnded, RegistryClient, Response
from tare.images.registry.credentials import Credentials
from tare.images.registry.reference import Reference

ATTEMPTS: Final = 4
PAUSE_S: Final = 1.0
BLOCK: Final = 1 << 20
INDEX: Final = "index.json"
THERE: Final = frozenset({200, 301, 302, 303, 307, 308})
"""Statuses by which a registry says that it has a part: itself, or somewhere else."""
PREFIX: Final = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A part of an image: its kind, digest and size."""

    kind: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OciLayout:
    """An image in a layout: the manifest's bytes, and what it names."""

    manifest: Blob
    content: bytes
    parts: tuple[Blob, ...]


def push(
    archive: Path,
    reference: Reference,
    credentials: Credentials | None = None,
    *,
    plain_http: bool = False,
    progress: Progress = silent,
    pause_s: float = PAUSE_S,
) -> str:
    """Push an image and return its digest; raise `ImageError` if the archive is damaged."""
    with _opened(archive) as opened:
        layout = read_layout(opened)
        client = RegistryClient(reference=reference, credentials=credentials, plain_http=plain_http)
        client.connect()
        for part in layout.parts:
            with _blob(opened, part.digest) as content:
                _repeated(partial(_push_part, client, part, content, progress), client, pause_s)
        _repeated(partial(_push_manifest, client, layout), client, pause_s)
    return layout.manifest.digest


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive) as opened:
            yield opened
    except tarfile.TarError as error:
        raise ImageError(f"{archive} is no whole tar: {error}", remedy="build it again") from error


def read_layout(archive: tarfile.TarFile) -> OciLayout:
    """Return the only image of a layout, every part of it checked against its digest."""
    try:
        (described,) = json.loads(_bytes(archive, INDEX))["manifests"]
        manifest = _part(described)
        content = _bytes(archive, f"blobs/sha256/{manifest.digest.removeprefix(PREFIX)}")
        named = json.loads(content)
        parts = tuple(_part(each) for each in (*named["layers"], named["config"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ImageError(f"the archive is no OCI image layout of one image: {error}") from error
    if PREFIX + hashlib.sha256(content).hexdigest() != manifest.digest:
        raise ImageError("the archive is damaged: its manifest has another digest than its index says")
    for part in parts:
        with _blob(archive, part.digest) as blob:
            if (_digest(blob), blob.tell()) != (part.digest, part.size):
                raise ImageError(f"the archive is damaged: {part.digest} has other content", remedy="build it again")
    return OciLayout(manifest=manifest, content=content, parts=parts)


def _part(described: Mapping[str, Any]) -> Blob:
    digest = str(described["digest"])
    if not digest.startswith(PREFIX) or not digest.removeprefix(PREFIX).isalnum():
        raise ValueError(f"the digest {digest[:40]!r} is not supported")
    return Blob(kind=str(described["mediaType"]), digest=digest, size=int(described["size"]))


def _digest(content: IO[bytes]) -> str:
    total = hashlib.sha256()
    while block := content.read(BLOCK):
        total.update(block)
    return PREFIX + total.hexdigest()


def _blob(archive: tarfile.TarFile, digest: str) -> IO[bytes]:
    """Return the content of a part; a registry may say no while it is read, so that it is read again."""
    return _file(archive, f"blobs/sha256/{digest.removeprefix(PREFIX)}")


def _bytes(archive: tarfile.TarFile, name: str) -> bytes:
    with _file(archive, name) as found:
        content = found.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise ValueError(f"{name} has more than {MOST_TEXT_BYTES} bytes")
    return content


def _file(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise ImageError(f"the archive has no file {name}: it is no OCI image layout")
    return found


def _repeated(do: Callable[[], None], client: RegistryClient, pause_s: float) -> None:
    """Do something until it is done; a connection that ends is opened again some times."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            do()
            return
        except ConnectionEnded as error:
            if attempt == ATTEMPTS:
                raise InfrastructureError(
                    f"the registry {client.reference.server} failed {ATTEMPTS} times: {error}",
                    remedy="run the same command again: what has arrived is not sent again",
                ) from error
            time.sleep(attempt * pause_s)


def _push_part(client: RegistryClient, part: Blob, content: IO[bytes], progress: Progress) -> None:
    short, size = part.digest.removeprefix(PREFIX)[:12], f"{part.size / 1e6:.1f} MB"
    if client.ask("HEAD", client.path(f"blobs/{part.digest}")).status in THERE:
        progress(f"{short} ({size}): the registry has it")
        return
    progress(f"{short} ({size}): pushing it")
    begun = client.path("blobs/uploads/")
    answer = _expected(client, client.ask("POST", begun, b""), http.HTTPStatus.ACCEPTED, "beginning an upload")
    place = client.next_url(answer, begun)
    content.seek(0)
    answer = client.ask(
        "PUT",
        f"{place}{'&' if '?' in place else '?'}digest={part.digest}",
        content,
        {"Content-Type": "application/octet-stream", "Content-Length": str(part.size)},
    )
    _expected(client, answer, http.HTTPStatus.CREATED, f"pushing {part.digest}")
    _same(client, answer, part.digest)


def _push_manifest(client: RegistryClient, layout: OciLayout) -> None:
    place = client.path(f"manifests/{client.reference.tag}")
    answer = client.ask("PUT", place, layout.content, {"Content-Type": layout.manifest.kind})
    _expected(client, answer, http.HTTPStatus.CREATED, "pushing the manifest")
    _same(client, answer, layout.manifest.digest)
    kept = client.ask(
        "HEAD", client.path(f"manifests/{layout.manifest.digest}"), headers={"Accept": layout.manifest.kind}
    )
    if kept.status not in THERE:
        raise InfrastructureError(f"{client.reference.server} has taken the image, and does not have it: {kept.said()}")


def _expected(client: RegistryClient, answer: Response, status: int, what: str) -> Response:
    if answer.status == status:
        return answer
    where = f"{client.reference.host}/{client.reference.repository}"
    remedy = ""
    if answer.status == http.HTTPStatus.FORBIDDEN:
        remedy = "use a repository to which you may push"
    elif answer.status == http.HTTPStatus.NOT_FOUND:
        remedy = "the registry may want the repository, or project, to be made first"
    elif answer.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ConnectionEnded(answer.said())
    raise InfrastructureError(f"{what} to {where} is refused: {answer.said()}", remedy=remedy)


def _same(client: RegistryClient, answer: Response, digest: str) -> None:
    told = answer.headers.get("docker-content-digest", digest)
    if told != digest:
        raise InfrastructureError(
            f"{client.reference.server} has other content than was sent: {told[:80]}, not {digest}"
        )
