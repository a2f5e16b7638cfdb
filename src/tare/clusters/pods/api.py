"""Make requests to a Kubernetes API server as the user whom a kubeconfig names.

The official client finds credentials (certificates, tokens, programs that sign in) and makes the connections. Objects
are the server's own JSON: a study names only some of their fields, and passes on what it does not know.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlencode

from tare.agent.remote.conversation import Unreachable
from tare.errors import InfrastructureError, MissingTool, TareError
from tare.system.packages import install_python

if TYPE_CHECKING:
    from kubernetes.client import Configuration

REQUEST_S: Final = 30.0
MOST_ANSWER: Final = 256 << 20
"""Bytes that are read of one answer: a list of ten thousand pods takes a hundred million."""


class Stream(Protocol):
    """What is used of the client's stream with channels, which has no types: `kubernetes.stream.ws_client.WSClient`."""

    sock: Any
    subprotocol: str | None

    def is_open(self) -> bool:
        """Return whether it is open, as far as is known."""

    def update(self, timeout: float | None = 0) -> None:
        """Take in what has arrived."""

    def read_channel(self, channel: int, timeout: float = 0) -> bytes:
        """Return what has arrived on a channel."""

    def write_channel(self, channel: int, data: bytes) -> None:
        """Send bytes on a channel."""

    def close_channel(self, channel: int) -> None:
        """Close a channel alone, where the server can."""


class ApiError(TareError):
    """The API server has refused a request: `status` is HTTP's, `reason` the server's own word, such as `Forbidden`."""

    def __init__(self, message: str, *, status: int, reason: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.reason = reason

    @property
    def is_absent(self) -> bool:
        """Return whether there is no such object, or no such kind of objects."""
        return self.status == HTTPStatus.NOT_FOUND


class Api:
    """An API server. `context` and `kubeconfig` are "" for the current context and the usual files."""

    def __init__(self, configuration: Configuration) -> None:
        from kubernetes.client.rest import RESTClientObject

        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        """Return the URL of the server."""
        return str(self._configuration.host)

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Sequence[tuple[str, str]] = (),
        kind: str = "application/json",
    ) -> dict[str, Any]:
        """Make a request and return the object that the server answers; raise `ApiError` if it refuses."""
        return _object(self._request(method, path, body, query, {"Accept": "application/json", "Content-Type": kind}))

    def read(self, path: str, query: Sequence[tuple[str, str]] = (), *, limit_s: float = REQUEST_S) -> str:
        """Return what is no object, such as a container's output; raise `ApiError` if the server refuses it."""
        return self._request("GET", path, None, query, {"Accept": "*/*"}, limit_s).decode(errors="replace")

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        limit_s: float = REQUEST_S,
    ) -> bytes:
        import urllib3

        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        signed = {**headers, **self._authorization()}
        try:
            answer = self._rest.pool_manager.request(
                method, url, body=None if body is None else json.dumps(body), headers=signed, preload_content=False,
                timeout=urllib3.Timeout(total=limit_s), retries=urllib3.Retry(total=1, read=0, redirect=0),
            )  # fmt: skip
            data = answer.read(MOST_ANSWER)
            if len(data) < MOST_ANSWER:
                answer.release_conn()
            else:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(
                f"the Kubernetes API server {self.host} does not answer: {_last(error)}",
                remedy="try `kubectl get nodes` with the same context",
            ) from error
        if answer.status >= 400:
            told = _object(data)
            raise ApiError(
                str(told.get("message") or f"HTTP status {answer.status}"),
                status=int(answer.status),
                reason=str(told.get("reason", "")),
            )
        return bytes(data)

    def connect(self, path: str, query: Sequence[tuple[str, str]]) -> Stream:
        """Open a stream with channels (exec): bytes, nothing kept; raise `ApiError` if the server refuses it."""
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import ws_client

        opened_by: Any = ws_client.WSClient
        headers = {key.lower(): value for key, value in self._authorization().items()}
        url = f"ws{self.host.removeprefix('http')}{path}?{urlencode(query)}"
        try:
            return cast("Stream", opened_by(self._configuration, url, headers, capture_all=False, binary=True))
        except ApiException as error:
            raise ApiError(_said(error), status=int(error.status or 0), reason=str(error.reason or "")) from error

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self._rest.pool_manager.clear()

    def _authorization(self) -> dict[str, str]:
        """Return the header that signs a request, renewed where a program signs in."""
        with self._lock:
            settings: Any = self._configuration.auth_settings()
        return {str(each["key"]): str(each["value"]) for each in settings.values() if each.get("in") == "header"}


def probe() -> str | None:
    """Return that the official client is missing, with what installs it, or None."""
    return (
        None
        if find_spec("kubernetes")
        else f"the Python package kubernetes is not installed: {install_python('kubernetes')}"
    )


def opened(kubeconfig: str = "", context: str = "") -> Api:
    """Return the API server of a context; raise `TareError` with what is missing, and what to do."""
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise MissingTool(
            "cluster kubernetes needs the Python package kubernetes",
            remedy=f"install it with `{install_python('kubernetes')}`",
        ) from None
    configuration = Configuration()
    load: Any = config.load_kube_config
    try:
        load(kubeconfig or None, context or None, configuration, persist_config=False)
    except config.ConfigException as error:
        raise InfrastructureError(
            f"no Kubernetes can be used: {_last(error)}",
            remedy="set KUBECONFIG, or kubeconfig and context in the study; `kubectl config get-contexts` lists them",
        ) from error
    return Api(configuration)


def _object(data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")[:300]}
    return told if isinstance(told, dict) else {"items": told}


def _said(error: Any) -> str:
    """Return the server's words from an exception of the client, which puts headers around them."""
    text = str(getattr(error, "body", "") or error.reason or error)
    return str(_object(text.encode()).get("message", text))[:500]


def _last(error: BaseException) -> str:
    """Return what lies behind an exception of the client in a few words."""
    reason = getattr(error, "reason", None)
    return str(reason or error).splitlines()[0][:300]
