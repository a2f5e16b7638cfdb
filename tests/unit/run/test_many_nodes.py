"""Work for a job grows with its nodes and not with their square: 1,000 nodes are planned, placed and mapped in 2 s."""

from __future__ import annotations

import json
from pathlib import Path

import large_cluster
from counted_calls import count_calls
from large_cluster import RANKS_PER_NODE

FEW, MANY = 60, 240


def test_four_times_the_nodes_take_four_times_the_calls(tmp_path: Path) -> None:
    large_cluster.took(2, tmp_path)  # imports and caches
    calls = {nodes: count_calls(lambda nodes=nodes: large_cluster.took(nodes, tmp_path)) for nodes in (FEW, MANY)}
    assert calls[MANY] < 4.4 * calls[FEW], calls
    launch_map = json.loads((tmp_path / "map.json").read_text())
    assert len(launch_map["hosts"]) == MANY
    assert sum(len(host["ranks"]) for host in launch_map["hosts"].values()) == MANY * RANKS_PER_NODE
