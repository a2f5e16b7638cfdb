"""Ping-pong in Python, written with no knowledge of the kernels: what `agreement.py` holds them against.

Run on two ranks: mpi4py_pingpong.py BYTES ITERATIONS WARMUP. Rank 0 prints half a round trip in seconds, the mean.
"""

import mmap
import sys

from mpi4py import MPI


def main() -> None:
    message_bytes, iterations, warmup = (int(argument) for argument in sys.argv[1:])
    comm = MPI.COMM_WORLD
    first = comm.Get_rank() == 0
    peer = 1 if first else 0
    # Anonymous maps start at a page, as the kernels' buffers do.
    outgoing = [mmap.mmap(-1, message_bytes), message_bytes, MPI.BYTE]
    incoming = [mmap.mmap(-1, message_bytes), message_bytes, MPI.BYTE]
    outgoing[0].write(b"\x01" * message_bytes)
    incoming[0].write(b"\x02" * message_bytes)
    send, receive = comm.Send, comm.Recv
    start = 0.0
    for iteration in range(-warmup, iterations):
        if iteration == 0:
            comm.Barrier()
            start = MPI.Wtime()
        if first:
            send(outgoing, peer)
            receive(incoming, peer)
        else:
            receive(incoming, peer)
            send(outgoing, peer)
    elapsed_s = MPI.Wtime() - start
    if first:
        print(elapsed_s / iterations / 2)


main()
