"""Push an image layout (a tar, as `tare image convert IMAGE oci` makes it) to a registry, by skopeo.

skopeo finds the login that `skopeo login`, `podman login` or `docker login` has kept, checks each part against its
digest, and does not send again what the registry has. No password passes through tare (docs/adr/0036-libraries.md).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tare.errors import ImageError, InfrastructureError, TareError
from tare.images.cache import Progress, silent
from tare.images.registry.reference import Reference, is_loopback
from tare.model.text import printable
from tare.system import process

PUSH_S: Final = 7200.0
RETRIES: Final = 3
LONGEST: Final = 300
NO_TLS: Final = "server gave HTTP response to HTTPS client"
FATAL: Final = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
DAMAGED: Final = re.compile(r"initializing source|Digest did not match")
LOGIN_UNREADABLE: Final = "getting username and password"
"""What skopeo says after it may be what a program that keeps passwords has printed, so that no message has it."""

REMEDIES: Final = (
    (r"x509: ", "put its authority's certificate into /etc/docker/certs.d/{host}/ca.crt, or name it in SSL_CERT_FILE"),
    (NO_TLS, "if it has no TLS, and the network in between is trusted: --plain-http"),
    (r"dial tcp", "check its name and port, and whether it can be reached from here"),
    (
        r"unauthorized|authentication required|invalid username",
        "log in as a user who may push to {repository}: skopeo login {host}",
    ),
    (r"denied|\b403\b", "use a repository to which you may push"),
    (r"name unknown|\b404\b", "the registry may want the repository, or project, to be made first"),
    (r"invalid reference format", "name the registry by its host name: skopeo takes no IPv6 address"),
    (r"pinging container registry", "check that it is a registry: its name and port"),
)
"""What to do, by the first pattern that skopeo's message has."""
ELSE: Final = "run the same command again: what has arrived is not sent again"


def need() -> None:
    """Raise `MissingTool` with what installs skopeo, if it is not installed."""
    process.need("skopeo", package="skopeo")


def push(archive: Path, reference: Reference, *, plain_http: bool = False, progress: Progress = silent) -> str:
    """Push an image and return its digest; raise `ImageError` if the archive is damaged.

    A registry on this machine may be without TLS; with `plain_http` any may.
    """
    need()
    progress(f"pushing the image to {reference}")
    ended = _copied(archive, reference, checked=not plain_http)
    if ended.status and NO_TLS in ended.stderr and is_loopback(reference.host):
        ended = _copied(archive, reference, checked=False)
    if ended.status:
        raise _failure(ended.stderr, reference)
    return ended.stdout.strip()


def command(archive: Path, reference: Reference, *, checked: bool) -> tuple[str, ...]:
    """Return skopeo's argv, which prints the image's digest. The image is of this machine, and needs no signature."""
    return (
        "skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests", f"--retry-times={RETRIES}",
        f"--dest-tls-verify={str(checked).lower()}", "--digestfile=/dev/stdout",
        f"oci-archive:{archive}", f"docker://{reference}",
    )  # fmt: skip


def _copied(archive: Path, reference: Reference, *, checked: bool) -> process.Result:
    folder = archive.parent if ":" in str(archive) else None  # skopeo would divide the path there
    argv = command(Path(archive.name) if folder else archive, reference, checked=checked)
    what = f"pushing the image to {reference}"
    ended = process.run(argv, check=False, cwd=folder, timeout_s=PUSH_S, what=what)
    if ended.timed_out:
        raise InfrastructureError(f"{reference.host} did not take the image within {PUSH_S:g} s", remedy=ELSE)
    return ended


def _failure(said: str, reference: Reference) -> TareError:
    """Return the error of a push, with skopeo's reason and what to do."""
    fatal = FATAL.findall(said)
    reason = printable(fatal[-1] if fatal else said.strip()).replace(r"\"", '"')
    host, where = reference.host, f"{reference.host}/{reference.repository}"
    if LOGIN_UNREADABLE in reason:
        return InfrastructureError(
            f"the login that is kept for {host} cannot be read", remedy=f"log in again: skopeo login {host}"
        )
    if DAMAGED.search(reason):
        return ImageError(f"the image's archive is damaged: {reason[-LONGEST:]}", remedy="build it again")
    remedy = next((remedy for pattern, remedy in REMEDIES if re.search(pattern, reason, re.IGNORECASE)), ELSE)
    return InfrastructureError(
        f"the push to {where} failed: {reason[-LONGEST:]}",
        remedy=remedy.format(host=host, repository=reference.repository),
    )
