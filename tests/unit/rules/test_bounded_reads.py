"""Nothing is read without a bound from another process or host, and the bounds are those that SECURITY.md states."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from source_tree import ROOT, calls_in, trees

RECEIVES = frozenset({"recv", "recvfrom", "recvmsg", "recv_into", "recv_fds", "makefile", "urlopen", "communicate"})
READS = frozenset({"read", "readline", "readlines", "readall"})
"""Methods that read to the end, or to the end of a line, if they get no number of bytes."""
ALLOWED = {
    "runtimes/containers/idmapped.py": "one byte of a child of its own, by os.read",
    "system/node/kernel_files.py": "a probe of a file of the kernel",
    "system/counters/netlink.py": "the kernel's answer, in a buffer of a fixed size",
    "system/counters/reader.py": "a file of the kernel",
    "cli/doctor/locality_probe.py": "a file of the kernel",
    "system/capture.py": "64 MiB of stdout (STDOUT_BYTES), the end of stderr",
    "system/signals.py": "numbers of signals, of this process",
    "system/holder.py": "a line of a child of its own; a file of the kernel",
    "networks/wiring/ping.py": "one packet",
    "clusters/pods/enter.py": "pieces, passed on; frames of the head's own gate",
    "clusters/pods/gate.py": "LONGEST",
    "clusters/pods/session.py": "pieces, passed on",
    "agent/remote/bootstrap.py": "on a node: a line of its head, which has the rights of its user",
    "agent/remote/conversation.py": "LONGEST_LINE; LAST_WORDS",
    "agent/remote/serve.py": "on a node: a line of its head, which has the rights of its user",
    "run/core_watch.py": "what tare-cores, a program of tare's own, has added to its file",
    "run/turns.py": "HELLO_BYTES; one byte",
    "runtimes/apptainer_instance.py": "a file of the kernel",
    "daemons/coredns.py": "one packet",
    "daemons/forward.py": "pieces, passed on",
    "store/sample_files.py": "a file, as long as its size says",
    "mpi/launch/agent.py": "the launch map, which the head wrote",
}  # fmt: skip
"""Where something is read by these methods, and what bounds it; the names of constants are in SECURITY.md's table."""


def calls_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the calls that take what comes: `recv` and the like, `os.read`, and `read()` without a number."""
    for node in calls_in(tree):
        if not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, node.func.value
        of_os = isinstance(owner, ast.Name) and owner.id == "os" and name == "read"
        if name in RECEIVES or of_os or (name in READS and not node.args):
            yield name, node.lineno


def test_whatever_receives_is_listed_with_its_bound() -> None:
    found = {place: calls for place, tree in trees() if (calls := list(calls_of(tree)))}
    assert {place: calls for place, calls in found.items() if place not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "it reads nothing any more"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("s.recv(1 << 16)", "recv"), ("a.read()", "read"), ("f.readline()", "readline"), ("os.read(0, 9)", "read"),
        ("request.urlopen(x).read(9)", "urlopen"), ("p.communicate()", "communicate"), ("s.makefile()", "makefile"),
    ],
)  # fmt: skip
def test_the_check_sees_each_way(text: str, name: str) -> None:
    assert [found for found, _ in calls_of(ast.parse(text))] == [name]
    assert list(calls_of(ast.parse("file.read(MOST)"))) == []


UNITS = {"": 1, "s": 1, "bytes": 1, "characters": 1, "MiB": 1 << 20}
ROW = re.compile(r"\| [^|]+ \| ([0-9.e]+) ?(\w*) \| `(tare\.[\w.]+)\.(\w+)` \| [^|]+ \|")


def test_the_table_of_bounds_is_that_of_the_code() -> None:
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    rows = [match for line in lines if (match := ROW.fullmatch(line))]
    assert len(rows) >= 24
    for number, unit, module, name in (match.groups() for match in rows):
        assert float(number) * UNITS[unit] == getattr(importlib.import_module(module), name), name
