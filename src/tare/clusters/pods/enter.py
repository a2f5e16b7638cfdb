"""Start a command in a pod through the head's open streams: the helper program `tare-enter`.

    tare-enter SOCKET POD COMMAND...

It behaves as the command does: standard streams, exit status. It imports no other tare module and nothing slow, because
it is part of every job's start-up time. On the socket it sends one line, a JSON list of pod and command, then its
standard input; what arrives are frames: one byte (1: output, 2: errors, 3: the exit status), four bytes of length
(network order), and so many bytes.
"""

import os
import select
import socket
import sys

PIECE = 1 << 16
OUTPUT, ERRORS, STATUS = 1, 2, 3


def fail(message: str) -> int:
    """Print an error as one sentence on stderr and return the exit status of a bad launch."""
    print(f"tare-enter: {message}", file=sys.stderr)
    return 125


def quoted(word: str) -> str:
    """Return a word as a JSON string (the package json takes long to import)."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if " " <= each <= "~" else "".join(_units(each)) for each in plain) + '"'


def _units(character: str) -> "list[str]":
    data = character.encode("utf-16-be", "surrogatepass")
    return [f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2)]


def exchange(connection: socket.socket) -> int:
    """Carry bytes until the exit status arrives, and return it."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(connection, select.POLLIN)
    left = b""
    while True:
        for number, _ in poll.poll():
            if number == 0:
                data = os.read(0, PIECE)
                if data:
                    connection.sendall(data)
                else:
                    poll.unregister(0)
                    connection.shutdown(socket.SHUT_WR)
                continue
            data = connection.recv(PIECE)
            if not data:
                return fail("the head has closed the connection")
            left += data
            while len(left) >= 5 and len(left) >= 5 + int.from_bytes(left[1:5], "big"):
                end = 5 + int.from_bytes(left[1:5], "big")
                kind, content, left = left[0], left[5:end], left[end:]
                if kind == STATUS:
                    return int(content)
                put(1 if kind == OUTPUT else 2, content)


def put(descriptor: int, content: bytes) -> None:
    """Write all of some bytes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> int:
    """Run as the arguments say and return the exit status of the command."""
    if len(sys.argv) < 4:
        return fail("it is tare-enter SOCKET POD COMMAND...")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(sys.argv[1])
        connection.sendall(("[" + ",".join(map(quoted, sys.argv[2:])) + "]\n").encode())
        return exchange(connection)
    except OSError as error:
        return fail(f"the head cannot be reached: {error.strerror or error}")


if __name__ == "__main__":
    sys.exit(main())
