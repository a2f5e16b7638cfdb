"""What a node answers becomes no path, option, address, index or variable of the head: it may be hostile.

It is one file because all sections change one value of the same honest answers, which are made at its top.
"""

from __future__ import annotations

import math
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import pytest

from nodes import make_node
from tare.agent.protocol import CALLS, DescribedPods, LeftBehind, NodeService
from tare.agent.remote import answers, serve
from tare.agent.remote.conversation import Conversation
from tare.agent.remote.machine import Interface, Machine
from tare.agent.remote.machine_answers import Service
from tare.agent.remote.service import RemoteNode
from tare.agent.remote.wire import NotUnderstood
from tare.clusters import remote_files
from tare.clusters.remote_site import own_address
from tare.errors import InfrastructureError, RefusedError
from tare.model import Environment, Placement
from tare.model.topology import HardwareThread
from tare.mpi.launch import agent
from tare.run.on_node import Shell
from tare.runtimes.containers.deployment import IMAGE_PREFIX, Deployment, Files
from tare.system.counters.values import CounterValues
from tare.system.node import Client, Endpoint, Pod, Watch
from tare.system.node.cgroups import Group
from tare.system.node.surroundings import NodeHas

NODE = make_node(pid=0, group=Group(path="", hierarchies=()), machine="alpha")
OTHER = replace(NODE, name="n1", index=1, machine="beta")
BARE = Environment(name="bare", runtime="bare", network="host", mpi="openmpi")
ORDER = Deployment(
    study="s1-0",
    slot=0,
    environment=BARE,
    placement=Placement(),
    nodes=(NODE, OTHER),
    nic=0,
    hosts=2,
    files=Files(host_prefix=Path("/cache/kernels")),
)
POD = Pod(name="p", node=NODE, runtime="bare", pid=0, enter=(), group=NODE.group, host="n0")
ENDPOINT = Endpoint(
    address="10.0.0.1", prefix=24, interface="eth0", mtu=1500, watches=(Watch(pid=0, interface="eth0", role="r"),)
)
CONNECTED = replace(POD, endpoint=ENDPOINT, prefix=Path("/cache/kernels"))
COUNTERS = CounterValues(
    interfaces={("alpha", 0, "eth0"): (1, 2, 3, 4)}, growing={("alpha", "n0", "net"): {"x": 1}}, machine="alpha"
)
MACHINE = Machine(
    hostname="alpha",
    boot_id="b",
    architecture="x86_64",
    libc="glibc 2.36",
    kernel="6.1",
    python="3.11.2",
    uid=0,
    is_root=True,
    cores=(0, 1),
    layout=(),
    interfaces=(Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500),),
    reached=("10.0.0.9", "10.0.0.1"),
)


DESCRIBED = DescribedPods(state=({"mtu": "1500"},), limits=(("memory 1 GiB",),), node=NodeHas(namespaces={"net": 1}))


class Answering:
    """A conversation with a node whose answers are given, checked as the head checks them."""

    name = "alpha"
    is_open = True

    def __init__(self, **given: Any) -> None:
        self.given = {"prepare": None, **given}

    def ask(self, name: str, *_: Any) -> Any:
        return answers.check(self.name, name, self.given[name])


def node_that_says(**given: Any) -> RemoteNode:
    """Return the head's pod of a node, for which the deployment of `ORDER` is under way."""
    node = RemoteNode(NODE, cast("Conversation", Answering(**given)), lambda: cast("Conversation", None))
    node.prepare(ORDER)
    return node


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache with folders in it, and a link that leads to what is not to be sent."""
    made = tmp_path / "cache"
    for name in ("a", "b"):
        (made / name).mkdir(parents=True)
    (made / "link").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("TARE_CACHE", str(made))
    return made


# --- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "named",
    [
        "{cache}/../secret",
        "{cache}/a/../../secret",
        "{secret}",
        "/etc/shadow",
        "secret",
        "../secret",
        "--files-from={secret}",
        "{cache}/link/secret",
        "{cache}//a",
        "{cache}/./a",
        "{cache}",
        "/proc/self/root/etc/shadow",
    ],
)
def test_only_what_a_node_was_asked_for_is_sent(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    sent: list[Path] = []
    monkeypatch.setattr(remote_files, "send", lambda path, *_: sent.append(path))
    text = named.format(cache=cache, secret=tmp_path / "secret")
    machine = cast("Conversation", Answering(missing=(text, str(cache / "b"))))
    remote_files.provide([machine], [("ssh",)], [cache / "a", cache / "b"], folder=tmp_path)
    assert sent == [cache / "b"]
    assert remote_files.lacks(machine, ["/x"]) == ()


@pytest.mark.parametrize("place", ["{cache}/../secret", "{cache}/link/secret", "/etc/shadow", "{cache}/a/../../secret"])
def test_no_path_outside_of_the_cache_is_sent_however_it_is_written(cache: Path, tmp_path: Path, place: str) -> None:
    loot = tmp_path / "loot"
    receive = ("/bin/sh", "-c", f"cat > {loot}")
    with pytest.raises(RefusedError, match="put it at the same path"):
        remote_files.send(Path(place.format(cache=cache)), receive, tmp_path / "flag", "alpha")
    assert not loot.exists()


@pytest.mark.parametrize("name", ["-x", "--files-from=list", "plain", "-C..", "a b", "--checkpoint-action=exec=id"])
def test_a_name_that_looks_like_an_option_is_sent_and_received_as_a_name(
    cache: Path, tmp_path: Path, name: str
) -> None:
    there = tmp_path / "there"
    (cache / name).mkdir()
    (cache / name / "file").write_text("content")
    there.mkdir()
    script = f'cd {there}; sh -c "$(printf %s "$1" | sed \'s#{cache}#{there}/cache#g\')"'
    remote_files.send(cache / name, ("/bin/sh", "-c", script, "sh"), tmp_path / "flag", "alpha")
    assert (there / "cache" / name / "file").read_text() == "content"
    assert sorted(each.name for each in (there / "cache").iterdir()) == [name]


# --- places, options, variables -------------------------------------------------------------------------------------


def deployed_with(pod: Pod) -> Pod:
    return node_that_says(deploy=(pod,)).deploy("s1-0")[0]


@pytest.mark.parametrize(
    "changed",
    [
        replace(CONNECTED, node=OTHER),
        replace(CONNECTED, node=replace(NODE, machine="", name="head")),
        replace(CONNECTED, host="n1"),
        replace(CONNECTED, host="-x,n1:9", number=3),
        replace(CONNECTED, prefix=Path("--output-filename=/etc/cron.d/x")),
        replace(CONNECTED, prefix=Path("/tmp/evil")),
        replace(CONNECTED, variables=("LD_PRELOAD=/tmp/evil.so",)),
    ],
)
def test_where_pods_and_programs_are_is_what_the_head_ordered(changed: Pod) -> None:
    assert deployed_with(changed) == CONNECTED
    assert node_that_says(join=(changed,)).join("s1-0", ()) == (CONNECTED,)


def test_programs_of_an_image_are_at_the_images_own_path() -> None:
    image = replace(ORDER, environment=replace(BARE, runtime="apptainer", image="i"))
    (pod,) = answers.made_pods(image, NODE, (replace(CONNECTED, prefix=Path("--mca")),))
    assert pod.prefix == IMAGE_PREFIX


def test_variables_for_commands_on_a_node_reach_the_node_and_no_program_of_the_head() -> None:
    evil = replace(CONNECTED, client=Client(variables={"LD_PRELOAD": "/tmp/evil.so", "PATH": "/tmp/evil"}))
    site: Any = SimpleNamespace(reach=lambda node: ("ssh", "alpha"), allocation=object())
    entry = agent.parse_json(next(word for word in Shell(site=site, pod=evil).argv(("true",)) if word[:1] == "{"))
    seen: list[dict[str, str]] = []
    script: list[str] = []

    def execvpe(program: str, argv: list[str], environment: dict[str, str]) -> None:
        assert program == "ssh"
        seen.append(environment)
        script.append(argv[-1])
        raise OSError(2, "not started")

    original = agent.os.execvpe
    agent.os.execvpe = execvpe  # type: ignore[assignment]
    try:
        agent.start(entry, ["true"])
    finally:
        agent.os.execvpe = original
    assert "LD_PRELOAD" not in seen[0]
    assert seen[0].get("PATH") != "/tmp/evil"
    assert "LD_PRELOAD=/tmp/evil.so" in script[0]


@pytest.mark.parametrize("owned", [False, True])
def test_a_node_stays_the_node_that_was_opened(owned: bool) -> None:
    lie = replace(OTHER, pid=7, cores=(99,), control_address="10.9.9.9", docker_socket="/s")
    told = answers.opened_node(NODE, lie, owned=owned)
    assert replace(told, pid=0, docker_socket="") == NODE
    assert told.pid == (7 if owned else 0)


# --- addresses and names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "x"},
        {"address": "10.0.0.1/0"},
        {"address": ""},
        {"prefix": 0},
        {"prefix": 33},
        {"prefix": True},
        {"interface": "--evil"},
        {"interface": "a b"},
        {"interface": "a,b"},
        {"interface": "x" * 16},
        {"port": "-x:1"},
        {"port": "mlx5_0"},
        {"mtu": "9"},
        {"mtu": 1 << 70},
        {"mtu": -1},
        {"watches": (Watch(pid=-1, interface="eth0", role="r"),)},
        {"daemons": {"x": "y"}},
        {"facts": {"a": 1}},
        {"watches": ("eth0",)},
    ],
)
def test_an_endpoint_has_an_address_and_names_of_interfaces(changed: dict[str, Any]) -> None:
    with pytest.raises(NotUnderstood, match="node alpha gave an impossible answer to 'join'"):
        node_that_says(join=(replace(CONNECTED, endpoint=replace(ENDPOINT, **changed)),)).join("s1-0", ())


@pytest.mark.parametrize(
    "changed",
    [
        {"cores": ()},
        {"cores": (0, 0)},
        {"cores": (-1,)},
        {"cores": (1 << 20,)},
        {"cores": ("0",)},
        {"reached": ("a",)},
        {"reached": None},
        {"hostname": "a\x1b[31m"},
        {"hostname": "x" * 70_000},
        {"interfaces": ()} | {"interfaces": None},
        {"interfaces": (Interface(name="eth0", address="0.0.0.0", prefix=0, mtu=1),)},
        {"interfaces": (Interface(name="-x", address="10.0.0.1", prefix=8, mtu=1),)},
        {"interfaces": (Interface(name="eth0", address="::1", prefix=8, mtu=1),)},
        {"layout": (1,)},
        *({"layout": (HardwareThread(**{"cpu": 0, "core": 0, name: bad}),)}
          for name in ("cpu", "core", "numa", "socket") for bad in (-1, 1 << 16)),
        {"uid": -1},
        {"uid": 1.5},
    ],
)  # fmt: skip
def test_a_machine_describes_itself_in_possible_words(changed: dict[str, Any]) -> None:
    assert answers.check("alpha", "greet", MACHINE) is MACHINE
    with pytest.raises(NotUnderstood, match="'greet'"):
        answers.check("alpha", "greet", replace(MACHINE, **changed))


@pytest.mark.parametrize(
    "token", ["--advertise-addr", "SWMTKN-1-a b", "", "SWMTKN-1-" + "a" * 300, "-H tcp://x", "x\n"]
)
def test_a_token_for_the_other_nodes_is_a_token(token: str) -> None:
    assert answers.swarm_token("alpha", "SWMTKN-1-3pu6hszjas19-0abc") == "SWMTKN-1-3pu6hszjas19-0abc"
    with pytest.raises(NotUnderstood, match="'begin_swarm'"):
        answers.swarm_token("alpha", token)


@pytest.mark.parametrize("said", ["0.0.0.0", "", "10.9.9.9", "::1", "255.255.255.255", "no address"])
def test_the_heads_address_is_one_of_its_own(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr("tare.clusters.remote_site.towards", lambda address: {"10.0.0.1": "10.0.0.9"}.get(address, ""))
    head = replace(MACHINE, interfaces=(Interface(name="eth0", address="10.0.0.9", prefix=24, mtu=1500),))
    assert own_address(head, MACHINE) == "10.0.0.9"
    assert own_address(head, replace(MACHINE, reached=(said, "10.0.0.1"))) == "10.0.0.9"
    assert own_address(head, replace(MACHINE, reached=(said, "10.7.7.7"))) == ""


# --- how many, and how much -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "value", "make"),
    [
        ("deploy", (), lambda node: node.deploy("s1-0")),
        ("deploy", (CONNECTED, CONNECTED), lambda node: node.deploy("s1-0")),
        ("join", (), lambda node: node.join("s1-0", ())),
        ("join", (CONNECTED, CONNECTED), lambda node: node.join("s1-0", ())),
        *(("described", replace(DESCRIBED, **changed), lambda node: node.described("s1-0")) for changed in (
            {"state": ({}, {})}, {"state": ()}, {"limits": ((),)}, {"limits": ()}, {"limits": (("a",), ("b",))},
        )),
        ("facts", {}, lambda node: node.facts()),
        ("facts", {"GPUs": {"a": 1}}, lambda node: node.facts()),
        ("facts", {"GPUs": (1,)}, lambda node: node.facts()),
    ],
)  # fmt: skip
def test_a_node_answers_for_each_of_its_pods(call: str, value: Any, make: Callable[[RemoteNode], Any]) -> None:
    with pytest.raises(NotUnderstood, match=f"node alpha gave an impossible answer to '({call}|deploy)': "):
        make(node_that_says(**{call: value}))


NAN, HUGE = math.nan, 1e250
SCOPE = ("alpha", "n0", "net")


@pytest.mark.parametrize(
    "changed",
    [
        {"busy_s": NAN},
        {"busy_s": math.inf},
        {"busy_s": HUGE},
        {"busy_s": -1.0},
        {"busy_s": "x"},
        {"job_s": None},
        {"steal_s": 1e13},
        {"throttled_s": -0.1},
        {"softirq_s": True},
        {"growing": {SCOPE: {"x": HUGE}}},
        {"growing": {SCOPE: {"x": NAN}}},
        {"growing": {SCOPE: {"x": "1"}}},
        {"growing": {SCOPE: {"x": -1}}},
        {"growing": {SCOPE: {1: 1}}},
        {"growing": {"n0": {"x": 1}}},
        {"growing": {SCOPE: 3}},
        {"states": {SCOPE: {"x": -1}}},
        {"states": {("beta", "n1", ""): {"x": 1}}},
        {"interfaces": {("beta", 0, "eth0"): (1, 2, 3, 4)}},
        {"interfaces": {("alpha", 0, "eth0"): (1, 2, 3)}},
        {"interfaces": {("alpha", 0, "eth0"): (1, 2, 3, -4)}},
        {"interfaces": {("alpha", 0, "eth0"): (1, 2, 3, 1 << 64)}},
        {"interfaces": {("alpha", 0, "eth0"): (1, 2, 3, 0.5)}},
        {"interfaces": 17},
        {"unread": {("alpha", 0, "eth0"): 1}},
        {"lacking": ("\x1b[2J",)},
        {"lacking": "abc"},
    ],
)
def test_counters_are_numbers_that_a_kernel_can_count(changed: dict[str, Any]) -> None:
    assert node_that_says(counters=COUNTERS).counters("s1-0").values() == COUNTERS
    with pytest.raises(NotUnderstood, match="node alpha gave an impossible answer to 'counters'"):
        node_that_says(counters=replace(COUNTERS, **changed)).counters("s1-0")


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("ended", 3),
        ("ended", "a\x1b]0;b\x07"),
        ("end_left", {"a": 1}),
        ("end_left", LeftBehind(processes={}, memory_hit="x" * 70_000)),
        ("end_left", LeftBehind(processes={"a": "b"})),  # type: ignore[dict-item]
        ("end_left", LeftBehind(processes={"a": NAN})),  # type: ignore[dict-item]
        ("end_left", LeftBehind(processes={"a": -1})),
        ("signal", "many"),
        ("signal", -1),
        ("missing", "abc"),
        ("missing", (1,)),
        ("described", {}),
        ("described", replace(DESCRIBED, node=NodeHas(namespaces={"net": "x"}))),  # type: ignore[dict-item]
        ("described", replace(DESCRIBED, node=NodeHas(devices=("a",)))),  # type: ignore[arg-type]
        ("clean", ("\x1b[0m",)),
        ("write", "x"),  # type: ignore[arg-type]
        ("interfaces", {"eth0": (1, 2)}),
        ("open", CONNECTED),
        ("described", replace(DESCRIBED, state=({"a": 1},))),  # type: ignore[dict-item]
        ("described", replace(DESCRIBED, limits=("a",))),  # type: ignore[arg-type]
        ("facts", {"x": b"\xff"}),
        ("facts", {"x": frozenset([1])}),
        ("facts", {"x": [[[[[[[[[[1]]]]]]]]]]}),
        ("facts", {1: 2}),
        ("facts", {"x": NAN}),
        ("deploy", (CONNECTED, 1)),
        ("deploy", CONNECTED),
        ("deploy", (replace(CONNECTED, containers=(POD,)),)),  # type: ignore[arg-type]
        ("deploy", (replace(CONNECTED, enter=("a", 1)),)),  # type: ignore[arg-type]
        ("deploy", (replace(CONNECTED, prefix="/x"),)),
        ("deploy", (replace(CONNECTED, pid=-1),)),
        ("deploy", (replace(CONNECTED, keepers=frozenset({-1})),)),
        ("deploy", (replace(CONNECTED, client=Client(words={"a": 1})),)),  # type: ignore[arg-type,dict-item]
    ],
)
def test_an_answer_of_another_type_is_a_clear_error(call: str, value: Any) -> None:
    with pytest.raises(NotUnderstood, match=f"node alpha gave an impossible answer to '{call}'") as caught:
        answers.check("alpha", call, value)
    assert isinstance(caught.value, InfrastructureError)
    assert caught.value.message.isprintable()


def test_every_call_states_what_it_returns() -> None:
    for owner, calls in ((NodeService, CALLS), (Service, serve.OWN)):
        for call in calls:
            assert "return" in get_type_hints(getattr(owner, call)), call


def test_packed_files_hold_the_name_and_what_is_below(cache: Path, tmp_path: Path) -> None:
    (cache / "image" / "dev").mkdir(parents=True)
    (cache / "image" / "dev" / "left").write_text("")
    (cache / "image" / "kept").write_text("")
    packed = tmp_path / "packed.tar"
    remote_files.send(cache / "image", ("/bin/sh", "-c", f"cat > {packed}"), tmp_path / "flag", "alpha")
    with tarfile.open(packed) as archive:
        assert {*archive.getnames()} - {"./image/dev"} == {"./image", "./image/kept"}
