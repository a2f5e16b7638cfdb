"""User-mode networks for real, on one node: pods come up behind them, and their processes end with them."""

from __future__ import annotations

from pathlib import Path

from integration.containers import ran
from integration.live import by_environment, live, outcome

pytestmark = live("mmdebstrap", "podman", "uidmap", "passt", "slirp4netns")


def test_pods_get_their_address_and_a_study_leaves_nothing_behind(tmp_path: Path) -> None:
    names = ["podman-rootless+pasta", "podman-rootless+slirp4netns", "bare+pasta"]
    result, watch, results = ran(
        tmp_path,
        names,
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2}]",
    )
    found = by_environment(results)
    assert {*names} <= set(found)
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert {item["role"] for item in trial["traffic"]} == {"tap of the pod"}
        assert "net" not in trial["ranks"][0]["node_namespaces"]
    assert watch.left(result.lab) == []
