"""Values pass between head and nodes as they were, also with older Pythons."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import make_node
from tare.agent.protocol import Phase
from tare.agent.remote import backport, wire
from tare.agent.remote.archive import packed
from tare.agent.remote.conversation import Unreachable
from tare.agent.remote.machine_answers import Service
from tare.agent.remote.serve import OWN
from tare.clusters.remote_site import RemoteSite
from tare.errors import CommandFailed, MissingTool
from tare.model import Environment, Placement
from tare.runtimes.containers.deployment import Deployment, Files
from tare.system.counters.values import CounterValues
from tare.system.node import Endpoint, Watch, bridges
from tare.system.node.cgroups import Group, Hierarchy
from tare.system.process import run

TREE = Hierarchy(mountpoint=Path("/sys/fs/cgroup"), version=2)
NODE = make_node(cores=(0, 1), pid=0, group=Group(path="", hierarchies=(TREE,)))
ORDER = Deployment(
    study="s1-0", slot=0, environment=Environment(name="bare", runtime="bare", network="host", mpi="openmpi"),
    placement=Placement(), nodes=(NODE,), nic=0, hosts=2, files=Files(host_prefix=Path("/k"), shown=("/a b", "/c")),
)  # fmt: skip
WATCH = Watch(pid=0, interface="eth0", role="data NIC")
ENDPOINT = Endpoint(address="10.0.0.1", prefix=24, interface="eth0", mtu=1500, watches=(WATCH,), daemons={"x": 3})
COUNTERS = CounterValues(
    interfaces={("alpha", 0, "eth0"): (1, 2, 3, 4)}, growing={("alpha", "n0", "net 7"): {"TcpRetransSegs": 1}},
    machine="alpha", busy_s=1.5, steal_s=0.0, softirq_s=0.1,
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [None, True, 7, 1.5, "ä\n\"", (), ("a", 1), [1, (2, 3)], {"a": {1: "b"}}, frozenset({1, 2}), {"x"}, b"\0\xff",
     Path("/a/b"), Phase.JOINED, NODE, ORDER, ENDPOINT],
)  # fmt: skip
def test_a_value_arrives_as_it_was(value: object) -> None:
    line = wire.dumps(value)
    assert line.endswith(b"\n")
    assert (line.count(b"\n"), wire.loads(line)) == (1, value)


def test_an_error_arrives_whole_or_as_one_of_infrastructure_and_what_is_no_value_is_not_sent() -> None:
    error = CommandFailed("it failed", argv=("a", "b"), status=3, stderr_tail="why")
    found = wire.loads(wire.dumps(error))
    assert type(found) is CommandFailed
    assert (found.message, found.argv, found.status, str(found)) == (error.message, ("a", "b"), 3, str(error))
    assert wire.loads(wire.dumps(MissingTool("none", remedy="get it"))).remedy == "get it"
    found = wire.loads(b'{"=":"error","of":["OfTomorrow",{"=":"dict","of":[["message","m"],["remedy",""]]}]}')
    assert (type(found).__name__, found.message) == ("InfrastructureError", "m")
    with pytest.raises(TypeError, match="cannot pass"):
        wire.dumps(object())


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b"nonsense", b'{"=":"os:system","of":{}}', b'{"=":"subprocess:Popen","of":{"args":"true"}}',
        b'{"=":"tare.system.process:run","of":{"argv":"true"}}',
        b'{"=":"tare.system.process:Popen","of":{"args":"true"}}', b'{"=":"tare.system.node:Node.places","of":{}}',
        b'{"=":"tare.system.node:Node","of":{"name":"n0"}}', b'{"=":"tare.nothing:Here","of":{}}',
        b'{"=":"enum","of":["tare.system.node:Node",1]}', b'{"=":"enum","of":["tare.agent.protocol:Phase","never"]}',
        b'{"=":"error","of":["annotations",{"=":"dict","of":[]}]}', b'{"=":"path"}', b'{"=":"dict","of":[[[],1,2]]}',
        b'{"=":"frozenset","of":[{"=":"list","of":[]}]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_nothing_but_values_of_tare_is_made_of_a_message(line: bytes) -> None:
    with pytest.raises(wire.NotUnderstood):
        wire.loads(line)


def test_fields_without_a_default_may_follow_those_with_one() -> None:
    @backport._dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int = 1
        b: str

    @backport._dataclass(frozen=True, slots=True, kw_only=True)
    class More(Base):
        c: list[int] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            assert self.b

    made = More(b="x")
    assert (made.a, made.b, made.c) == (1, "x", [])
    assert dataclasses.replace(made, a=2) == More(a=2, b="x")
    assert hash(Base(b="y")) == hash(Base(b="y"))
    with pytest.raises(TypeError, match="More needs b"):
        More(a=1)
    with pytest.raises(TypeError, match="More has no d"):
        More(b="x", d=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 3


def test_what_newer_pythons_have_is_there_in_older_ones() -> None:
    @backport._dataclass
    class Point:
        x: int
        y: int = 0

    assert (Point(1), list(backport._Zip([1, 2], "ab", strict=True))) == (Point(1, 0), [(1, "a"), (2, "b")])
    assert (list(backport._Zip([1, 2], "a")), list(backport._Zip(strict=True))) == ([(1, "a")], [])
    with pytest.raises(ValueError, match="different lengths"):
        list(backport._Zip([1, 2], "a", strict=True))

    class Word(backport._StrEnum):
        ONE = "one"

    assert (str(Word.ONE), f"{Word.ONE}", Word("one"), Word.ONE == "one") == ("one", "one", Word.ONE, True)
    data = b"x" * 1_000_000
    assert backport._file_digest(io.BytesIO(data), "sha256").hexdigest() == hashlib.sha256(data).hexdigest()


def test_compiled_modules_are_found_and_not_compiled_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(packed(compiled=True).data)) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tare.agent.remote.timing as it; print(it.LEASE_S)"
    )
    own = tmp_path / "tare/agent/remote/timing.py"
    own.write_text("this would not be compiled")
    assert float(run((sys.executable, "-ISB", "-c", code)).stdout) > 0, "the byte code is not held to its source"
    assert packed(compiled=True).digest != packed().digest


def test_a_service_turns_the_packet_filter_of_bridges_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in bridges.NAMES:
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(bridges.write, "__defaults__", (tmp_path,))
    with ExitStack() as stack:
        Service(stack).settle()
    assert bridges.read(tmp_path) == dict.fromkeys(bridges.NAMES, "0")


def test_hosts_with_daemons_are_asked_and_one_that_is_gone_is_passed_over() -> None:
    asked: list[str] = []

    class Gone:
        def ask(self, name: str) -> None:
            raise Unreachable(f"node is gone: {name}")

    class Answers:
        def ask(self, name: str) -> tuple[str, ...]:
            asked.append(name)
            return (name,)

    nodes = tuple(SimpleNamespace(name=name) for name in ("n0", "d0", "d1"))
    site: Any = SimpleNamespace(
        daemon_nodes=nodes[1:],
        services={"d0": SimpleNamespace(conversation=Gone()), "d1": SimpleNamespace(conversation=Answers())},
    )
    RemoteSite.settle(cast("RemoteSite", site))
    assert RemoteSite.sweep(cast("RemoteSite", site)) == ["d1: sweep"]
    assert asked == ["settle", "sweep"]
    assert set(asked) <= set(OWN)
