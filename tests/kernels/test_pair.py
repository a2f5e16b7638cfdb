"""tare-pair: a server on the last rank, a client on the first; what the client says and how it ends is the job's."""

from __future__ import annotations

import os
import time

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

every_mpi = pytest.mark.parametrize(
    "mpi", [pytest.param(mpi, marks=pytest.mark.requires(mpi)) for mpi in ("openmpi", "openmpi5", "mpich", "mpich5")]
)

SERVER = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"hello from the server")
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    print("told:", connection.recv(100).decode())
"""
TALK = (
    *("+server", "python3", "-c", SERVER, "{port}"),
    *("+client", "python3", "-c", CLIENT, "{address}", "{port}"),
)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@every_mpi
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_client_meets_the_server_of_the_last_rank(launch_program, mpi, ranks):
    run = launch_program("tare-pair", *TALK, ranks=ranks, variant=mpi)
    assert (run.code, run.stdout.strip()) == (0, "told: hello from the server"), run.stderr


def test_it_has_no_errors_that_sanitizers_see(launch_program):
    # those of the MPI itself are not looked for
    run = launch_program("tare-pair", *TALK, variant="openmpi-sanitized", env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (run.code, run.stdout.strip()) == (0, "told: hello from the server"), run.stderr


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8"),
        ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ("UCX_NET_DEVICES", "lo"),
        ("FI_TCP_IFACE", "lo"),
        ("FI_SOCKETS_IFACE", "lo"),
    ],
)
def test_the_address_is_that_of_the_network_the_mpi_was_told_of(launch_program, variable, told):
    echo = ("+server", *TALK[1:5], "+client", "sh", "-c", "echo {address}:{port}; exit 3")
    run = launch_program("tare-pair", *echo, env={variable: told})
    address, _, port = run.stdout.strip().partition(":")
    assert address == "127.0.0.1"
    assert 1024 <= int(port) < 65536


def test_places_and_time_are_recorded_and_the_two_commands_are_no_ranks(launch_program, build):
    preload = {"LD_PRELOAD": str(build("openmpi") / "libtare_wall.so")}
    run = launch_program(
        "tare-pair",
        *TALK[:6],
        "sh",
        "-c",
        'echo "[$LD_PRELOAD]"; python3 -c "$0" "$@"',
        *TALK[8:],
        ranks=3,
        env=preload,
    )
    assert run.code == 0, run.stderr
    assert [line["type"] for line in run.lines] == ["start", "rank", "rank", "rank", "wall", "usage", "end"]
    assert "[]\ntold: hello from the server\n" in run.stdout


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (("+server", "no-such-program", "+client", "true"), "a command cannot be started: no-such-program"),
        (("+server", "true", "+client", "echo", "never"), "the server ended before it listened"),
        ((*TALK[:6], "sh", "-c", "exit 7"), "the client ended with status 7"),
        ((*TALK[:6], "sh", "-c", "kill -9 $$"), "the client ended with status 137"),
        ((*TALK[:6], "no-such-program"), "the client ended with status 127"),
    ],
)
def test_a_side_that_fails_fails_the_job(launch_program, commands, told):
    run = launch_program("tare-pair", *commands, ranks=3)
    assert run.code != 0
    assert told in run.stderr
    assert "never" not in run.stdout


def test_a_server_that_stays_is_ended(launch_program, tmp_path):
    note = tmp_path / "pid"
    stays = f"""
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(note)!r}, "w").write(str(os.getpid()))
server = socket.create_server(("", int(sys.argv[1])))
time.sleep(60)
"""
    begun = time.monotonic()
    run = launch_program("tare-pair", "+server", "python3", "-c", stays, "{port}", "+client", "false")
    assert run.code != 0
    assert time.monotonic() - begun < 20
    assert not alive(int(note.read_text()))


@pytest.mark.parametrize("words", [(), ("+server", "a"), ("+server", "+client", "b"), ("+client", "a", "+server", "b")])
def test_words_that_are_no_two_commands_are_refused(launch_program, words):
    run = launch_program("tare-pair", *words)
    assert run.code != 0
    assert "it takes +server COMMAND... +client COMMAND..." in run.stderr


def test_one_rank_is_refused(launch_program):
    run = launch_program("tare-pair", *TALK, ranks=1)
    assert run.code != 0
    assert "two ranks or more are needed" in run.stderr
