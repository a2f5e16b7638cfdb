"""The nodes of a deployment are asked together and read once, and each runtime gets the image in its form."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node
from tare.agent.local import LocalNode
from tare.agent.remote.at_once import on_each
from tare.errors import InfrastructureError, MissingTool, RefusedError
from tare.images.build import Image
from tare.images.convert import ConvertedImage
from tare.model import Cell, Environment, Placement, Role, Workload
from tare.run.deploy.hosts import Deployed
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import study_files
from tare.system.counters.raw_readings import ParsedReading
from tare.system.counters.values import CounterValues, Moment

NODES: Any = [
    SimpleNamespace(number=number, give_up=None, node=SimpleNamespace(name=f"n{number}")) for number in range(3)
]


def test_nodes_are_asked_at_the_same_time_and_answer_in_order() -> None:
    meeting = threading.Barrier(3)

    def answer(node: Any) -> int:
        meeting.wait()
        return int(node.number)

    assert on_each(NODES, answer) == (0, 1, 2)


def test_all_nodes_are_asked_where_one_cannot_answer_and_its_reason_is_raised() -> None:
    asked: list[int] = []

    def answer(node: Any) -> None:
        asked.append(node.number)
        if node.number == 1:
            raise OSError("busy")

    with pytest.raises(OSError, match="busy"):
        on_each(NODES, answer)
    assert sorted(asked) == [0, 1, 2]


@pytest.mark.parametrize(
    ("reasons", "message", "remedy"),
    [
        ({1: "no bridge"}, "node n1: no bridge", "install it"),
        ({1: "n1: no bridge"}, "n1: no bridge", "install it"),
        ({1: "n10: no bridge"}, "node n1: n10: no bridge", "install it"),
        ({2: "no bridge", 0: "no bridge"}, "nodes n0, n2: no bridge", "install it"),
        (
            {2: "no bridge: " + 300 * "x" + "\nlog", 0: "no etcd\nlog"},
            "2 nodes failed:\n  node n0: no etcd\nlog\n  node n2: no bridge: " + 180 * "x",
            "install it",
        ),
        ({2: "no bridge", 0: "no etcd"}, "2 nodes failed:\n  node n0: no etcd\n  node n2: no bridge", "install it"),
    ],
)
def test_an_error_names_its_node_and_each_node_that_failed_has_a_line(
    reasons: dict[int, str], message: str, remedy: str
) -> None:
    def answer(node: Any) -> None:
        if node.number in reasons:
            raise MissingTool(reasons[node.number], remedy=remedy)

    with pytest.raises(MissingTool) as caught:
        on_each(NODES, answer)
    assert (caught.value.message, caught.value.remedy) == (message, remedy)
    assert caught.value.node == f"n{min(reasons)}"
    assert caught.value.on_one_line() == message.replace(":\n  ", ": ").replace("\n  ", "; ").replace("\n", "; ")


def test_an_error_that_is_no_node_s_is_raised_before_those_of_nodes() -> None:
    def answer(node: Any) -> None:
        raise (RefusedError("no such key") if node.number == 2 else InfrastructureError("busy"))

    with pytest.raises(RefusedError, match="no such key"):
        on_each(NODES, answer)


ASKED = ("study", False)
"""The deployment, and whether the reading is whole."""


class Asked(LocalNode):
    """A node that notes what it is asked to read."""

    def __init__(self, index: int) -> None:
        super().__init__(make_node(index), Path("/nowhere"), lambda _pod, _slot: nullcontext(""))
        self.readings: list[tuple[Any, ...]] = []

    def counters(self, *asked: Any) -> Any:
        self.readings.append(asked)
        return ParsedReading(CounterValues())


def test_only_a_launch_that_begins_may_use_what_was_read_before_it() -> None:
    nodes = (Asked(0), Asked(1))
    environment = Environment(name="bare", runtime="bare", network="host")
    up = Deployed(environment=environment, pods=(), name="study", nodes=nodes)
    up.take(Moment(number=9, since=7), whole=False, begins=True)
    up.take(Moment(number=12, since=7), whole=False)
    up.counters(Moment(number=13, since=7), whole=False)
    first, second = (node.readings for node in nodes)
    assert first == [(*ASKED, True, 9, 7), (*ASKED, True, 12, 0), (*ASKED, True, 13, 0)]
    assert second == [(*ASKED, False, 9, 7), (*ASKED, False, 12, 0), (*ASKED, False, 13, 0)], "its machine is the same"


def cell(runtime: str) -> Cell:
    environment = Environment(name=runtime, runtime=runtime, network="host", image="i")
    return Cell(
        key=runtime, group="g", role=Role.BASELINE,
        workload=Workload(name="w"), environment=environment, placement=Placement(),
    )  # fmt: skip


def test_formats_are_converted_and_stored_by_the_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    image = Image(
        name="i", digest="0" * 32, rootfs=tmp_path / "rootfs", tar=tmp_path / "rootfs.tar", packages={}, cache=tmp_path
    )
    converted = lambda _image, wanted, *_: ConvertedImage(path=Path("/cache") / wanted / "file", digest="")  # noqa: E731
    monkeypatch.setattr(study_files, "ensure_file", converted)
    monkeypatch.setattr(type(RUNTIMES["sarus"]), "stored", lambda self, packed, progress: packed / "loaded")
    cells = [cell(name) for name in ("apptainer", "enroot", "shifter", "sarus", "enroot")]
    packed = study_files._packed(cells, image, lambda _: None)
    assert packed == (
        ("enroot", Path("/cache/squashfs/file")),
        ("shifter", Path("/cache/squashfs/file")),
        ("sarus", Path("/cache/docker-archive/file/loaded")),
    )
    files = Files(host_prefix=Path("/k"), packed=packed)
    assert files.made == (Path("/k"), Path("/cache/squashfs/file"), Path("/cache/docker-archive/file/loaded"))
    assert set(files.seen_by_nodes) == {"/cache/squashfs", "/cache/docker-archive/file"}
