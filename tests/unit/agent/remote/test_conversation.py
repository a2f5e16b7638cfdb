"""Head and service talk: started from nothing, with noise, with errors, and until one of them is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.agent.remote import conversation, serve, wire
from tare.agent.remote.archive import Archive, packed
from tare.agent.remote.conversation import Conversation, Unreachable
from tare.errors import InfrastructureError
from tare.system.node.cgroups import NO_GROUP

NODE = make_node(pid=0, control_address="127.0.0.1", nics=(), group=NO_GROUP)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("TARE_RUN_FOLDER", str(tmp_path / "run"))
    monkeypatch.setattr(conversation, "CONNECT_S", 600.0)
    return str(tmp_path / "cache")


def connected(tmp_path: Path, *before: str) -> Conversation:
    """Return a conversation with a service that a shell of this machine starts, after what `before` prints or does."""
    script = "; ".join((*before, 'eval "$0"'))
    return Conversation("alpha", ("/bin/sh", "-c", script), lambda words: words.strip()[-200:])


def test_a_service_is_started_from_nothing_and_greets_before_it_imports(tmp_path: Path, cache: str) -> None:
    for _ in range(2):
        talk = connected(tmp_path, "echo Welcome to alpha", "echo 'tare: hello'")
        machine = talk.begin(packed(), cache)
        assert machine.hostname == os.uname().nodename
        assert machine.cores == tuple(sorted(os.sched_getaffinity(0)))
        talk.close()
        assert [entry.name for entry in (Path(cache) / "node").iterdir()] == [packed().digest]
    script = "import sys; import tare.agent.remote.serve; print(*sys.modules)"
    shown = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True).stdout.split()
    heavy = (
        "tare.networks",
        "tare.runtimes",
        "tare.agent.protocol",
        "tare.agent.local",
        "tare.model.study",
        "tare.model.trial",
    )
    assert [name for name in shown if name.startswith(heavy)] == []


def test_an_error_of_a_call_reaches_the_head_and_the_service_goes_on(tmp_path: Path, cache: str) -> None:
    talk = connected(tmp_path)
    try:
        talk.begin(packed(), cache)
        with pytest.raises(InfrastructureError, match="no node is open here"):
            talk.ask("counters", "s1-0")
        with pytest.raises(InfrastructureError, match="cannot be asked '__init__'"):
            talk.ask("__init__", ())
        with pytest.raises(InfrastructureError, match="protocol"):
            talk.ask("greet", 99)
        with pytest.raises(InfrastructureError, match="cannot be the folder of a site"):
            talk.ask("open", "s1", NODE, Path("/etc"))
        assert talk.ask("greet", serve.PROTOCOL).uid == os.geteuid()
    finally:
        talk.close()


def test_connections_that_end_or_find_an_old_python_are_explained(tmp_path: Path, cache: str) -> None:
    talk = connected(tmp_path, "echo 'Permission denied' >&2", "exit 255")
    with pytest.raises(Unreachable, match="node alpha cannot be reached: Permission denied"):
        talk.begin(packed(), cache)
    talk.close()
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    program = "import os,sys; sys.version_info = (3, 8, 2); exec(eval(os.fdopen(os.dup(0),'rb',0).readline()))"
    fake.write_text(f'#!/bin/sh\nexec /usr/bin/env python3 -ISc "{program}"\n'.replace("env python3", "python3"))
    fake.chmod(0o755)
    talk = connected(tmp_path, f"PATH={fake.parent}:$PATH")
    with pytest.raises(Unreachable, match=r"node alpha cannot be used: python3 is version 3\.8, and 3\.9 is needed"):
        talk.begin(packed(), cache)
    talk.close()


def test_a_cache_that_cannot_be_written_is_named_and_a_damaged_archive_not_kept(tmp_path: Path, cache: str) -> None:
    talk = connected(tmp_path)
    with pytest.raises(Unreachable):
        talk.begin(Archive(digest="0" * 64, data=b"no zip file"), cache)
    talk.close()
    assert not (Path(cache) / "node" / ("0" * 64)).exists()
    (tmp_path / "file").write_text("")
    talk = connected(tmp_path)
    with pytest.raises(Unreachable, match="Not a directory"):
        talk.begin(packed(), str(tmp_path / "file"))
    talk.close()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Any]]]:
    """Serve in a thread until it ends: of itself, or because its input does; return the answers."""
    monkeypatch.setattr(serve, "ENDING", ())  # a thread sets no handlers
    ours, theirs = os.pipe(), os.pipe()

    def served(*requests: bytes, **options: float) -> list[Any]:
        os.write(ours[1], b"".join(requests))
        if not options:
            os.close(ours[1])
        thread = threading.Thread(target=serve.serve, args=(ours[0], theirs[1]), kwargs=options)
        thread.start()
        thread.join()
        os.close(theirs[1])
        if options:
            os.close(ours[1])
        with os.fdopen(theirs[0], "rb") as file:
            return [wire.loads(line) for line in file if line != wire.PARTIAL]

    yield served
    os.close(ours[0])


def test_requests_are_answered_until_the_input_or_a_lease_ends(
    answers: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    greet = (1, "greet", (serve.PROTOCOL,))
    found = answers(b"\n\n", wire.dumps(greet), b"nonsense\n", wire.dumps((2, "nothing", ())))
    assert [(number, outcome) for number, outcome, _ in found] == [(1, "done"), (0, "failed"), (2, "failed")]
    assert "tare node: the head closed the connection" in capsys.readouterr().err


def test_a_lease_ends_a_silent_service(answers: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(b"\n", lease_s=0.05) == []
    assert "tare node: nothing came from the head for 0.05 s" in capsys.readouterr().err


def test_a_service_says_that_a_part_of_a_line_has_come() -> None:
    requests, answers = os.pipe(), os.pipe()
    request = wire.dumps((1, "greet", (serve.PROTOCOL,)))

    def said() -> None:
        os.write(answers[1], wire.PARTIAL)
        os.write(requests[1], request[10:])

    with closing(serve.lines(requests[0], 600.0, partial=said)) as found:
        os.write(requests[1], request[:10])
        assert next(found) == request.strip()
        assert os.read(answers[0], 100) == wire.PARTIAL  # once for each part, not as long as it waits
        os.write(requests[1], request)
        assert next(found) == request.strip()
    assert not wire.arrives(answers[0], 0)


def test_a_head_says_that_a_part_of_an_answer_has_come(tmp_path: Path) -> None:
    script = 'read -r request; printf \'\\n[1,\'; read -r said; printf \'"done","%s"]\\n\' "${#said}"; cat; :'
    talk = Conversation("alpha", ("/bin/sh", "-c", script), str)
    assert talk.ask("anything") == "0"
    talk.close()
