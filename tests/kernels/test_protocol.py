"""What tare-kernels writes: lines, samples, verification, payload."""

from __future__ import annotations

import math
import os
import resource
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from kernels.launching import TICK_S, samples, ticking
from tare.study import KNOWN
from tare.workloads.parts import of_launch

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

PAIR_KERNELS = ("latency", "bw", "bibw", "spacing")

# Few iterations, odd sizes (no multiple of a word but where floats are summed), one size beyond eager.
SPECS = (
    "latency:iterations=20,bytes=13",
    "latency:iterations=7,bytes=0",
    "latency:iterations=5,bytes=200001",
    "bw:iterations=4,bytes=13",
    "bw:iterations=2,bytes=70001,window=3",
    "bibw:iterations=4,bytes=13",
    "bibw:iterations=2,bytes=70001",
    "sendrecv:iterations=6,bytes=13",
    "sendrecv:iterations=3,bytes=0",
    "barrier:iterations=9",
    "barrier:iterations=3,sync=window",
    "alltoall:iterations=6,bytes=13",
    "alltoallv:iterations=6,bytes=10001",
    "alltoallv:iterations=3,bytes=70001",
    "allgather:iterations=6,bytes=13",
    "allreduce:iterations=6,bytes=20004,skew=16",
    "alltoall:iterations=6,bytes=4096,skew=4095",
    "bw:iterations=2,bytes=130,skew=1",
    "halo:iterations=4,warmup=1,bytes=24",
    "halo:iterations=2,warmup=1,bytes=1048576",
    "halo:iterations=2,warmup=1,bytes=1200008",
    "spacing:iterations=8,warmup=2,rate=20000",
)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_kernel_is_verified_and_has_as_many_samples_as_iterations(launch, ranks):
    run = launch(*SPECS, ranks=ranks)
    assert run.code == 0, run.stderr
    lines = run.of_type("kernel")
    assert [line["spec"] for line in lines] == list(SPECS)
    assert [line["index"] for line in lines] == list(range(len(SPECS)))
    assert {line["kernel"] for line in lines} == set(KNOWN.kernels)
    for line in lines:
        assert line["verified"] is True
        assert line["verify_errors"] == 0
        assert line["ranks"] == (2 if line["kernel"] in PAIR_KERNELS else ranks)
        for column in samples(line).values():
            assert len(column) == line["iterations"]
            assert all(math.isfinite(value) and value >= 0 for value in column)


def test_a_halo_exchange_runs_on_one_rank(alone):
    line = alone("halo:iterations=3,bytes=40").kernel
    assert line["verified"] is True
    assert line["bytes_per_sample"] == 160
    assert len(line["rank_mean_s"]) == 1


def test_lines_come_in_the_order_of_the_protocol_and_rank_lines_say_where_each_rank_is(launch):
    before = devices()
    run = launch("barrier:iterations=3", "latency:iterations=3", ranks=4)
    stayed = before & devices()  # others come and go
    assert run.types == ["start", *["rank"] * 4, "kernel", "kernel", "usage", "end"]
    assert all(line.startswith("@tare {") for line in run.stdout.splitlines())
    start, *ranks = run.lines[:5]
    assert (start["protocol"], start["program"], start["ranks"]) == (1, "tare-kernels", 4)
    assert start["mpi_library"].startswith("Open MPI v")
    assert start["timer"] == "CLOCK_MONOTONIC"
    end = run.lines[-1]
    assert end["exit"] == 0
    assert end["elapsed_s"] > start["init_s"] > 0
    assert start["timer_cost_s"] > 0
    assert [line["rank"] for line in ranks] == [0, 1, 2, 3]
    assert len({line["pid"] for line in ranks}) == 4
    for line in ranks:
        assert line["hostname"] == os.uname().nodename
        assert line["shared_memory_ranks"] == [0, 1, 2, 3]
        assert line["namespaces"]["net"] == os.stat("/proc/self/ns/net").st_ino
        assert int(line["rights"]["capabilities"], 16) >= 0
        assert line["rights"]["seccomp"] in {"0", "1", "2"}
        assert line["rights"]["seccomp_filters"].isdecimal()
        assert int(line["rights"]["system_call_ns"]) > 0
        assert line["rights"]["uid_map"] == " ".join(Path("/proc/self/uid_map").read_text().split()[:3])
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert line["rights"]["open_files"] == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
        shm = os.statvfs("/dev/shm")
        assert line["rights"]["shm_bytes"] == str(shm.f_blocks * shm.f_frsize)
        assert line["rights"]["name_servers"]
        assert stayed <= set(told := line["rights"]["devices"].split())
        assert not any(name in USUAL or name.startswith(("pts/", "fd/", "shm/")) for name in told)
        assert set(line["namespaces"]) == {"net", "ipc", "uts", "pid", "mnt", "user", "cgroup"}
        assert line["shm_device"] == os.stat("/dev/shm").st_dev
        assert line["last_cpu"] in cpus(line["cpus"])
        assert cpus(line["cpus"]) <= os.sched_getaffinity(0)


def test_in_a_launch_with_a_key_every_record_is_marked_with_it(launch):
    run = launch("barrier:iterations=1", env={"TARE_PADDING": "00ff00ff00ff00ff:xxx"})
    lines = run.stdout.splitlines()
    assert lines
    assert all(line.startswith("@tare:00ff00ff00ff00ff {") for line in lines)
    assert not run.lines, "without the key they are text"
    keyed = replace(run, stdout=of_launch(run.stdout, "00ff00ff00ff00ff"))
    assert keyed.types == ["start", "rank", "rank", "kernel", "usage", "end"]


@pytest.mark.parametrize("padding", ["", "xxx", "00ffxxx", "0x:xx", ":xx", "0" * 33 + ":"])
def test_other_paddings_are_no_key(launch, padding):
    run = launch("barrier:iterations=1", env={"TARE_PADDING": padding})
    assert all(line.startswith("@tare {") for line in run.stdout.splitlines())


USUAL = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}


def devices():
    """Return the devices beyond the usual that this process may open."""
    top, found = Path("/dev"), set()
    for path in top.rglob("*"):
        name = str(path.relative_to(top))
        if name.startswith(("pts/", "fd/")) or path.is_symlink() or name in USUAL:
            continue
        if (path.is_char_device() or path.is_block_device()) and (os.access(path, os.R_OK) or os.access(path, os.W_OK)):
            found.add(name)
    return found


@pytest.mark.requires("root")
def test_mounts_that_are_no_file_system_of_the_kernels_own_are_told(launch, tmp_path):
    shell = 'mount --bind -r /usr/share /usr/local; cat /proc/self/mountinfo >"$0$OMPI_COMM_WORLD_RANK"; exec "$@"'
    run = launch("barrier:iterations=1", wrapper=("unshare", "--mount", "sh", "-c", shell, str(tmp_path / "mounts")))
    assert run.code == 0, run.stderr
    for line in run.of_type("rank"):
        found = mounts((tmp_path / f"mounts{line['rank']}").read_text())
        assert line["rights"]["mounts"].splitlines() == found
        assert any(mount.startswith("ro ") and mount.endswith(" /usr/local") for mount in found)


def mounts(text):
    """Return what is mounted and is no file system of the kernel's own, as ranks write it."""
    kernel = {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs", "securityfs"}
    kernel |= {"pstore", "bpf", "configfs", "hugetlbfs", "binfmt_misc", "nsfs", "autofs", "efivarfs", "fusectl"}
    kernel |= {"rpc_pipefs", "selinuxfs"}
    found = []
    for line in text.splitlines():
        place, _, what = line.partition(" - ")
        words, (kind, _, options) = place.split(), what.split(" ", 2)
        fixed = {"ro"} & {*words[5].split(","), *options.split(",")}
        if kind not in kernel:
            found.append(f"{'ro' if fixed else 'rw'} {words[2]} {words[4]}")
    return found


def cpus(text):
    listed = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        listed |= set(range(int(first), int(last or first) + 1))
    return listed


def test_a_rank_bound_to_one_core_reports_that_core(launch):
    core = max(os.sched_getaffinity(0))
    run = launch("barrier:iterations=1", wrapper=("taskset", "-c", str(core)))
    assert [line["cpus"] for line in run.of_type("rank")] == [str(core)] * 2


def test_columns_hold_the_maximum_and_the_mean_over_ranks(launch):
    line = launch("allreduce:iterations=50", ranks=4).kernel
    columns = samples(line)
    assert list(columns) == ["max_s", "mean_s"]
    assert all(high >= mean for high, mean in zip(columns["max_s"], columns["mean_s"], strict=True))
    assert fmean(columns["mean_s"]) == pytest.approx(fmean(line["rank_mean_s"]))
    assert max(columns["max_s"]) == pytest.approx(max(line["rank_max_s"]))
    assert len(line["rank_mean_s"]) == len(line["rank_min_s"]) == len(line["rank_max_s"]) == 4


def test_a_collective_without_synchronisation_has_a_loop_and_a_window_reading_and_others_have_one(launch):
    two = ("barrier", "allreduce", "alltoallv:sync=none", "sendrecv:sync=none")
    one = ("barrier:sync=window", "barrier:sync=barrier", "alltoall", "latency", "halo")
    tick_s = 1e-8  # the clocks of ranks may differ by some microseconds
    specs = [f"{kernel}{',' if ':' in kernel else ':'}iterations=50" for kernel in (*two, *one)]
    lines = launch(*specs, env=ticking(TARE_TICK_NS="10")).of_type("kernel")
    for line in lines[: len(two)]:
        assert line["sync"] == "window"
        assert line["sync_window_s"] > 0
        assert line["rank_loop_s"] == [pytest.approx(tick_s / 50)] * 2, "one stretch of time"
        assert samples(line)["max_s"] == pytest.approx([tick_s] * 50)
    assert [line["rank_loop_s"] for line in lines[len(two) :]] == [None] * len(one)


def test_kernels_run_in_the_order_that_is_asked_for_and_are_written_in_that_of_the_command_line(launch):
    run = launch("--order=2,0,1", "latency:iterations=3", "barrier:iterations=3", "bw:iterations=3")
    lines = run.of_type("kernel")
    assert [line["kernel"] for line in lines] == ["latency", "barrier", "bw"]
    assert [line["index"] for line in lines] == [0, 1, 2]
    assert [line["position"] for line in lines] == [1, 2, 0]
    unasked = launch("latency:iterations=3", "barrier:iterations=3").of_type("kernel")
    assert [line["position"] for line in unasked] == [0, 1]


def test_a_ping_pong_has_half_the_time_of_a_round_trip_of_rank_0_only(launch):
    line = launch("latency:iterations=30", env=ticking()).kernel
    assert samples(line) == {"max_s": pytest.approx([TICK_S / 2] * 30)}
    assert line["rank_mean_s"] == [pytest.approx(TICK_S / 2)]
    assert line["bytes_per_sample"] == 8
    assert line["metric"] == "cost"


def test_bandwidth_samples_are_times_of_a_window(launch):
    one_way, both_ways = launch("bw:bytes=100,window=5", "bibw:bytes=100,window=5").of_type("kernel")
    assert one_way["metric"] == both_ways["metric"] == "rate"
    assert one_way["window"] == both_ways["window"] == 5
    assert one_way["bytes_per_sample"] == 500
    assert both_ways["bytes_per_sample"] == 1000


def test_spacing_keeps_its_rate_and_gives_both_sides_gaps(launch):
    line = launch("spacing:rate=2000,iterations=40,warmup=10", env=ticking()).kernel
    # The sender waits for its schedule; the clock of the receiver, which does not wait for it, goes on by two readings.
    assert samples(line) == {
        "send_gap_s": pytest.approx([1 / 2000] * 40),
        "receive_gap_s": pytest.approx([2 * TICK_S] * 40),
    }
    assert line["rate_hz"] == 2000
    assert line["late"] == 0


@pytest.mark.measures
def test_spacing_keeps_its_rate_on_the_clock_of_the_machine(launch):
    gaps = samples(launch("spacing:rate=2000,iterations=400,warmup=10").kernel)
    for column in gaps.values():  # the schedule is absolute: one late message does not delay the ones after it
        assert sum(column) == pytest.approx(400 / 2000, rel=0.25)


def test_defaults_depend_on_the_size_as_osu_has_them(launch):
    run = launch("--no-samples", "latency:bytes=8192", "latency:bytes=8193", "bw:bytes=8193", "alltoall:bytes=8193")
    assert [(line["iterations"], line["warmup"]) for line in run.of_type("kernel")] == [
        (10000, 100),
        (1000, 10),
        (20, 2),
        (100, 10),
    ]


def test_no_samples_leaves_out_the_data_and_nothing_else(launch):
    full, short = (launch(*flags, "barrier:iterations=5").kernel for flags in ((), ("--no-samples",)))
    assert set(full) - set(short) == {"data"}


def test_a_line_of_megabytes_arrives_whole(launch):
    assert len(samples(launch("latency:iterations=150000").kernel)["max_s"]) == 150000


def test_start_windows_work_warm_up_enough_to_know_their_length_and_count_late_starts(launch):
    specs = ("barrier:iterations=5,warmup=0", "alltoallv:iterations=200", "latency:iterations=200")
    lines = launch(*(f"{spec},sync=window" for spec in specs)).of_type("kernel")
    assert lines[0]["warmup"] == 10
    for line in lines:
        assert line["verified"] is True
        assert line["sync"] == "window"
        assert line["sync_window_s"] > 0
        assert 0 <= line["late"] <= line["iterations"]
        assert len(line["late_iterations"]) == line["late"]
        assert len(samples(line)["max_s"]) == line["iterations"]


SENT = {
    "latency": 200, "bw": 404, "bibw": 800, "spacing": 100, "sendrecv": 200, "alltoall": 200, "alltoallv": 200,
    "allgather": 200, "allreduce": 200, "halo": 416, "barrier": 0,
}  # fmt: skip
"""Bytes that an operation on 100 bytes must send at least, in windows of 4; a halo's are 104."""


def test_nothing_is_sent_to_other_hosts_when_there_is_one_host(launch):
    run = launch(*(f"{kernel}:iterations=2" for kernel in SENT), ranks=4)
    for line in run.of_type("kernel"):
        assert line["payload"] == {"bytes_min": 0, "bytes_max": 0, "messages": 0}


@pytest.mark.requires("root")
def test_payload_between_hosts_is_bounded_by_what_the_operations_must_send(launch):
    sizes = {name: "bytes=100,window=4," if name in ("bw", "bibw") else "bytes=100," for name in SENT}
    sizes |= {"halo": "bytes=104,", "barrier": ""}
    rename = 'hostname "node$OMPI_COMM_WORLD_RANK"; exec "$@"'
    specs = (f"{name}:{size}iterations=10,warmup=5" for name, size in sizes.items())
    run = launch(*specs, wrapper=("unshare", "--uts", "sh", "-c", rename, "sh"))
    assert run.code == 0, run.stderr
    assert [line["hostname"] for line in run.of_type("rank")] == ["node0", "node1"]
    lines = {line["kernel"]: line["payload"] for line in run.of_type("kernel")}
    operations = 10 + 5 + 2  # timed, discarded, verified
    two_readings = {"allreduce", "barrier"}  # 10 more in a loop, and a warm-up of 10 at least
    assert {name: payload["bytes_min"] for name, payload in lines.items()} == {
        name: (operations + (15 if name in two_readings else 0)) * least for name, least in SENT.items()
    }
    for payload in lines.values():
        assert payload["bytes_max"] >= payload["bytes_min"]
        assert payload["messages"] >= operations
