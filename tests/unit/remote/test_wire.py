"""What passes between head and node: values of tare's own types arrive as they were, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.counters.monitor import CounterValues
from tare.errors import CommandFailed, MissingTool
from tare.model import Environment, Placement
from tare.node import Endpoint, Nic, Node, Watch
from tare.node.cgroups import Group, Hierarchy
from tare.node_service.order import Files, Order
from tare.node_service.protocol import Phase
from tare.remote import wire

NODE = Node(
    name="n0",
    index=0,
    cores=(0, 1),
    control_address="10.0.0.1",
    nics=(Nic(name="eth0", address="10.0.0.1", prefix=24),),
    pid=0,
    group=Group(path="", hierarchies=(Hierarchy(mountpoint=Path("/sys/fs/cgroup"), version=2),)),
    boot_id="b",
)
ORDER = Order(
    study="s1-0",
    slot=0,
    environment=Environment(name="bare", runtime="bare", network="host", mpi="openmpi"),
    placement=Placement(),
    nodes=(NODE,),
    nic=0,
    hosts=2,
    files=Files(host_prefix=Path("/kernels"), shown=("/a b", "/c")),
)
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
    assert line.count(b"\n") == 1
    assert wire.loads(line) == value


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
        b"{}",
        b"nonsense",
        b'{"=":"os:system","of":{}}',
        b'{"=":"subprocess:Popen","of":{"args":"true"}}',
        b'{"=":"tare.host.process:run","of":{"argv":"true"}}',
        b'{"=":"tare.host.process:Popen","of":{"args":"true"}}',
        b'{"=":"tare.node:Node.places","of":{}}',
        b'{"=":"tare.node:Node","of":{"name":"n0"}}',
        b'{"=":"tare.nothing:Here","of":{}}',
        b'{"=":"enum","of":["tare.node:Node",1]}',
        b'{"=":"enum","of":["tare.node_service.protocol:Phase","never"]}',
        b'{"=":"error","of":["annotations",{"=":"dict","of":[]}]}',
        b'{"=":"path"}',
        b'{"=":"dict","of":[[[],1,2]]}',
        b'{"=":"frozenset","of":[{"=":"list","of":[]}]}',
        b"[" * 100_000,
    ],
)
def test_nothing_but_values_of_tare_is_made_of_a_message(line: bytes) -> None:
    with pytest.raises(wire.NotUnderstood):
        wire.loads(line)
