"""Report from two ranks where they run, whether the MPI lets them share memory, and how fast their messages are.

It runs under any MPI launcher as `python3 -c SOURCE`, also inside a container. It imports nothing of tare and calls the
MPI's library through ctypes, so only Python and the MPI have to be installed. Each rank writes one line of JSON after
`@tare-locality `. Times are half round trips in microseconds; a call through ctypes adds about one to each.
"""

import ctypes
import errno
import json
import os
import socket
import time
from typing import Any

OPEN_MPI = ("libmpi.so.40", "libmpi.so")
MPICH = ("libmpich.so.12", "libmpi.so.12", "libmpi.so")
SIZES = {1: 200, 65536: 40, 1048576: 4}
BATCHES = 10
NUMBERS = ("OMPI_COMM_WORLD_", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PMI_ID", "PALS_RANKID")
"""Beginnings of the variables by which launchers tell a process its rank."""
BATCH_S = 0.05
WARM_UP = 4


class MpiLibrary:
    """The few functions of an MPI that the probe needs, with that MPI's handles."""

    def __init__(self) -> None:
        """Load the library of the launcher that started this process and initialise it."""
        self.open_mpi = "OMPI_COMM_WORLD_RANK" in os.environ or "PMIX_RANK" in os.environ
        self.library = self._load(OPEN_MPI if self.open_mpi else MPICH)
        if self.open_mpi:
            self.world, self.byte = self._symbol("ompi_mpi_comm_world"), self._symbol("ompi_mpi_byte")
            self.no_info, self.shared, self.no_status = self._symbol("ompi_mpi_info_null"), 0, None
        else:
            self.world, self.byte = ctypes.c_int(0x44000000), ctypes.c_int(0x4C00010D)
            self.no_info, self.shared, self.no_status = ctypes.c_int(0x1C000000), 1, ctypes.c_void_p(1)
        self.call("MPI_Init", None, None)
        self.rank, self.size = self._number("MPI_Comm_rank", self.world), self._number("MPI_Comm_size", self.world)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the MPI; end the program if it fails."""
        if getattr(self.library, name)(*arguments) != 0:
            raise SystemExit(f"{name} failed")

    def send(self, buffer: Any, size: int, peer: int) -> None:
        """Send bytes."""
        self.call("MPI_Send", buffer, size, self.byte, peer, 1, self.world)

    def receive(self, buffer: Any, size: int, peer: int) -> None:
        """Receive bytes."""
        self.call("MPI_Recv", buffer, size, self.byte, peer, 1, self.world, self.no_status)

    def neighbours(self) -> int:
        """Return the number of ranks, this one included, that can share memory according to the MPI."""
        neighbours = ctypes.c_void_p() if self.open_mpi else ctypes.c_int()
        self.call("MPI_Comm_split_type", self.world, self.shared, self.rank, self.no_info, ctypes.byref(neighbours))
        return self._number("MPI_Comm_size", neighbours)

    def version(self) -> str:
        """Return the first line of the library's version text."""
        text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
        self.call("MPI_Get_library_version", text, ctypes.byref(length))
        return text.value.decode(errors="replace").splitlines()[0].split(",")[0].replace("\t", " ").strip()

    def _number(self, name: str, communicator: Any) -> int:
        value = ctypes.c_int()
        self.call(name, communicator, ctypes.byref(value))
        return value.value

    def _symbol(self, name: str) -> Any:
        return ctypes.byref(ctypes.c_char.in_dll(self.library, name))

    @staticmethod
    def _load(names: tuple[str, ...]) -> ctypes.CDLL:
        paths = tuple(os.path.join(_libraries_of_launcher(), name) for name in names)
        for name in (*paths, *names):
            try:
                return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
        raise SystemExit(f"no library of the MPI was found here: {', '.join(names)}")


def place() -> dict[str, Any]:
    """Return where this process runs."""
    names = ("net", "ipc", "uts", "pid", "mnt", "user")
    return {
        "hostname": socket.gethostname(),
        "boot_id": _text("/proc/sys/kernel/random/boot_id"),
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "namespaces": {name: _inode(f"/proc/self/ns/{name}") for name in names},
        "shm": _device("/dev/shm"),
    }


def ping_pong(mpi: MpiLibrary) -> dict[str, float]:
    """Return the half round trip of each size in microseconds, from the fastest batch: the machine may be busy."""
    half_round_trips = {}
    for size, most in SIZES.items():
        buffer = ctypes.create_string_buffer(size)
        count = agreed(mpi, int(BATCH_S / (batch(mpi, buffer, size, WARM_UP) / WARM_UP)), most)
        batches = [batch(mpi, buffer, size, count) for _ in range(BATCHES)]
        half_round_trips[str(size)] = min(batches) / count / 2 * 1e6
    return half_round_trips


def agreed(mpi: MpiLibrary, wanted: int, most: int) -> int:
    """Return the number of messages in a batch, which rank 0 decides: fewer if each takes long, but at least two."""
    number = ctypes.c_long(max(2, min(wanted, most)))
    if mpi.rank == 0:
        mpi.send(ctypes.byref(number), ctypes.sizeof(number), 1)
    else:
        mpi.receive(ctypes.byref(number), ctypes.sizeof(number), 0)
    return number.value


def batch(mpi: MpiLibrary, buffer: Any, size: int, count: int) -> float:
    """Send a message there and back `count` times and return the seconds that it takes."""
    peer = 1 - mpi.rank
    start = time.perf_counter()
    for _ in range(count):
        if mpi.rank == 0:
            mpi.send(buffer, size, peer)
            mpi.receive(buffer, size, peer)
        else:
            mpi.receive(buffer, size, peer)
            mpi.send(buffer, size, peer)
    return time.perf_counter() - start


def single_copy(mpi: MpiLibrary) -> str:
    """Return "yes" if this rank may read the other's memory directly (CMA), else the name of the error."""
    own = ctypes.create_string_buffer(b"x" * 64, 64)
    words = (ctypes.c_long * 2)(os.getpid(), ctypes.addressof(own))
    theirs = (ctypes.c_long * 2)()
    peer, size = 1 - mpi.rank, ctypes.sizeof(words)
    if mpi.rank == 0:
        mpi.send(words, size, peer)
        mpi.receive(theirs, size, peer)
    else:
        mpi.receive(theirs, size, peer)
        mpi.send(words, size, peer)
    target = ctypes.create_string_buffer(64)
    here = (ctypes.c_long * 2)(ctypes.addressof(target), 64)
    there = (ctypes.c_long * 2)(theirs[1], 64)
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.process_vm_readv(ctypes.c_int(theirs[0]), here, 1, there, 1, 0)
    number = ctypes.get_errno()
    mpi.call("MPI_Barrier", mpi.world)
    return "yes" if done == 64 else errno.errorcode.get(number, str(number))


def main() -> None:
    """Run on two ranks."""
    mpi = MpiLibrary()
    if mpi.size == 1:
        told = {"alone": mpi.version(), "given": sorted(name for name in os.environ if name.startswith(NUMBERS))}
        print("@tare-locality " + json.dumps(told), flush=True)
        mpi.call("MPI_Finalize")
        return
    if mpi.size != 2:
        raise SystemExit(f"the probe needs two ranks, and {mpi.size} were started")
    report = {"rank": mpi.rank, "mpi": mpi.version(), "neighbours": mpi.neighbours(), **place()}
    report["half_round_trip_us"] = ping_pong(mpi)
    report["single_copy"] = single_copy(mpi) if report["neighbours"] == mpi.size else ""
    print("@tare-locality " + json.dumps(report), flush=True)
    mpi.call("MPI_Finalize")


def _libraries_of_launcher() -> str:
    """Return the library folder of the MPI whose launcher started this process, if it has a folder of its own."""
    try:
        program = os.readlink(f"/proc/{os.getppid()}/exe")
    except OSError:
        return ""
    return os.path.join(os.path.dirname(os.path.dirname(program)), "lib")


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _device(path: str) -> str:
    try:
        status = os.stat(path)
        return f"{status.st_dev}:{status.st_ino}"
    except OSError:
        return ""


if __name__ == "__main__":
    main()
