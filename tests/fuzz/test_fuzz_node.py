"""Whatever a node sends is a value of the type that its call returns, within the bounds, or an error of one sentence.

What is sent goes through the head's own `Conversation`, from a file in the place of a connection.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from ipaddress import IPv4Address
from pathlib import PurePath
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import strategies as st

from fuzz import fuzzing
from fuzz.fuzzing import fuzz
from fuzz.mutations import STEERING, VALUES, changed_texts, changed_values
from tare.agent.protocol import CALLS, LeftBehind
from tare.agent.remote import answers, conversation, serve, wire
from tare.agent.remote.archive import Archive
from tare.agent.remote.bootstrap_text import MARK
from tare.agent.remote.conversation import Conversation
from tare.agent.remote.service import RemoteNode
from tare.clusters import remote_files
from tare.errors import CommandFailed, TareError
from tare.model import Placement
from tare.model.text import printable
from unit.agent.remote.test_answers import CONNECTED, COUNTERS, DESCRIBED, MACHINE, NODE, ORDER

PATHS: Final = ("/cache/a", "/cache/b")
ANSWERS: Final[Mapping[str, Any]] = {
    "begin_swarm": "SWMTKN-1-3pu6hszjas19-0abc", "clean": ("a cgroup",), "counters": COUNTERS, "deploy": (CONNECTED,),
    "described": DESCRIBED, "end_left": LeftBehind(processes={"sleep": 1}), "ended": "what holds the pod has ended",
    "facts": {"GPUs": ("a",), "kernel": "6.1", "cores": 2, "offloads": {"tso": "on"}}, "greet": MACHINE,
    "interfaces": {"lo": (1, 2, 3, 4)}, "join": (CONNECTED,), "missing": PATHS,
    "open": replace(NODE, pid=7), "probe": "no",
    "signal": 3, "start_docker": replace(NODE, docker_socket="/s"), "sweep": ("/x: was taken back",), "unfit": None,
}  # fmt: skip
"""What a node may answer to each call that returns something."""
ASKED: Final[Mapping[str, tuple[Any, ...]]] = {
    "counters": ("s1-0",), "deploy": ("s1-0",), "described": ("s1-0",), "end_left": ("s1-0",), "ended": ("s1-0",),
    "facts": (), "join": ("s1-0", ()), "signal": (9, ("a",)),
}  # fmt: skip
"""The arguments of calls that `RemoteNode` makes."""
FAILURE: Final = CommandFailed("it failed", argv=("a", "b"), status=3, stderr_tail="why")
PLAIN: Final = json.dumps({"=": "dict", "of": [["a", 1]]})
TAGS: Final = (
    "tare.model:Placement", "tare.model.placement:Placement", "tare.store.writer:Store", "tare.cli.app:main",
    "tare.system.node:Node", "tare.errors:TareError", "tare.agent.remote.wire:NotUnderstood", "os:system", "tare.:x",
    "tare.x:",
    "tare.none:X", f"tare.{STEERING}:X", f"tare.system.node:{STEERING}", f"tare.{'x' * 9000}:X",
    "tare.agent.protocol:Phase",
    "enum", "error", "bytes", "path", "set", "frozenset", "list", "dict", "", "tare.\0:x", "tare.\ud800:x",
)  # fmt: skip


def line_of(value: Any, outcome: str = serve.DONE) -> Any:
    return wire.encode((1, outcome, value))


LINES: Final = [line_of(value) for value in ANSWERS.values()]
LINES += [line_of(FAILURE, serve.FAILED), line_of(Placement()), json.loads(f'[1, "done", {PLAIN}]')]


@st.composite
def retagged(draw: st.DrawFn) -> Any:
    """Draw a message in which objects say that they are of another type, or have another content."""
    value = draw(changed_values(LINES))
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if wire.TYPE in each and draw(st.integers(0, 5)) == 0:
                each[wire.TYPE] = draw(st.sampled_from((*TAGS, *VALUES)))
            left += each.values()
        elif isinstance(each, list):
            left += each
    return value


MESSAGES: Final = (
    retagged().map(json.dumps)
    | changed_values(LINES).map(json.dumps)
    | changed_texts([json.dumps(each) for each in LINES])
).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40)


class Sent(Conversation):
    """The head's side of a conversation in which a node has sent what a file holds, and then ended."""

    def __init__(self, data: bytes) -> None:
        self._file = os.fdopen(os.memfd_create("node"), "w+b", buffering=0)
        self._file.write(data)
        self._file.seek(0)
        self._sink = open(os.devnull, "wb", buffering=0)  # noqa: SIM115
        self.name, self._number, self._words, self._left, self._begun = "alpha", 0, b"", bytearray(), True
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._explain = str
        self._process = cast("Any", SimpleNamespace(stdin=self._sink, stdout=self._file, wait=int, poll=lambda: None))
        self._listener = cast("Any", SimpleNamespace(join=float))

    def abort(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()
        self._sink.close()


def belongs(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type all through; written apart from the code that checks it."""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return type(value) is hint and all(
            belongs(getattr(value, each.name), hints[each.name]) for each in fields(hint)
        )
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(belongs(value, each) for each in inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(belongs, value, inner))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            belongs(key, inner[0]) and belongs(own, inner[1]) for key, own in value.items()
        )
    if origin is not None:
        return isinstance(value, tuple | frozenset | list) and all(belongs(each, inner[0]) for each in value)
    if hint is Any:
        return isinstance(value, str | int | float | list | tuple | Mapping | None)
    if hint in (None, NoneType):
        return value is None
    return isinstance(value, (int, float) if hint is float else hint) and (hint is bool or not isinstance(value, bool))


def within(value: Any) -> bool:
    """Return whether every text and number in a value can be shown and stored."""
    if isinstance(value, str | PurePath):
        return len(str(value)) <= answers.LONGEST_TEXT and str(value) == printable(str(value), lines=True)
    if isinstance(value, int | float):
        return -(2.0**64) <= value <= 2.0**64
    if is_dataclass(value) and not isinstance(value, type):
        return all(within(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Mapping):
        return all(within(key) and within(own) for key, own in value.items())
    return all(map(within, value)) if isinstance(value, tuple | list | frozenset | set) else True


def is_a_sentence(error: TareError) -> None:
    for text in (error.message, error.remedy, getattr(error, "stderr_tail", "")):
        assert text == printable(text, lines=True)
        assert len(text) <= wire.LONGEST


def answer(call: str, data: bytes) -> Any:
    with closing(Sent(data + b"\n")) as talk:
        return talk.ask(call)


def check_line(sent: tuple[str, bytes]) -> None:
    call, data = sent
    try:
        value = answer(call, data)
    except TareError as error:
        is_a_sentence(error)
        return
    assert belongs(value, answers._returned(call)), (call, value)
    assert within(value), (call, value)
    assert wire.loads(wire.dumps(value)) == value


def test_any_bytes_are_an_answer_to_a_call_or_an_error_of_one_sentence() -> None:
    fuzz(st.tuples(st.sampled_from(sorted(ANSWERS)), MESSAGES), check_line)


def check_greeting(greeting: bytes) -> None:
    first = b"welcome\n" + MARK + greeting + b"\n"
    with closing(Sent(first + json.dumps(line_of(MACHINE)).encode() + b"\n")) as talk:
        try:
            assert talk.begin(Archive(digest="d", data=b"")) == MACHINE
        except TareError as error:
            is_a_sentence(error)


def test_any_greeting_begins_a_conversation_or_is_an_error_of_one_sentence() -> None:
    given: list[Any] = [{"has": True, "python": [3, 11, 2]}, {"error": "no space left"}]
    texts = changed_texts([json.dumps(each) for each in given]) | changed_values(given).map(json.dumps)
    fuzz(texts.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40), check_greeting)


@st.composite
def answered(draw: st.DrawFn) -> tuple[str, bytes]:
    call = draw(st.sampled_from(sorted(ASKED)))
    return call, json.dumps(draw(changed_values([line_of(ANSWERS[call])]))).encode()


def check_paths(data: bytes) -> None:
    """Check that the head takes only those of its paths from a host that it has asked for."""
    with closing(Sent(data + b"\n")) as talk:
        try:
            assert set(remote_files.lacks(talk, PATHS)) <= set(PATHS)
        except TareError as error:
            is_a_sentence(error)


def check_call(sent: tuple[str, bytes]) -> None:
    """Check what the head makes of an answer: it names nothing but what the head has ordered, or asked for."""
    call, data = sent
    with closing(Sent(data + b"\n")) as talk:
        node = RemoteNode(NODE, talk, lambda: talk)
        node._orders["s1-0"] = ORDER
        try:
            value = getattr(node, call)(*ASKED[call])
        except TareError as error:
            is_a_sentence(error)
            return
    assert within(value), (call, value)
    if call in ("deploy", "join"):
        (pod,) = value
        assert (pod.prefix, pod.variables, pod.node, pod.host) == (CONNECTED.prefix, (), NODE, CONNECTED.host)
        assert IPv4Address(pod.endpoint.address)
        assert not pod.endpoint.interface.startswith("-")
    elif call == "counters":
        value = value.values()
        numbers = [number for each in (*value.growing.values(), *value.states.values()) for number in each.values()]
        assert min(numbers, default=0) >= 0
        assert {key[0] for each in (value.interfaces, value.growing, value.states, value.unread) for key in each} <= {
            NODE.machine
        }
    elif call == "described":
        assert len(value.state) == len(value.limits) == 1


def test_an_answer_becomes_nothing_that_the_head_has_not_ordered() -> None:
    fuzz(answered(), check_call)


def test_a_host_names_no_path_that_the_head_has_not_asked_for() -> None:
    fuzz(changed_values([line_of(PATHS)]).map(lambda changed: json.dumps(changed).encode()), check_paths)


def test_what_is_changed_is_answered_to_every_call_and_is_right() -> None:
    for call in (*CALLS, *serve.OWN, serve.GREET):
        assert call in ANSWERS or answers._returned(call) is NoneType, call
    for call, value in ANSWERS.items():
        check_line((call, json.dumps(line_of(value)).encode()))
        assert answer(call, json.dumps(line_of(value)).encode()) == value
    for call in ASKED:
        check_call((call, json.dumps(line_of(ANSWERS[call])).encode()))


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"[0],", b'"ab",', b"1.5,", b'{"a":{}},', b"["])
def test_the_longest_answer_takes_no_more_memory_than_an_example_may(piece: bytes) -> None:
    many = piece * ((conversation.LONGEST_LINE - 100) // len(piece))
    with pytest.raises(TareError) as caught, fuzzing.limited():
        answer("facts", b'[1,"done",[' + many + b"0]]")
    is_a_sentence(caught.value)
