"""A node that hangs, floods or dribbles is given up in time, and one Ctrl-C ends the wait."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tare.agent.protocol import NodeService, Phase
from tare.agent.remote import at_once, conversation, wire
from tare.agent.remote.archive import Archive
from tare.agent.remote.conversation import Conversation, Unreachable
from tare.agent.remote.service import RemoteNode
from tare.agent.remote.wire import NotUnderstood
from tare.clusters.connections import Connections
from tare.errors import TareError
from tare.run.deploy import pods
from tare.run.deploy.hosts import Deployed
from waiting import wait_until

GREETS = "printf 'tare-node {\"has\": true}\\n'"
HANGS = f"{GREETS}; exec sleep 600"


def node_that(script: str) -> Conversation:
    return Conversation("alpha", ("/bin/sh", "-c", script), lambda words: words[-200:])


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT_S", "READ_S", "ANSWER_S"):
        monkeypatch.setattr(conversation, name, 0.3)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    "script",
    [
        f"{GREETS}; while printf x; do sleep 0.05; done",
        f"{GREETS}; exec yes ''",
        f"{GREETS}; exec yes 'welcome'",
        f"{GREETS}; exec yes '[0,\"done\",1]'",
        HANGS,
        "exec yes",
        "exec yes ''",
        "exec sleep 600",
        "while printf x; do :; done",
    ],
)
def test_a_node_that_does_not_answer_is_given_up_even_while_bytes_arrive(script: str) -> None:
    talk = node_that(script)
    with pytest.raises((Unreachable, NotUnderstood)) as caught:
        talk.begin(Archive(digest="d", data=b""))
    assert "node alpha" in caught.value.message or "a node sent" in caught.value.message
    talk.abort()
    talk.close()


@pytest.mark.usefixtures("patience")
def test_a_node_that_takes_nothing_in_is_given_up() -> None:
    talk = node_that("exec sleep 600")
    with pytest.raises(Unreachable, match=r"node alpha takes nothing in for 0\.3 s"):
        talk.ask("write", Path("/x"), "x" * 200_000)
    talk.abort()
    talk.close()


def test_an_answer_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "LONGEST_LINE", 3 << 20)
    talk = node_that("tr '\\0' x < /dev/zero & exec cat > /dev/null")
    with pytest.raises(NotUnderstood, match="node alpha sent more than 3 MiB in one answer"):
        talk.ask("facts")
    assert len(talk._left) < 5 << 20
    talk.close()
    assert not talk.is_open


@pytest.mark.parametrize(
    "answer",
    [
        "17",
        "[]",
        "null",
        '"text"',
        '[1,"done"]',
        '[1,"perhaps",3]',
        '[1,"failed","no error"]',
        "{}",
        "[1,2,3,4]",
        "[" * 3000,
        '[1,3,"x"]',
    ],
)
def test_what_is_no_answer_is_a_clear_error(answer: str) -> None:
    talk = node_that(f"read -r request; printf '%s\\n' '{answer}'; cat")
    with pytest.raises(NotUnderstood):
        talk.ask("ended", "s1-0")
    talk.close()


def test_an_error_of_a_node_has_the_fields_of_an_error_and_nothing_else() -> None:
    said = '[["message","m\\u001b[31m"],["remedy",7],["exit_code",99],["__class__","x"],["argv",[1]],["status","3"]]'
    error = wire.loads(f'{{"=":"error","of":["CommandFailed",{{"=":"dict","of":{said}}}]}}'.encode())
    assert isinstance(error, TareError)
    assert (error.message, error.remedy, error.exit_code, vars(error).keys()) == (
        "m\\x1b[31m",
        "7",
        5,
        {"message", "remedy", "argv", "status", "stderr_tail"},
    )
    for bad in ('[["remedy",""]]', '[["message","m"],["status","x"]]', '[["message","m"],["argv",3]]', "3"):
        with pytest.raises(NotUnderstood):
            wire.loads(f'{{"=":"error","of":["CommandFailed",{{"=":"dict","of":{bad}}}]}}'.encode())
    with pytest.raises(NotUnderstood):
        wire.loads(b'{"=":"tare.store.writer:Store","of":{"path":{"=":"path","of":"/x"},"plan":null,"facts":null}}')


def test_last_words_are_kept_and_a_flood_of_them_is_not() -> None:
    talk = node_that("exec >&-; yes noise | head -c 50000000 >&2; echo 'it went wrong' >&2; exit 3")
    with pytest.raises(Unreachable, match="it went wrong"):
        talk.ask("facts")
    assert len(talk._words) <= conversation.LAST_WORDS
    talk.close()


class Hosts(Connections):
    """Connections to nodes that this machine's shell stands for."""

    def __init__(self, scripts: Sequence[str]) -> None:
        self._scripts = scripts
        super().__init__([f"h{number}" for number in range(len(scripts))], kind="ssh")

    def opening(self, number: int) -> tuple[str, ...]:
        return "/bin/sh", "-c", self._scripts[number]

    def reach(self, number: int) -> tuple[str, ...]:
        return ()

    def explain(self, number: int, words: str) -> str:
        return "it ended"


@contextmanager
def interrupted_when(ready: Callable[[], bool]) -> Iterator[None]:
    """Send this process a Ctrl-C once something is so; it is to end the block with a KeyboardInterrupt."""

    def send() -> None:
        wait_until(ready)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        yield


def test_one_interrupt_ends_the_wait_for_hosts_that_hang_which_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_RUN_FOLDER", str(tmp_path))
    monkeypatch.setattr("tare.clusters.connections.ANNOUNCED_S", 0.05)
    monkeypatch.setattr(conversation, "CONNECT_S", 600.0)
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    with interrupted_when(lambda: "waiting for h0, h1 to answer" in said.getvalue()):
        Hosts((HANGS, "exec sleep 600"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RemoteNode]]:
    """Return two nodes that hang, for whose end nobody waits long."""
    monkeypatch.setattr(at_once, "PATIENCE_S", 0.1)
    monkeypatch.setattr(at_once, "LOOK_S", 0.05)
    again = cast("Callable[[], Conversation]", None)
    made = [RemoteNode(cast("Any", SimpleNamespace()), node_that("exec sleep 600"), again) for _ in range(2)]
    yield made
    for node in made:
        node.conversation.close()


def test_one_interrupt_ends_a_deployment_on_machines_that_hang(nodes: list[RemoteNode]) -> None:
    asked = threading.Event()

    def share(node: NodeService) -> None:
        asked.set()
        node.share("s1-0")

    with interrupted_when(asked.is_set):
        at_once.on_each(cast("list[NodeService]", nodes), share)
    assert not any(node.conversation.is_open for node in nodes)


def test_a_machine_that_hangs_after_it_was_connected_again_is_given_up_as_well(nodes: list[RemoteNode]) -> None:
    node, other = nodes
    lost, give_up = node.conversation, node.give_up  # which a deployment asks for before it connects again
    node.conversation = other.conversation
    give_up()
    assert lost.is_open
    assert not node.conversation.is_open
    lost.close()


def test_undoing_after_an_interrupt_waits_no_longer_for_a_node_that_hangs(nodes: list[RemoteNode]) -> None:
    node, _ = nodes
    up = cast("Deployed", SimpleNamespace(nodes=(node,), name="s1-0"))
    stack = ExitStack()
    pods._leave_at_the_end(stack, up, Phase.PREPARED)
    assert not stack.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not node.conversation.is_open


@pytest.mark.usefixtures("patience")
def test_a_node_that_did_not_answer_is_not_asked_again() -> None:
    talk = node_that("exec sleep 600")
    with pytest.raises(Unreachable, match="node alpha does not answer"):
        talk.ask("counters", "s1-0")
    assert not talk.is_open
    with pytest.raises(Unreachable, match="node alpha cannot be reached"):
        talk.ask("leave", "s1-0")
    talk.close()


def test_calls_that_make_nothing_have_a_shorter_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "READ_S", 0.1)
    for call in ("counters", "described", "ended"):
        talk = node_that("exec sleep 600")
        with pytest.raises(Unreachable, match="node alpha does not answer"):
            talk.ask(call, "s1-0")
        talk.close()
