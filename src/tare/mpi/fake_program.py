"""Print what `tare-kernels` would print, with known times; a standalone script that imports no module of tare.

    fake_program.py --factor F --hosts n0,n1 --ranks-per-node R PROGRAM KERNEL[:key=value,...]...

Every time is (2 us + size / 1 GB/s) x F with a spread of one per cent that the length of $TARE_PADDING seeds, so that a
trial can be repeated. A user's program takes 10 ms x F. $TARE_FAKE_FAULT (exit, hang, garbage, cut, mute, wrong)
breaks a launch for tests of the harness; `exit@1.5` does so only if F is 1.5.
"""

import argparse
import array
import base64
import json
import os
import random
import sys
import time
from typing import Any

SAMPLES = 50
SPREAD = 0.01


def say(record: "dict[str, Any] | str") -> None:
    """Write one record; a text is written as it is, as a broken one."""
    key, colon, _ = os.environ.get("TARE_PADDING", "").partition(":")
    print(f"@tare{colon}{key} {record if isinstance(record, str) else json.dumps(record)}")


def encoded(values: list[float]) -> str:
    """Return a column in the protocol's encoding."""
    return base64.b64encode(array.array("d", values).tobytes()).decode()


def rank_record(rank: int, host: str, node: int) -> dict[str, Any]:
    """Return the record of a fake rank's location."""
    return {
        "type": "rank", "rank": rank, "hostname": host, "processor_name": host, "boot_id": f"fake-{node}",
        "pid": 1000 + rank, "cpus": str(rank), "last_cpu": rank, "namespaces": {}, "shm_device": None,
        "shared_memory_ranks": [rank],
    }  # fmt: skip


def kernel_record(index: int, spec: str, factor: float, ranks: int, dice: random.Random) -> dict[str, Any]:
    """Return the record that a kernel with known times would print."""
    name, _, rest = spec.partition(":")
    given = dict(part.split("=", 1) for part in rest.split(",") if part)
    size = int(given.get("bytes", 8))
    truth = (2e-6 + size * 1e-9) * factor
    began_s = time.monotonic()
    launch = truth * dice.lognormvariate(0, SPREAD)
    samples = [launch * dice.lognormvariate(0, SPREAD) for _ in range(SAMPLES)]
    columns = {"spacing": ["send_gap_s", "receive_gap_s"], "halo": ["max_s", "mean_s"]}.get(name, ["max_s"])
    return {
        "type": "kernel", "index": index, "spec": spec, "kernel": name, "message_bytes": size, "iterations": SAMPLES,
        "warmup": 1, "window": 64 if name in ("bw", "bibw") else None, "rate_hz": None, "ranks": ranks,
        "sync": "none", "metric": "rate" if name in ("bw", "bibw") else "cost",
        "bytes_per_sample": size * 64 if name in ("bw", "bibw") else 0,
        "verified": os.environ.get("TARE_FAKE_FAULT") != "wrong", "verify_errors": 0, "late": 0, "columns": columns,
        "rank_mean_s": [launch] * ranks, "rank_min_s": [min(samples)] * ranks, "rank_max_s": [max(samples)] * ranks,
        "payload": {"bytes_min": 0, "bytes_max": 0, "messages": 0}, "elapsed_s": sum(samples),
        "span_s": [began_s, time.monotonic()], "encoding": "base64-float64-le",
        "data": [encoded(samples) for _ in columns],
    }  # fmt: skip


def miniapp_record(spec: str, factor: float, ranks: int, dice: random.Random) -> dict[str, Any]:
    """Return the record that a mini-application of 10 Mop would print after 5 ms."""
    name, _, rest = spec.partition(":")
    given = dict(part.split("=", 1) for part in rest.split(",") if part)
    right = os.environ.get("TARE_FAKE_FAULT") != "wrong"
    check = {"name": "sum", "value": 1.0 if right else 2.0, "expected": 1.0, "tolerance": 1e-8, "passed": right}
    elapsed_s = 0.005 * factor * dice.lognormvariate(0, SPREAD)
    return {
        "type": "miniapp", "app": name, "class": given.pop("class", None), "ranks": ranks, "rate_unit": "Mop/s",
        "parameters": {key: int(value) for key, value in given.items()}, "elapsed_s": elapsed_s, "operations": 10.0,
        "rate": 10.0 / elapsed_s, "verified": right,
        "checks": [check], "figures": [{"name": "pairs", "value": 3.0, "unit": ""}],
        "messages": [{"kind": "send", "bytes": 8, "count": 2 * ranks}], "messages_complete": True,
        "payload": {"bytes_min": 0, "bytes_max": 0, "messages": 0},
    }  # fmt: skip


def startup_record(factor: float, ranks: int) -> dict[str, Any]:
    """Return the record of a start-up with known steps; its timestamps are real, because the tool checks them."""
    main_s = time.monotonic()
    time.sleep(0.002 * factor)
    return {
        "type": "startup", "modules": 1000, "wrong_modules": 0,
        "verified": os.environ.get("TARE_FAKE_FAULT") != "wrong", "rank_main_s": [main_s] * ranks,
        "rank_init_s": [0.001 * factor] * ranks, "rank_ready_s": [time.monotonic()] * ranks,
        "rank_modules_s": [0.0005 * factor] * ranks,
    }  # fmt: skip


def wall_record(factor: float, ranks: int, dice: random.Random) -> dict[str, Any]:
    """Return the record that the preload library would print for a program that took 10 ms."""
    return {"type": "wall", "wall_s": 0.01 * factor * dice.lognormvariate(0, SPREAD), "ranks": ranks}


def fault_at(factor: float) -> str:
    """Return the fault that a launch of this cost is to have, or ""."""
    fault, _, where = os.environ.get("TARE_FAKE_FAULT", "").partition("@")
    return fault if not where or float(where) == factor else ""


def main() -> int:
    """Run as the arguments say and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=float, required=True)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--rank-order", default="block")
    parser.add_argument("program")
    parser.add_argument("specs", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.specs = [spec for spec in options.specs if not spec.startswith("--order=")]  # for the kernels only
    fault = fault_at(options.factor)
    if fault == "mute":
        return 0
    if fault == "exit":
        print("fake rank 1 was killed", file=sys.stderr)
        return 9
    if fault == "hang":
        time.sleep(3600)
    hosts = options.hosts.split(",")
    ranks = len(hosts) * options.ranks_per_node
    say({"type": "start", "protocol": 1, "ranks": ranks, "mpi_library": "fake MPI 1", "init_s": 0.001})
    for rank in range(ranks):
        node = rank % len(hosts) if options.rank_order == "cyclic" else rank // options.ranks_per_node
        say(rank_record(rank, hosts[node], node))
    dice = random.Random(f"{os.environ.get('TARE_PADDING', '').count('x')} {options.factor}")
    if "/tare-" not in options.program:
        say(wall_record(options.factor, ranks, dice))
        options.specs = []
    if options.program.endswith("/tare-startup"):
        say(startup_record(options.factor, ranks))
        options.specs = []
    if options.program.endswith("/tare-miniapps"):
        say(miniapp_record(options.specs.pop(), options.factor, ranks, dice))
    for index, spec in enumerate(options.specs):
        say(kernel_record(index, spec, options.factor, ranks, dice))
    if fault == "garbage":
        say("{not json")
    if fault != "cut":
        say({"type": "end", "elapsed_s": 0.01, "exit": 0})
    return 0


if __name__ == "__main__":
    sys.exit(main())
