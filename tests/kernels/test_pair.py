"""tare-pair: a server on the last rank, a client on the first; what the client says and how it ends is the job's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kernels.launching import SANITIZERS

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

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
SERVES = ("+server", "python3", "-c", SERVER, "{port}")
TALK = (*SERVES, "+client", "python3", "-c", CLIENT, "{address}", "{port}")


@pytest.fixture
def pair(launch):
    return partial(launch, program="tare-pair")


@pytest.mark.parametrize(
    ("mpi", "ranks"),
    [
        *(pytest.param(mpi, 2, marks=pytest.mark.requires(mpi)) for mpi in ("openmpi5", "mpich", "mpich5")),
        *(("openmpi", ranks) for ranks in (2, 4)),
        ("openmpi-sanitized", 2),
    ],
)
def test_the_client_meets_the_server_of_the_last_rank(pair, mpi, ranks):
    run = pair(*TALK, ranks=ranks, variant=mpi, env=SANITIZERS)
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
def test_the_address_is_that_of_the_network_the_mpi_was_told_of(pair, variable, told):
    run = pair(*SERVES, "+client", "sh", "-c", "echo {address}:{port}; exit 3", env={variable: told})
    address, _, port = run.stdout.strip().partition(":")
    assert address == "127.0.0.1"
    assert 1024 <= int(port) < 65536


def test_places_and_time_are_recorded_and_the_two_commands_are_no_ranks(pair, build):
    client = ("sh", "-c", 'echo "[$LD_PRELOAD]"; python3 -c "$0" "$@"', *TALK[-3:])
    run = pair(*SERVES, "+client", *client, ranks=3, env={"LD_PRELOAD": str(build("openmpi") / "libtare_wall.so")})
    assert run.code == 0, run.stderr
    assert run.types == ["start", "rank", "rank", "rank", "wall", "usage", "work", "end"]
    assert "[]\ntold: hello from the server\n" in run.stdout


@pytest.mark.parametrize(
    ("ranks", "commands", "told"),
    [
        (3, ("+server", "no-such-program", "+client", "true"), "a command cannot be started: no-such-program"),
        (3, ("+server", "true", "+client", "echo", "never"), "the server ended before it listened"),
        (3, (*SERVES, "+client", "sh", "-c", "exit 7"), "the client ended with status 7"),
        (3, (*SERVES, "+client", "sh", "-c", "kill -9 $$"), "the client ended with status 137"),
        (3, (*SERVES, "+client", "no-such-program"), "the client ended with status 127"),
        (2, (), "it takes +server COMMAND... +client COMMAND..."),
        (2, ("+server", "a"), "it takes +server COMMAND... +client COMMAND..."),
        (2, ("+server", "+client", "b"), "it takes +server COMMAND... +client COMMAND..."),
        (2, ("+client", "a", "+server", "b"), "it takes +server COMMAND... +client COMMAND..."),
        (1, TALK, "two ranks or more are needed"),
    ],
)
def test_a_side_that_fails_and_a_job_that_is_no_pair_fail(pair, ranks, commands, told):
    run = pair(*commands, ranks=ranks)
    assert run.code != 0
    assert told in run.stderr
    assert "never" not in run.stdout


def test_a_server_that_stays_is_ended(pair, tmp_path):
    note = tmp_path / "pid"
    stays = f"""
import os, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(note)!r}, "w").write(str(os.getpid()))
server = socket.create_server(("", int(sys.argv[1])))
while True:
    signal.pause()
"""
    run = pair("+server", "python3", "-c", stays, "{port}", "+client", "false")
    assert "the client ended with status 1" in run.stderr, run
    assert not Path(f"/proc/{int(note.read_text())}").exists()
