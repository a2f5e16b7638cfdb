"""The files below /sys of a machine with adapters, as they are read there: `PATH TEXT` a line, `PATH -> TARGET` a link.

The machine has mlx5 adapters of one port each, as the driver shows a card with two: InfiniBand that is active, Ethernet
(RoCE) that is active, and InfiniBand that is down. `SOFT` is an adapter in software over an Ethernet interface.
"""

from __future__ import annotations

from pathlib import Path

MLX5 = """
infiniband/mlx5_0/ports/1/state 4: ACTIVE
infiniband/mlx5_0/ports/1/link_layer InfiniBand
infiniband/mlx5_0/ports/1/rate 100 Gb/sec (4X EDR)
infiniband/mlx5_0/ports/1/counters/port_xmit_data 1000
infiniband/mlx5_0/ports/1/counters/port_rcv_data 2000
infiniband/mlx5_0/ports/1/counters/port_xmit_packets 10
infiniband/mlx5_0/ports/1/counters/port_rcv_packets 20
infiniband/mlx5_0/device/driver -> drivers/mlx5_core
infiniband/mlx5_1/ports/1/state 4: ACTIVE
infiniband/mlx5_1/ports/1/link_layer Ethernet
infiniband/mlx5_1/ports/1/rate 25 Gb/sec (1X EDR)
infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0 ens1f1np1
infiniband/mlx5_1/ports/1/counters/port_xmit_data 0
infiniband/mlx5_1/ports/1/counters/port_rcv_data 0
infiniband/mlx5_1/ports/1/counters/port_xmit_packets 0
infiniband/mlx5_1/ports/1/counters/port_rcv_packets 0
infiniband/mlx5_1/device/driver -> drivers/mlx5_core
infiniband/mlx5_2/ports/1/state 1: DOWN
infiniband/mlx5_2/ports/1/link_layer InfiniBand
infiniband/mlx5_2/ports/1/rate 10 Gb/sec (4X SDR)
infiniband/mlx5_2/ports/1/counters/port_xmit_data 0
infiniband/mlx5_2/device/driver -> drivers/mlx5_core
infiniband_verbs/abi_version 6
infiniband_verbs/uverbs0/ibdev mlx5_0
infiniband_verbs/uverbs1/ibdev mlx5_1
infiniband_verbs/uverbs2/ibdev mlx5_2
net/ib0/type 32
net/ib0/dev_port 0x0
net/ib0/device/infiniband/mlx5_0/node_guid 0
net/ib2/type 32
net/ib2/dev_port 0
net/ib2/device/infiniband/mlx5_2/node_guid 0
net/ens1f1np1/type 1
drivers/mlx5_core/uevent -
"""

SOFT = """
infiniband/rxe0/ports/1/state 4: ACTIVE
infiniband/rxe0/ports/1/link_layer Ethernet
infiniband/rxe0/parent eth1
infiniband_verbs/abi_version 6
infiniband_verbs/uverbs0/ibdev rxe0
"""

NODES = ("uverbs0", "uverbs1", "uverbs2", "rdma_cm", "umad0", "umad1", "issm0", "issm1")


def machine(folder: Path, tree: str = MLX5) -> tuple[Path, Path]:
    """Make the files of a tree and return what stands for /dev and for /sys/class."""
    classes = folder / "class"
    for line in tree.strip().splitlines():
        path, _, text = line.partition(" ")
        place = classes / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            place.symlink_to(classes / text[3:])
        else:
            place.write_text(f"{text}\n")
    nodes = folder / "dev" / "infiniband"
    nodes.mkdir(parents=True)
    for name in NODES:
        (nodes / name).touch()
    return folder / "dev", classes
