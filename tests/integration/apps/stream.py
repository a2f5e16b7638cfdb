"""Send bytes from one lab node to another, and say how fast they came; standard library only.

stream.py receive PORT          print the bytes and the seconds between the first and the last of them
stream.py send ADDRESS PORT BYTES
"""

import socket
import sys
import time


def receive(port: int) -> None:
    with socket.create_server(("0.0.0.0", port)) as server:
        print("listening", flush=True)
        peer, _ = server.accept()
        with peer:
            got = len(peer.recv(1))
            started = time.monotonic()
            while data := peer.recv(1 << 20):
                got += len(data)
            print(got, time.monotonic() - started, flush=True)


def send(address: str, port: int, count: int) -> None:
    with socket.create_connection((address, port), timeout=10) as peer:
        peer.sendall(bytes(count))


if __name__ == "__main__":
    receive(int(sys.argv[2])) if sys.argv[1] == "receive" else send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
