"""Names of images in registries: `HOST[:PORT]/REPOSITORY[:TAG]`. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from tare.errors import UsageError

HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE)
REPOSITORY: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
HOW: Final = "write it as registry.example/group/name:tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A repository of a registry, and a tag in it."""

    host: str
    repository: str
    tag: str

    def by_digest(self, digest: str) -> str:
        """Return the name of one image, whatever its tag will point to."""
        return f"{self.host}/{self.repository}@{digest}"

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


def parse(text: str, tag: str) -> Reference:
    """Return the parts of a reference, with `tag` if it has none; raise `UsageError` if it is not one to push to."""
    host, slash, rest = text.partition("/")
    if not slash or not HOST.fullmatch(host) or not _is_host(host):
        raise UsageError(f"{text!r} names no registry", remedy=HOW)
    if "@" in rest:
        raise UsageError(f"{text!r} has a digest, which the image itself decides", remedy=HOW)
    repository, colon, stated = rest.partition(":")
    if not REPOSITORY.fullmatch(repository) or (colon and not TAG.fullmatch(stated)):
        raise UsageError(f"{text!r} is no name of an image in a registry", remedy=HOW)
    return Reference(host=host.lower(), repository=repository, tag=stated or tag)


def is_reference(name: str) -> bool:
    """Return whether a name is that of an image in a registry, or of one image by its digest; no recipe's is."""
    named, _, digest = name.partition("@")
    if digest and not DIGEST.fullmatch(digest):
        return False
    host, slash, rest = named.partition("/")
    if not (slash and HOST.fullmatch(host) and _is_host(host)):
        rest = named if digest else ""
    repository, colon, tag = rest.partition(":")
    return bool(REPOSITORY.fullmatch(repository)) and (not colon or bool(TAG.fullmatch(tag)))


def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is on this machine, so that nothing is sent over a network."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _is_host(text: str) -> bool:
    """Return whether the first part of a name is a host and not a part of a repository, by Docker's rule."""
    return "." in text or ":" in text or text == "localhost"
