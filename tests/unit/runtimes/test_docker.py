"""Docker: a container that Swarm attached too late is started once more, and any other failure is told at once."""

from __future__ import annotations

import pytest

from nodes import make_node, make_request
from tare.errors import CommandFailed, InfrastructureError
from tare.runtimes import RUNTIMES, docker

LATE = (
    "docker run --detach on n0 failed (status 125): docker: Error response from daemon: attaching to network failed, "
    "make sure your network options are correct and check manager logs: context deadline exceeded"
)


class Daemon:
    """Fails to start containers as often as there are messages."""

    def __init__(self, *messages: str) -> None:
        self.left = list(messages)
        self.did: list[str] = []

    def run_docker(self, _node: object, *arguments: str, **_: object) -> None:
        self.did.append(arguments[0])
        if self.left:
            raise CommandFailed(self.left.pop(0), status=125)

    def remove(self, _node: object, name: str) -> None:
        self.did.append(f"remove {name}")


def started(monkeypatch: pytest.MonkeyPatch, *messages: str) -> tuple[Daemon, str]:
    """Return what the daemon was asked, and the error of making a pod."""
    daemon = Daemon(*messages)
    monkeypatch.setattr(docker.daemon, "run_docker", daemon.run_docker)
    monkeypatch.setattr(docker, "_remove", daemon.remove)

    def no_container(*_: object) -> int:
        raise InfrastructureError("it runs")

    monkeypatch.setattr(docker.daemon, "container_pid", no_container)
    request = make_request(make_node(pid=77))
    with pytest.raises(InfrastructureError) as error, RUNTIMES["docker"].pod(request):
        pass
    return daemon, error.value.message


def test_a_container_that_was_attached_too_late_is_started_once_more_and_other_failures_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon, message = started(monkeypatch, LATE)
    assert message == "it runs"
    assert daemon.did == ["run", "remove tare-s-n0", "run", "remove tare-s-n0"]
    daemon, message = started(monkeypatch, LATE, LATE)
    assert message == LATE
    assert daemon.did.count("run") == 2
    daemon, message = started(monkeypatch, "no such image")
    assert message == "no such image"
    assert daemon.did == ["run", "remove tare-s-n0"]
