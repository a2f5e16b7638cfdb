"""Several containers of ranks on a node of a real Kubernetes: in one pod, where they share memory, or a pod each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from integration.live import Ended, lab_site, live, outcome, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from tare.clusters.pods import in_lab
from tare.clusters.pods.in_lab import LabKubernetes
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file
from tare.images.recipe import service
from tare.networks import flannel

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables", "mpich"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

MPIS: Final = {"openmpi": "debian-openmpi", "mpich": "debian-mpich"}
IN_ONE_POD: Final = "2n x 2r in 2c, oversubscribed"
A_POD_EACH: Final = "2n x 2r in 2c, a pod each, oversubscribed"
ON_ONE_NODE: Final = "1n x 2r in 2c, oversubscribed"
ON_ONE_NODE_EACH: Final = "1n x 2r in 2c, a pod each, oversubscribed"
PLACEMENTS: Final = ", ".join(
    f"{{nodes: {nodes}, ranks_per_node: 2, containers_per_node: 2, share: {share}, oversubscribe: true}}"
    for nodes in (1, 2)
    for share in ("pod", "none")
)
BYTES: Final = 65536
ROUNDS: Final = 60
PAYLOAD: Final = BYTES * ROUNDS
KERNELS: Final = (
    f"{{micro: {{time_limit: 60s, kernels: [{{latency: {{message_bytes: {BYTES}, iterations: {ROUNDS}, warmup: 5}}}}, "
    "{barrier: {iterations: 20, warmup: 5}}]}}"
)


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[LabKubernetes]:
    images = [ensure_image(find_recipe(name)) for name in MPIS.values()]
    with lab_site() as site, in_lab.running(site.nodes, site.folder) as made:
        for image in (*images, ensure_image(service())):
            made.import_image(ensure_file(image, "docker-archive").path)
        yield made


@pytest.fixture(scope="module")
def ran(
    kubernetes: LabKubernetes, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Ended, dict[tuple[str, str], dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("share")
    each = ", ".join(f"{mpi}: {{runtime: kubernetes, network: pod-network, mpi: {mpi}}}" for mpi in MPIS)
    study = write_study(
        folder,
        "share",
        f"{{{each}}}",
        cluster=json.dumps({"kubernetes": {"kubeconfig": str(kubernetes.kubeconfig), "pull_policy": "Never"}}),
        placements=f"[{PLACEMENTS}]",
        workloads=KERNELS,
    )
    result = tare("run", study, cwd=folder)
    found = {}
    for trial in trials(folder / "results" / "share"):
        _, placement, environment = trial["key"]["cell"].split(" / ")
        found[placement, environment] = trial
    return result, found


@pytest.mark.parametrize("mpi", MPIS)
def test_containers_of_one_pod_are_one_host_that_shares_memory(mpi: str, ran: Any) -> None:
    result, found = ran
    trial = found[IN_ONE_POD, mpi]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    ranks = trial["ranks"]
    assert [rank["hostname"].partition("-")[2] for rank in ranks] == ["n0", "n0", "n1", "n1"]
    assert [rank["shared_memory_ranks"] for rank in ranks] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    for first, second in (ranks[:2], ranks[2:]):
        same = {kind for kind, own in first["namespaces"].items() if second["namespaces"][kind] == own}
        assert {"ipc", "net", "pid", "uts"} <= same
        assert "mnt" not in same, "both ranks ran in one container"
    assert len({rank["namespaces"]["net"] for rank in ranks}) == 2
    assert min(sent(trial)) >= PAYLOAD, "ranks of two pods reach each other over the network"


@pytest.mark.parametrize("mpi", MPIS)
def test_containers_with_a_pod_each_send_over_the_network(mpi: str, ran: Any) -> None:
    result, found = ran
    trial = found[A_POD_EACH, mpi]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    ranks = trial["ranks"]
    assert [rank["hostname"].partition("-")[2] for rank in ranks] == ["n0c0", "n0c1", "n1c0", "n1c1"]
    assert [rank["shared_memory_ranks"] for rank in ranks] == [[0], [1], [2], [3]]
    for kind in ("ipc", "net"):
        assert len({rank["namespaces"][kind] for rank in ranks}) == 4


@pytest.mark.parametrize("mpi", MPIS)
def test_messages_between_two_containers_take_memory_in_one_pod_and_the_network_between_two(mpi: str, ran: Any) -> None:
    result, found = ran
    together, apart = found[ON_ONE_NODE, mpi], found[ON_ONE_NODE_EACH, mpi]
    for trial in (together, apart):
        assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    assert len(sent(apart)) == 2
    assert min(sent(apart)) >= PAYLOAD
    assert sum(sent(together)) < PAYLOAD / 10


def sent(trial: dict[str, Any]) -> list[int]:
    """Return the bytes that left each pod by its interface."""
    return [each["tx_bytes"] for each in trial["traffic"] if each["role"] == "pod's interface"]


def test_the_report_names_the_transport_that_is_lost(ran: Any) -> None:
    said = " ".join(ran[0].stdout.split())
    assert "transport loss: ranks 0 and 1 are on one node" in said, said
