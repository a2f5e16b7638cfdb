"""Jobs take turns on the same cores: who waits sleeps, and what is measured in shares is measured whole."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from at_table import Seated, opened
from tare.run.turns import Table, Waited

pytestmark = pytest.mark.integration

EVERY = (
    "latency:iterations=40,warmup=8",
    "bw:bytes=1000,window=4,iterations=13,warmup=3",
    "bibw:bytes=1000,window=4,iterations=9",
    "sendrecv:iterations=20,warmup=5",
    "barrier:iterations=30,warmup=10",
    "barrier:sync=window,iterations=25",
    "alltoall:iterations=11",
    "alltoallv:iterations=7,warmup=1",
    "allgather:iterations=8",
    "allreduce:iterations=3,warmup=0",
    "halo:iterations=12",
    "spacing:rate=10000,iterations=37,warmup=5",
)


@pytest.fixture
def table() -> Iterator[Table]:
    with opened() as table:
        yield table


class Job(Seated):
    """A launch of `tare-kernels` at a table, in a thread of its own."""

    def __init__(self, table: Table, launch: Callable[..., object], *specs: str, ranks: int, turns: int, mpi: str = ""):
        super().__init__(table, ranks, turns)
        options = (
            {"variant": mpi, "env": {"ASAN_OPTIONS": "detect_leaks=0"}} if mpi else {}
        )  # MPI libraries keep memory
        self.pool = ThreadPoolExecutor(1)
        self.run = self.pool.submit(launch, self.option, *specs, ranks=ranks, **options)
        self.run.add_done_callback(lambda _: self.end())


@pytest.mark.parametrize(
    ("mpi", "ranks", "turns"),
    [("openmpi-sanitized", 2, 4), ("openmpi-sanitized", 3, 7), ("mpich", 2, 4)],  # MPICH polls: a third rank takes 16 s
)
def test_every_kernel_gives_all_of_its_samples_in_turns(table, launch, samples, mpi, ranks, turns):
    job = Job(table, launch, *EVERY, ranks=ranks, turns=turns, mpi=mpi)
    assert job.wait() is Waited.READY
    assert [job.turn() for _ in range(turns)] == [Waited.READY] * turns
    assert job.turn() is Waited.ENDED
    run = job.run.result()
    assert run.code == 0, run.stderr
    lines = run.of_type("kernel")
    assert [line["spec"] for line in lines] == list(EVERY)
    for line in lines:
        assert line["verified"], line["spec"]
        for column in samples(line).values():
            assert len(column) == line["iterations"] == int(re.search(r"iterations=(\d+)", line["spec"])[1])
            assert all(0 < value < 1 for value in column), line["spec"]
        begin_s, end_s = line["span_s"]
        assert 0 < end_s - begin_s < 60


def test_who_waits_uses_no_core_and_its_pauses_are_in_no_sample(table, launch, samples):
    pause_s, kernels = 0.5, ("latency:iterations=20", "barrier:iterations=20", "spacing:rate=10000,iterations=20")
    began = time.monotonic()
    job = Job(table, launch, *kernels, ranks=2, turns=4)
    assert job.wait() is Waited.READY
    opened_s = time.monotonic() - began
    ranks = [int(pid) for pid in running(job.seat.key)]
    assert len(ranks) == 2
    for _ in range(4):
        before = [cpu_ticks(pid) for pid in ranks]
        time.sleep(pause_s)
        assert [cpu_ticks(pid) for pid in ranks] == before
        assert job.turn() is Waited.READY
    assert job.turn() is Waited.ENDED
    run = job.run.result()
    assert run.code == 0, run.stderr
    for line in run.of_type("kernel"):
        # buffers, verification and warm-up come before the first turn, and are in a kernel's time
        assert line["elapsed_s"] < opened_s + job.in_turns_s, "pauses do not count"
        assert max(map(sum, samples(line).values())) < job.in_turns_s
        assert line["span_s"][1] - line["span_s"][0] > 3 * pause_s


def running(key: str) -> list[str]:
    """Return the processes of `tare-kernels` that were told this key."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if entry.name.isdigit() and argv[0].endswith(b"/tare-kernels") and any(key.encode() in each for each in argv):
            found.append(entry.name)
    return found


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_two_jobs_are_at_work_one_after_the_other(table, launch):
    jobs = [Job(table, launch, "latency:iterations=30", ranks=2, turns=3) for _ in range(2)]
    assert [job.wait() for job in jobs] == [Waited.READY] * 2
    for _ in range(3):
        assert [job.turn() for job in jobs] == [Waited.READY] * 2
    assert [job.turn() for job in jobs] == [Waited.ENDED] * 2
    assert [job.run.result().code for job in jobs] == [0, 0]


def test_where_whoever_gives_the_turns_goes_the_job_ends(launch):
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    table = Table(made)
    job = Job(table, launch, "latency", ranks=2, turns=3)
    assert job.wait() is Waited.READY
    table.close()
    run = job.run.result(timeout=30)
    assert run.code != 0
    assert "whoever gives the turns has gone" in run.stderr


def test_where_nobody_gives_turns_the_job_says_so(launch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = launch(f"--turns=2@127.0.0.1:{port}/{'0' * 16}", "latency")
    assert run.code != 0
    assert "cannot take turns with other jobs: 127.0.0.1: Connection refused" in run.stderr


@pytest.mark.parametrize(
    "option",
    ["", "3", "0@127.0.0.1:1/0123456789abcdef", "3@127.0.0.1:99999/0123456789abcdef", "3@host:1/0123456789abcdef",
     "3@127.0.0.1:1/short", "3@127.0.0.1:1/0123456789abcdefg", "3@999.0.0.1:1/0123456789abcdef"],
)  # fmt: skip
def test_another_option_is_refused(launch, option):
    run = launch(f"--turns={option}", "latency")
    assert run.code == 2
    assert run.complaints == [f"tare-kernels: --turns={option} is not understood; allowed: --turns=N@ADDRESS:PORT/KEY"]


def test_a_rank_that_is_sent_away_does_not_hold_the_table(table):
    ours, theirs = socket.socketpair()
    seat = table.seat(2, ours)
    option = table.option(seat, 1)
    address, _, port = option.partition("@")[2].partition("/")[0].partition(":")
    with socket.create_connection((address, int(port))) as first:
        first.sendall(f"{seat.key} {0:8d}\nd".encode())
        began = time.monotonic()
        assert table.wait(seat, 0.5) is Waited.TIME_LIMIT  # its other rank never comes
        assert time.monotonic() - began < 5
        theirs.send(b"e")
        assert table.wait(seat, 5) is Waited.ENDED
    theirs.close()


def test_who_says_no_key_is_sent_away_and_a_job_that_is_late_is_told(table):
    ours, theirs = socket.socketpair()
    seat = table.seat(2, ours)
    assert table.wait(seat, 0.0) is Waited.TIME_LIMIT
    address = table.option(seat, 1).partition("@")[2].partition("/")[0].split(":")
    for hello in (b"GET / HTTP/1.1\r\n\r\n............", b"0" * 16 + b"        0\n", b""):
        with socket.create_connection((address[0], int(address[1]))) as stranger:
            stranger.sendall(hello)
            stranger.shutdown(socket.SHUT_WR)
            assert table.wait(seat, 0.2) is Waited.TIME_LIMIT
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    assert seat.connections == {}
    threading.Timer(0.1, theirs.send, [b"e"]).start()
    assert table.wait(seat, 10) is Waited.ENDED
    theirs.close()
