"""Make a results folder of many trials: a study on fakes, and trials with all that a lab's launches record."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from tare.model import (
    Cell,
    Completed,
    Environment,
    Failed,
    InterfaceTraffic,
    KernelSpec,
    LabSpec,
    Metric,
    MetricKind,
    Outcome,
    Placement,
    Plan,
    RankPlace,
    Repetition,
    Study,
    Trial,
    TrialKey,
    Workload,
)
from tare.store.writer import Store
from tare.study.plan.cells import block_order, expand

KERNELS = (
    KernelSpec(kernel="latency", message_bytes=8),
    KernelSpec(kernel="bw", message_bytes=65536),
    KernelSpec(kernel="barrier"),
)
SAMPLES = 50
SPREAD = 0.02
FAILS = 0.002
"""The share of launches that fail."""
INTERFACES = (
    ("eth0", "veth of the pod"),
    ("data0", "data NIC"),
    ("lo", "must stay silent"),
    ("ctl0", "must stay silent"),
)
MCA = "plm rsh ras ^slurm pml ob1 btl self,vader,tcp btl_vader_single_copy_mechanism none coll self,basic,libnbc,tuned"
RIGHTS = {
    "capabilities": "00000000a80425fb", "no_new_privs": "0", "seccomp": "2",
    "speculation_store_bypass": "thread vulnerable", "uid_map": "0 0 4294967295", "devices": "",
    "device_count": "0", "node_device_count": "96", "has_all_devices": "no", "root": "rw",
    "own_mounts": "/ /dev /dev/mqueue /dev/shm", "own_mount_count": "4",
    "node_mounts": "/etc/hostname /etc/hosts /etc/resolv.conf", "node_mount_count": "3",
    "setuid": "none", "limits": "cores=1",
}  # fmt: skip


def plan_of(*, environments: int, groups: int, rounds: int) -> Plan:
    """Return a plan on the fake cluster, of so many environments (A/A is one of them) in so many groups."""
    names = ("fake", *(f"fake-{number}" for number in range(1, environments - 1)))
    study = Study(
        name="large",
        cluster="fake",
        lab=LabSpec(nodes=2, cores_per_node=1),
        baseline="fake",
        environments=tuple(
            Environment(name=name, runtime="fake", network="fake-slow" if number % 3 == 2 else "fake", mpi="fake")
            for number, name in enumerate(names)
        ),
        placements=(Placement(nodes=2, ranks_per_node=1),),
        workloads=tuple(Workload(name=f"micro{number}", kernels=KERNELS) for number in range(groups)),
        repetition=Repetition(rounds=rounds, max_rounds=rounds),
    )
    return expand(study, lambda _environment, _placement: None)


def trials_of(
    plan: Plan, seed: int = 1, *, per_metric: int = SAMPLES
) -> Iterator[tuple[Trial, Mapping[str, NDArray[np.float64]]]]:
    """Yield every trial of a plan, round by round, with so many samples of each of its three metrics."""
    cells = {cell.key: cell for cell in plan.cells}
    dice = random.Random(seed)
    samples = np.random.default_rng(seed).lognormal(0, 0.1, 4096)
    number = 0
    for round_ in range(plan.study.repetition.rounds):
        for position, key in enumerate(block_order(plan, round_, 0)):
            yield _trial(cells[key], round_, position, number, dice, samples, per_metric)
            number += 1


def _trial(
    cell: Cell,
    round_: int,
    position: int,
    number: int,
    dice: random.Random,
    samples: NDArray[np.float64],
    per_metric: int,
) -> tuple[Trial, Mapping[str, NDArray[np.float64]]]:
    factor = 1.5 if cell.environment.network == "fake-slow" else 1.0
    factor *= dice.lognormvariate(0, SPREAD)
    columns = {}
    metrics = []
    for kernel in KERNELS:
        name = kernel.kernel if kernel.message_bytes is None else f"{kernel.kernel}:{kernel.message_bytes}"
        start = dice.randrange(samples.size - per_metric)
        columns[f"{name}/max_s"] = column = (
            (2e-6 + (kernel.message_bytes or 0) * 1e-9) * factor * samples[start:][:per_metric]
        )
        metrics.append(_metric(name, kernel, column))
    outcome: Outcome = Completed(metrics=tuple(metrics))
    if dice.random() < FAILS:
        outcome, columns = Failed(reason="it ended with status 9", status=9, stderr_tail="killed\n"), {}
    return trial_of(cell, round_, position, number, dice, outcome), columns


def trial_of(cell: Cell, round_: int, position: int, number: int, dice: random.Random, outcome: Outcome) -> Trial:
    """Return a trial of a cell with all that a launch in a lab records."""
    pid = 1000 + dice.randrange(30000)
    return Trial(
        key=TrialKey(cell=cell.key, round=round_, block=0, attempt=0),
        position=position,
        started_unix_s=1.79e9 + 0.3 * number,
        elapsed_s=0.25 + dice.random() / 10,
        outcome=outcome,
        argv=(
            "nsenter", f"--net=/proc/{pid}/ns/net", "--", "/usr/bin/mpirun.openmpi", "--allow-run-as-root",
            *(token for word in MCA.split() for token in ("--mca", word)),
            "--mca", "btl_tcp_if_include", "10.214.0.0/24", "--bind-to", "none", "--map-by", "slot",
            "--host", "n0:1,n1:1", "-n", "2", "-x", "TARE_PADDING", "/opt/tare/bin/tare-kernels",
            f"--order={','.join(map(str, dice.sample(range(3), 3)))}",
            "latency:bytes=8,iterations=50", "bw:bytes=65536,iterations=50", "barrier:iterations=50",
        ),
        startup_s={"pods_s": dice.random(), "mpi_init_s": dice.random() / 10, "launch_s": dice.random() / 4},
        ranks=tuple(_rank(rank, round_, dice) for rank in range(cell.placement.ranks)),
        traffic=tuple(
            InterfaceTraffic(
                node=f"n{node}", interface=interface, role=role, rx_bytes=dice.randrange(10**7),
                tx_bytes=dice.randrange(10**7), rx_packets=dice.randrange(10**4), tx_packets=dice.randrange(10**4),
            )
            for node in range(2)
            for interface, role in INTERFACES
        ),
        counters={"TcpRetransSegs": float(dice.randrange(9)), "environment_padding_bytes": float(dice.randrange(4096))},
        mpi_library="Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
        noise={
            "cores": 2.0, "background_s": dice.random() / 100, "job_s": 0.2 + dice.random() / 10, "steal_s": 0.0,
            "softirq_s": dice.random() / 100, "throttled_s": 0.0, "core_hand_over_s": 1e-7 + dice.random() * 1e-8,
            "core_counting_s": 1e-4 * (1 + dice.random() / 100), "cores_elsewhere": 0.0, "cores_slowed": 0.0,
        },
        facts={"mtu": "1500", "offloads": "tso=on gso=on gro=on rx=on tx=on", "transport": "tcp: btl tcp, as claimed"},
    )  # fmt: skip


def _metric(name: str, kernel: KernelSpec, column: NDArray[np.float64]) -> Metric:
    rate = kernel.kernel == "bw"
    return Metric(
        key=name,
        label=name.replace(":", " "),
        kind=MetricKind.RATE if rate else MetricKind.COST,
        value=float(column.mean()),
        median_s=float(np.median(column)),
        p99_s=float(column.max()),
        rank_average_s=float(column.mean()),
        samples=column.size,
        done_per_sample=float(8 * (kernel.message_bytes or 0)) if rate else 0.0,
        message_bytes=kernel.message_bytes or 0,
    )


def _rank(rank: int, round_: int, dice: random.Random) -> RankPlace:
    first = 4026531840 + 100 * round_ + 10 * rank
    names = ("net", "ipc", "uts", "pid", "mnt", "user", "cgroup")
    return RankPlace(
        rank=rank,
        host=f"57cae7ef-6416-4936-a72c-47152410f63{rank % 2}/n{rank % 2}",
        hostname=f"n{rank % 2}",
        pid=dice.randrange(2, 400),
        cpus=(rank,),
        namespaces={name: first + place for place, name in enumerate(names)},
        rights=RIGHTS,
        node_namespaces=("user", "cgroup"),
        shm_device=100 + dice.randrange(100),
        shared_memory_ranks=(rank,),
    )


def write(path: Path, plan: Plan, *, samples: bool = True, per_metric: int = SAMPLES) -> int:
    """Write a results folder with the store, but without waiting for the disk; return the number of its trials."""
    with mock.patch("os.fdatasync"), Store.create_or_open(path, plan, {"machine": "a generated study"}) as store:
        for trial, columns in trials_of(plan, per_metric=per_metric):
            store.append(trial, columns if samples else None)
            store.trials.clear()
        return store.count
