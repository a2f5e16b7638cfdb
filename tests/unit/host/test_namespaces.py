"""Holders are started with what they are to hold, and their refusals become one sentence."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tare.errors import InfrastructureError
from tare.host import namespaces
from tare.host.namespaces import HOLDER, hold, hold_all, index_of, inside_network, is_holder, plain_python
from tare.host.paths import run_folder
from tare.host.process import Result


def answering(monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str = "") -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def run(argv: tuple[str, ...], **options: Any) -> Result:
        calls.append({"argv": argv, **options})
        return Result(argv=argv, status=0, stdout=stdout, stderr=stderr, elapsed_s=0.0)

    monkeypatch.setattr(namespaces, "run", run)
    return calls


def test_a_holder_carries_our_mark_in_its_command_line_and_gets_its_order_on_stdin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = answering(monkeypatch, '{"pid": 77}\n')
    assert hold("tare:lab:n0", {"new": ["net"]}) == 77
    assert calls[0]["argv"] == (plain_python(), "-IS", str(HOLDER), "tare:lab:n0", str(run_folder()))
    assert json.loads(calls[0]["stdin"]) == [{"mark": "tare:lab:n0", "new": ["net"]}]


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ('{"error": "unshare(1): Operation not permitted"}', "", "Operation not permitted"),
        ("", "ImportError: no ctypes", "no ctypes"),
    ],
)
def test_a_holder_that_fails_is_told_with_its_mark_its_words_and_the_remedy(
    stdout: str, stderr: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, stdout, stderr)
    with pytest.raises(InfrastructureError) as caught:
        hold("tare:lab:n0", {})
    assert "cannot create the namespaces of tare:lab:n0" in caught.value.message
    assert words in caught.value.message
    assert "root" in caught.value.remedy


@pytest.mark.parametrize(
    ("stdout", "status", "timed_out", "words"),
    [
        ("", -9, False, "the holder printed nothing and ended with status -9"),
        ("half a li", 0, False, "the holder printed nothing and ended with status 0"),
        ("", -15, True, "the holder did not answer within 60 s"),
    ],
)
def test_a_holder_that_does_not_say_why_is_told_with_how_it_ended_and_not_as_a_matter_of_rights(
    stdout: str, status: int, timed_out: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(argv: tuple[str, ...], **_: Any) -> Result:
        return Result(argv=argv, status=status, stdout=stdout, stderr="", elapsed_s=0.0, timed_out=timed_out)

    monkeypatch.setattr(namespaces, "run", run)
    with pytest.raises(InfrastructureError, match=words) as caught:
        hold("tare:lab:n0", {})
    assert "root" not in caught.value.remedy


def test_holders_that_are_started_together_have_their_own_marks_and_one_may_fail() -> None:
    marks = ("tare:utest:n0", "tare:utest:a-much-longer-name", "tare:utest:n2")
    first, second, failed = hold_all([(marks[0], {}), (marks[1], {}), (marks[2], {"cgroups": ["/nowhere"]})])
    assert isinstance(first, int)
    assert isinstance(second, int)
    try:
        for pid, mark in ((first, marks[0]), (second, marks[1])):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            assert words[2:] == [str(HOLDER).encode(), mark.encode(), str(run_folder()).encode()]
            assert is_holder(pid, "utest:")
        assert "n2: [Errno 2] No such file" in str(failed)
    finally:
        for pid in (first, second):
            os.kill(pid, signal.SIGKILL)


def test_what_is_gone_or_cannot_be_done_is_told_in_a_sentence() -> None:
    with pytest.raises(InfrastructureError, match="No such file or directory"):
        hold("tare:utest:n0", {"cgroups": ["/nowhere"]})
    before = _own()
    with pytest.raises(FileNotFoundError), inside_network(2**22 + 1):
        pass
    assert _own() == before
    assert index_of(Route(), "eth0") == 3  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError, match="network namespace has no interface eth7"):
        index_of(Route(), "eth7")  # type: ignore[arg-type]


def _own() -> str:
    import os

    return os.readlink("/proc/thread-self/ns/net")


class Route:
    def link_lookup(self, ifname: str) -> list[int]:
        return [3] if ifname == "eth0" else []
