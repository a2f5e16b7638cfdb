"""Measure on each core how often and how long something else runs: a fixed quantum of work, and wake-ups from sleep.

It runs as `python3 -c SOURCE FOLDER WORK_S WAKE_S CORE...` and imports nothing of tare. Each core gets a process, and
all work at the same time, as the ranks of a job do. Each writes two files to FOLDER: `CORE.work`, the time of each
quantum, and `CORE.wake`, how late each wake-up was, as unsigned 32-bit nanoseconds in the machine's byte order. The
method is that of Petrini, Kerbyson and Pakin (SC'03): the same quantum of work is done again and again; what it takes
longer than undisturbed was lost to something else.
"""

import ctypes
import gc
import os
import sys
import time
import zlib
from array import array

QUANTUM_BYTES = 32768
"""The work of a quantum is the checksum of so many bytes, which fit into a core's own caches: 5 to 30 us."""
WAKE_EVERY_NS = 1_000_000
START_S = 0.15
"""Time for all processes to be started and pinned."""
PR_SET_TIMERSLACK = 29
LONGEST = 2**32 - 1


def work(seconds: float) -> "array[int]":
    """Return the time of each quantum in nanoseconds."""
    clock, checksum = time.perf_counter_ns, zlib.crc32
    data = bytes(QUANTUM_BYTES)
    taken = array("Q")
    append = taken.append
    now = clock()
    until = now + int(seconds * 1e9)
    while now < until:
        checksum(data)
        then = clock()
        append(then - now)
        now = then
    return taken


def wake(seconds: float) -> "array[int]":
    """Return how many nanoseconds after its time each wake-up of an idle core came."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # the usual slack of 50 us would hide the wake-up
    clock, sleep = time.monotonic_ns, time.sleep
    late = array("Q")
    due = clock() + WAKE_EVERY_NS
    for _ in range(int(seconds * 1e9) // WAKE_EVERY_NS):
        now = clock()
        if now >= due:  # more than a whole interval late: the next one begins now
            due = now + WAKE_EVERY_NS
        sleep((due - now) * 1e-9)
        late.append(max(0, clock() - due))
        due += WAKE_EVERY_NS
    return late


def measure(folder: str, core: int, start_s: float, work_s: float, wake_s: float) -> None:
    """Measure one core and write its files."""
    os.sched_setaffinity(0, {core})
    gc.disable()
    work(0.02)  # the interpreter specialises the loop
    time.sleep(max(0.0, start_s - time.monotonic()))
    for name, values in (("work", work(work_s)), ("wake", wake(wake_s))):
        with open(os.path.join(folder, f"{core}.{name}"), "wb") as file:
            array("I", (min(value, LONGEST) for value in values)).tofile(file)


def main(folder: str, work_s: float, wake_s: float, cores: "list[int]") -> int:
    """Measure all cores at the same time; return 0 if all could be measured."""
    start_s = time.monotonic() + START_S
    children = []
    for core in cores:
        child = os.fork()
        if child == 0:
            try:
                measure(folder, core, start_s, work_s, wake_s)
            except OSError as error:
                sys.stderr.write(f"core {core}: {error.strerror}\n")
                os._exit(1)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), [int(word) for word in sys.argv[4:]]))
