"""Jobs take turns on the same cores: who waits sleeps, and what is measured in shares is measured whole."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from at_table import LIMIT_S, Seated, opened
from kernels.launching import SANITIZERS, TICK_S, samples, ticking
from tare.mpi.launch import PADDING
from tare.run.turns import TurnOutcome, TurnScheduler
from tare.workloads.parts import of_launch
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

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
PAUSE_S = 1.0
"""How long a pause is on the clock of ticks."""


@pytest.fixture
def table() -> Iterator[TurnScheduler]:
    with opened() as table:
        yield table


def seated(table, launch, *specs, ranks=2, turns, env=None, **more):
    def with_key(option, key):
        run = launch(option, *specs, ranks=ranks, env={**(env or {}), PADDING: f"{key}:"}, **more)
        return replace(run, stdout=of_launch(run.stdout, key))

    return Seated(table, with_key, ranks, turns)


@pytest.mark.parametrize(
    ("mpi", "ranks", "turns"),
    [("openmpi-sanitized", 3, 7), pytest.param("mpich", 2, 4, marks=pytest.mark.requires("mpich"))],
)
def test_every_kernel_gives_all_of_its_samples_in_turns(table, launch, mpi, ranks, turns):
    run = seated(table, launch, *EVERY, ranks=ranks, turns=turns, variant=mpi, env=SANITIZERS).take(turns)
    assert run.code == 0, run.stderr
    lines = run.of_type("kernel")
    assert [line["spec"] for line in lines] == list(EVERY)
    for line in lines:
        assert line["verified"], line["spec"]
        for column in samples(line).values():
            assert len(column) == line["iterations"] == int(re.search(r"iterations=(\d+)", line["spec"])[1])
            assert all(value > 0 for value in column), line["spec"]
        assert line["span_s"][0] < line["span_s"][1]


def test_pauses_are_in_no_sample_and_in_no_time_of_a_kernel(table, launch):
    kernels = ("latency:iterations=20", "sendrecv:iterations=21,sync=barrier", "spacing:rate=10000,iterations=22")
    env = ticking(TARE_PAUSE_NS=f"{PAUSE_S * 1e9:.0f}")
    run = seated(table, launch, *kernels, turns=4, env=env).take(4)
    assert run.code == 0, run.stderr
    wanted = {"latency": [TICK_S / 2], "sendrecv": [TICK_S] * 2, "spacing": [1e-4, 2 * TICK_S]}  # rank 1 reads it twice
    for line in run.of_type("kernel"):
        columns = list(samples(line).values())
        for column, value in zip(columns, wanted[line["kernel"]], strict=True):
            assert column == pytest.approx([value] * line["iterations"], rel=1e-6), line["spec"]
        assert line["elapsed_s"] < PAUSE_S / 10
        assert line["span_s"][1] - line["span_s"][0] == pytest.approx(3 * PAUSE_S, abs=PAUSE_S / 10)


def test_who_waits_sleeps_in_the_kernel(table, launch):
    job = seated(table, launch, "latency:iterations=20", turns=2)
    assert job.wait() is TurnOutcome.READY
    ranks = [process for process in psutil.process_iter(["cmdline"]) if is_rank(process, job.seat.name)]
    assert len(ranks) == 2
    for _ in range(2):
        for rank in ranks:  # in recv of TCP, and so not in a loop that polls
            wait_until(lambda rank=rank: Path(f"/proc/{rank.pid}/wchan").read_text() == "wait_woken", "a rank to sleep")
        assert job.turn() is TurnOutcome.READY
    assert job.turn() is TurnOutcome.ENDED
    assert job.run.result().code == 0


def is_rank(process: psutil.Process, name: str) -> bool:
    first, *others = process.info["cmdline"] or ("",)
    return first.endswith("/tare-kernels") and any(name in word for word in others)


def test_two_jobs_are_at_work_one_after_the_other(table, launch):
    jobs = [seated(table, launch, "latency:iterations=30", turns=3) for _ in range(2)]
    assert [job.wait() for job in jobs] == [TurnOutcome.READY] * 2
    for _ in range(3):
        assert [job.turn() for job in jobs] == [TurnOutcome.READY] * 2
    assert [job.turn() for job in jobs] == [TurnOutcome.ENDED] * 2
    assert [job.run.result().code for job in jobs] == [0, 0]


def test_where_whoever_gives_the_turns_goes_the_job_ends(launch):
    with opened() as table:
        job = seated(table, launch, "latency", turns=3)
        assert job.wait() is TurnOutcome.READY
    run = job.run.result()
    assert run.code != 0
    assert "whoever gives the turns has gone" in run.stderr


def test_where_nobody_gives_turns_the_job_says_so(launch):
    with socket.socket() as bound:  # nobody listens there, and nobody else can
        bound.bind(("127.0.0.1", 0))
        option = f"--turns=2@127.0.0.1:{bound.getsockname()[1]}/{'0' * 16}"
        run = launch(option, "latency", env={PADDING: f"{'0' * 16}:"})
    assert run.code != 0
    assert "cannot take turns with other jobs: 127.0.0.1: Connection refused" in run.stderr


@pytest.mark.parametrize("padding", ["", "xxx", "00ff:xxx"])
def test_a_launch_without_a_key_says_so(launch, padding):
    run = launch(f"--turns=2@127.0.0.1:1/{'0' * 16}", "latency", env={PADDING: padding})
    assert run.code != 0
    assert "cannot take turns with other jobs: TARE_PADDING has no key" in run.stderr


@pytest.mark.parametrize(
    "option",
    ["", "3", "0@127.0.0.1:1/0123456789abcdef", "3@127.0.0.1:99999/0123456789abcdef", "3@host:1/0123456789abcdef",
     "3@127.0.0.1:1/short", "3@127.0.0.1:1/0123456789abcdefg", "3@999.0.0.1:1/0123456789abcdef"],
)  # fmt: skip
def test_another_option_is_refused(alone, option):
    run = alone(f"--turns={option}", "latency")
    assert run.code == 2
    assert run.complaints == [f"tare-kernels: --turns={option} is not understood; allowed: --turns=N@ADDRESS:PORT/NAME"]


def test_who_says_no_key_or_comes_for_a_job_that_ends_is_sent_away(table):
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool, closing(theirs):
        seat = table.seat(2, ours)
        assert table.wait(seat, 0.0) is TurnOutcome.TIME_LIMIT
        address, port = table.option(seat, 1).partition("@")[2].partition("/")[0].split(":")
        connect = partial(socket.create_connection, (address, int(port)))
        waited = pool.submit(table.wait, seat, LIMIT_S)
        for hello in (b"GET / HTTP/1.1\r\n\r\n............", b"0" * 16 + b"        0\n", b""):
            with connect() as stranger, suppress(OSError):  # reset
                stranger.sendall(hello)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        assert seat.connections == {}
        with connect() as first:
            first.sendall(f"{seat.key} {0:8d}\nd".encode())
            wait_until(lambda: seat.connections, "the first rank")
            assert not waited.done(), "its other rank never comes"
            theirs.send(b"e")
            assert waited.result() is TurnOutcome.ENDED
