"""Make requests to a registry: over TLS unless it is this machine's or the user says so, with tokens if it asks.

A registry answers a first request with how it wants to be asked (`WWW-Authenticate`): with user and password, or with a
token from a server that it names (`Bearer`). Credentials go to these two only.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from tare.errors import InfrastructureError
from tare.images.registry.credentials import Credentials
from tare.images.registry.reference import Reference, is_loopback, split_port
from tare.model.text import printable

TIMEOUT_S: Final = 60.0
ANSWER_S: Final = 300.0
"""How long a server may take for its next bytes, and for an answer as a whole."""
BLOCK: Final = 1 << 20
MOST_ANSWER: Final = 4 << 20
AUTHORITIES: Final = Path("/etc/docker/certs.d")
"""Where Docker looks for the authority of a registry: `HOST/*.crt`."""
CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
PORTS: Final = {"http": 80, "https": 443}
LONGEST: Final = 300


class ConnectionEnded(Exception):
    """A connection ended before the answer: the request may be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a server answered. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def said(self) -> str:
        """Return the server's words, as far as it has any."""
        try:
            first = json.loads(self.body)["errors"][0]
            words = ": ".join(str(first[key]) for key in ("code", "message") if first.get(key))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            words = ""
        return printable(words)[:LONGEST] or f"HTTP status {self.status}"


@dataclass(slots=True, kw_only=True)
class RegistryClient:
    """A registry, for one repository. `plain_http`: without TLS, as the user says."""

    reference: Reference
    credentials: Credentials | None = None
    plain_http: bool = False
    scheme: str = ""
    _authorization: str = field(default="", repr=False)

    def connect(self) -> None:
        """Find out how the registry is spoken to; raise `InfrastructureError` if it is not."""
        server = self.reference.server
        self.scheme = "http" if self.plain_http else "https"
        try:
            answer = self._once("GET", self.url("/v2/"))
        except ConnectionEnded as error:
            if self.plain_http or not is_loopback(server) or not _speaks_no_tls(error):
                raise self._unreachable(error) from error
            self.scheme = "http"
            try:
                answer = self._once("GET", self.url("/v2/"))
            except ConnectionEnded as again:
                raise self._unreachable(again) from again
        if answer.status not in (200, 401):
            raise InfrastructureError(f"{server} is no registry: it answers {answer.said()}")

    def url(self, path: str) -> str:
        """Return the URL of a path of the registry."""
        return f"{self.scheme}://{self.reference.server}{path}"

    def path(self, rest: str) -> str:
        """Return the URL of something in the repository."""
        return self.url(f"/v2/{self.reference.repository}/{rest}")

    def ask(
        self, method: str, url: str, body: bytes | IO[bytes] | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Make a request, with a token if the registry asks for one; raise `ConnectionEnded` if it does not answer."""
        at = body.tell() if body is not None and not isinstance(body, bytes) else 0
        answer = self._once(method, url, body, headers)
        if answer.status != http.HTTPStatus.UNAUTHORIZED or not self._is_own(url):
            return answer
        self._authorization = self._authorized(answer.headers.get("www-authenticate", ""))
        if body is not None and not isinstance(body, bytes):
            body.seek(at)
        answer = self._once(method, url, body, headers)
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            raise self._refused(answer)
        return answer

    def _once(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        signed: str | None = None,
    ) -> Response:
        """Make a request; `signed` is its authorization, if it is another than the registry's ("": none)."""
        parts = urlsplit(url)
        sent = {"Accept": "*/*", "User-Agent": "tare", **(headers or {})}
        if signed is None:
            signed = self._authorization if self._is_own(url) else ""
        if signed:
            sent["Authorization"] = signed
        connection = self._connection(parts.scheme, parts.netloc)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body=body, headers=sent)
            begin, limit = time.monotonic(), threading.Timer(ANSWER_S, _hang_up, (connection.sock,))
            limit.start()
            try:
                answer = connection.getresponse()
                content = answer.read(MOST_ANSWER)
            finally:
                limit.cancel()
                if time.monotonic() - begin > ANSWER_S:
                    raise TimeoutError(f"its answer takes more than {ANSWER_S:g} s")
            named = {key.lower(): value for key, value in answer.getheaders()}
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionEnded(printable(str(error))[:LONGEST] or type(error).__name__) from error
        finally:
            connection.close()
        return Response(status=answer.status, headers=named, body=content)

    def _connection(self, scheme: str, server: str) -> http.client.HTTPConnection:
        name, port = split_port(server, PORTS.get(scheme, 443))
        if scheme == "http":
            return http.client.HTTPConnection(name, port, timeout=TIMEOUT_S, blocksize=BLOCK)
        context = ssl.create_default_context()
        for file in sorted((AUTHORITIES / server).glob("*.crt")) if "/" not in server else ():
            context.load_verify_locations(file)
        return http.client.HTTPSConnection(name, port, timeout=TIMEOUT_S, blocksize=BLOCK, context=context)

    def _is_own(self, url: str) -> bool:
        parts = urlsplit(url)
        return (parts.scheme, parts.netloc) == (self.scheme, self.reference.server)

    def next_url(self, answer: Response, base: str) -> str:
        """Return where an answer says to go on; raise `InfrastructureError` if that is not allowed."""
        url = urljoin(base, answer.headers.get("location", ""))
        if not answer.headers.get("location"):
            raise InfrastructureError(f"{self.reference.server} does not say where to upload to")
        scheme = urlsplit(url).scheme
        if scheme not in ("https", self.scheme):
            raise InfrastructureError(f"{self.reference.server} leads from TLS to {scheme}")
        return url

    def _authorized(self, challenge: str) -> str:
        """Return the header that answers a challenge."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and self.credentials is not None and self.credentials.user:
            return self._basic(self.credentials)
        if kind.lower() == "bearer":
            return f"Bearer {self._token(dict(CHALLENGE.findall(rest)))}"
        raise self._refused(None)

    def _token(self, stated: Mapping[str, str]) -> str:
        """Return a token from the server that the registry names."""
        realm, service = stated.get("realm", ""), stated.get("service", "")
        parts = urlsplit(realm)
        if parts.scheme != "https" and not (parts.scheme == "http" and self.scheme == "http"):
            raise InfrastructureError(
                f"{self.reference.server} wants credentials to be sent to {parts.netloc} without TLS"
            )
        scope = f"repository:{self.reference.repository}:pull,push"
        try:
            answer = self._ask_for_token(realm, {"service": service, "scope": scope})
        except ConnectionEnded as error:
            raise InfrastructureError(
                f"{parts.netloc}, which gives tokens for the registry, does not answer: {error}"
            ) from error
        try:
            told: Any = json.loads(answer.body)
            token = told.get("token") or told["access_token"]
        except (ValueError, KeyError, AttributeError):
            raise self._refused(answer) from None
        return str(token)

    def _ask_for_token(self, realm: str, wanted: dict[str, str]) -> Response:
        who = self.credentials
        if who is not None and who.identity_token:
            form = {**wanted, "grant_type": "refresh_token", "refresh_token": who.identity_token, "client_id": "tare"}
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            return self._once("POST", realm, urlencode(form).encode(), kind, signed="")
        joint = "&" if urlsplit(realm).query else "?"
        signed = self._basic(who) if who is not None and who.user else ""
        return self._once("GET", f"{realm}{joint}{urlencode(wanted)}", signed=signed)

    @staticmethod
    def _basic(who: Credentials) -> str:
        return f"Basic {base64.b64encode(f'{who.user}:{who.password}'.encode()).decode()}"

    def _refused(self, answer: Response | None) -> InfrastructureError:
        host = self.reference.host
        said = f": {answer.said()}" if answer is not None and answer.body else ""
        if self.credentials is None:
            return InfrastructureError(f"{host} asks who pushes{said}", remedy=f"sign in first: docker login {host}")
        return InfrastructureError(
            f"{host} does not accept the credentials in Docker's configuration{said}",
            remedy=f"sign in again, as a user who may push to {self.reference.repository}: docker login {host}",
        )

    def _unreachable(self, error: ConnectionEnded) -> InfrastructureError:
        server = self.reference.server
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = f"put its authority's certificate into {AUTHORITIES}/{server}/ca.crt, or name it in SSL_CERT_FILE"
        elif isinstance(cause, ssl.SSLError):
            remedy = "if it has no TLS, and the network in between is trusted: --plain-http"
        else:
            remedy = "check its name and port, and whether it can be reached from here"
        return InfrastructureError(f"the registry {server} cannot be reached: {error}", remedy=remedy)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _speaks_no_tls(error: ConnectionEnded) -> bool:
    """Return whether a server answered something that is no TLS. One whose certificate is not trusted did not."""
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLCertVerificationError)
