"""Find a registry's credentials where Docker keeps them: in its `config.json`, or with the program that this names.

They are never printed: no message and no `repr` has them.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.images.registry.reference import HUB
from tare.system.process import find, run

CONFIG: Final = "config.json"
HUB_KEY: Final = "https://index.docker.io/v1/"
TOKEN_USER: Final = "<token>"
"""The user that a helper names if what it gives is an identity token."""
HELPER: Final = re.compile(r"[\w.-]+")
HELPER_S: Final = 60.0
NOT_FOUND: Final = "credentials not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who pushes: user and password, or an identity token, which is exchanged for others."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


def config_file() -> Path:
    """Return the path of Docker's configuration of this user."""
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / CONFIG


def find_credentials(host: str, file: Path | None = None) -> Credentials | None:
    """Return the credentials for a registry, None if there are none; raise `InfrastructureError` if damaged."""
    place = file or config_file()
    try:
        config = json.loads(place.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise InfrastructureError(f"{place} cannot be read: {reason}", remedy="sign in again: docker login") from None
    if not isinstance(config, dict):
        return None
    helper = _at(config, "credHelpers").get(host) or config.get("credsStore")
    if isinstance(helper, str) and (found := _from_helper(helper, HUB_KEY if host == HUB else host)):
        return found
    for key, entry in _at(config, "auths").items():
        if isinstance(entry, dict) and _host_of(key) in (host, "index.docker.io" if host == HUB else host):
            return _from_entry(entry, host)
    return None


def _at(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _host_of(key: str) -> str:
    """Return the host of a key, which older versions wrote as a URL."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0].lower()


def _from_entry(entry: Mapping[str, Any], host: str) -> Credentials | None:
    if token := entry.get("identitytoken"):
        return Credentials(identity_token=str(token))
    stated = entry.get("auth")
    if not stated:
        return None
    try:
        user, colon, password = base64.b64decode(str(stated), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = user = password = ""
    if not colon:
        raise InfrastructureError(
            f"Docker's configuration has damaged credentials for {host}", remedy=f"sign in again: docker login {host}"
        )
    return Credentials(user=user, password=password.rstrip("\0"))


def _from_helper(helper: str, server: str) -> Credentials | None:
    """Ask the program that keeps the credentials. What it prints is a secret, so no message has it."""
    name = f"docker-credential-{helper}"
    if not HELPER.fullmatch(helper) or find(name) is None:
        raise InfrastructureError(
            f"Docker's configuration names the program {name!r}, which is not installed",
            remedy="install it, or remove credsStore and credHelpers from the configuration and sign in again",
        )
    ended = run((name, "get"), stdin=server, check=False, timeout_s=HELPER_S, what=f"asking {name}")
    if ended.status:
        if NOT_FOUND in ended.stdout + ended.stderr:
            return None
        raise InfrastructureError(f"{name} gives no credentials for {server}: it ended with {ended.status}")
    try:
        told = json.loads(ended.stdout)
        user, secret = str(told["Username"]), str(told["Secret"])
    except (ValueError, KeyError, TypeError):
        raise InfrastructureError(f"{name} gives no credentials for {server}: its answer is damaged") from None
    return Credentials(identity_token=secret) if user == TOKEN_USER else Credentials(user=user, password=secret)
