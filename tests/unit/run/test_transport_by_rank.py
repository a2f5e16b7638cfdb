"""What an MPI that chooses itself reports is read rank by rank, in the forms that the libraries print."""

from __future__ import annotations

import pytest

from tare.run.transport_log import by_rank, judged

OPEN_MPI = """[1,0]<stderr>:[n0:00045] select: component ob1 selected
[1,0]<stderr>:[n0:00045] mca: bml: Using self btl for send to [[87,1],0] on node n0
[1,0]<stderr>:[n0:00045] mca: bml: Using tcp btl for send to [[87,1],1] on node n1
[1,1]<stderr>:[n1:00046] select: component ob1 selected
[1,1]<stderr>:[n1:00046] mca: bml: Using {other} btl for send to [[87,1],0] on node n0
"""
HYDRA = """[0] [1795.1] [n0:9:0] ucp_worker.c:1 UCX  INFO  ep_cfg[1]: tag(tcp/data0 tcp/ctl0)
[1] [1795.1] [n1:9:0] ucp_worker.c:1 UCX  INFO  ep_cfg[1]: tag(tcp/data0 tcp/ctl0)
"""


def test_ranks_that_chose_the_same_are_told_once() -> None:
    found = by_rank("chosen by the MPI", OPEN_MPI.format(other="tcp"))
    assert found.words == "chosen by the MPI: pml ob1, btl tcp"
    assert found.of_ranks == {0: ("pml ob1", "btl tcp"), 1: ("pml ob1", "btl tcp")}
    assert found.reason is None


def test_ranks_that_chose_differently_are_told_each() -> None:
    found = by_rank("chosen by the MPI", OPEN_MPI.format(other="vader"))
    assert found.words == "chosen by the MPI: rank 0: pml ob1, btl tcp; rank 1: pml ob1, btl vader"


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "[prterun-n0-77@1,0]<stdout>: "])
def test_the_lanes_of_ucx_are_read_with_any_launchers_prefix(prefix: str) -> None:
    said = "\n".join(prefix + line for line in HYDRA.splitlines())
    assert by_rank("chosen by the MPI", said).taken == ("ucx tcp/ctl0", "ucx tcp/data0")


def test_a_line_behind_another_ranks_unended_one_is_read_as_its_own() -> None:
    whole = "".join(line.replace("[1]:", f"[{index}]:") + "\n" for index, line in enumerate(HYDRA.splitlines()))
    broken = whole.replace("\n[1] ", "\n[0] ==== data structure summary ====[1] ")
    assert broken != whole
    assert by_rank("chosen by the MPI", broken) == by_rank("chosen by the MPI", whole)
    assert set(by_rank("chosen by the MPI", broken).of_ranks) == {0, 1}


def test_a_library_that_tells_nothing_contradicts_nothing() -> None:
    assert by_rank("chosen by the MPI", "hello").words == "chosen by the MPI did not tell"
    assert by_rank("chosen by the MPI", "hello").reason is None
    assert judged("tcp", "UCX", "hello", port=False).reason is not None
