"""Every pair of a runtime and a network is supported, or refused with a reason; no container has more than it needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

from contract.compositions import GOLDEN, NODE, PAIRS, SUPPORTED, as_table, composed, is_sentence
from nodes import make_pod, make_request
from tare.model import Environment, Placement, Share, Sides
from tare.networks import NETWORKS, Wiring
from tare.runtimes import RUNTIMES
from tare.runtimes.docker import join_config
from tare.study.plan import composition


def refusals(pairs: Iterable[tuple[str, str]], placement: Placement, **more: Any) -> dict[tuple[str, str], bool]:
    """Return whether each pair is refused; a reason is a sentence."""
    reasons = {pair: composition.refuse(composed(*pair, **more), placement) for pair in pairs}
    assert [reason for reason in reasons.values() if reason is not None and not is_sentence(reason)] == []
    return {pair: reason is not None for pair, reason in reasons.items()}


def test_a_pair_is_supported_as_it_was_written_down_or_refused_with_a_reason() -> None:
    """`TARE_UPDATE_GOLDEN=1` writes them; read the difference."""
    refused = {nodes: refusals(PAIRS, Placement(nodes=nodes)) for nodes in (1, 2)}
    table = as_table({pair: {nodes for nodes in refused if not refused[nodes][pair]} for pair in PAIRS})
    if os.environ.get("TARE_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(table)
    assert GOLDEN.read_text() == table


@pytest.mark.parametrize("sides", [Sides.SENDER, Sides.RECEIVER])
def test_one_side_only_needs_a_network_that_reaches_outside_and_has_one_container_a_node(sides: Sides) -> None:
    able = {pair for pair in SUPPORTED if NETWORKS[pair[1]].reaches_outside}
    assert refusals(PAIRS, Placement(), sides=sides) == {pair: pair not in able for pair in PAIRS}
    several = Placement(ranks_per_node=2, containers_per_node=2)
    assert refusals([("docker", "bridge")], several, sides=sides) == {("docker", "bridge"): True}


def test_several_containers_share_a_pod_on_every_network() -> None:
    refused = refusals(SUPPORTED, Placement(ranks_per_node=2, containers_per_node=2))
    assert refused == {pair: RUNTIMES[pair[0]].one_container for pair in SUPPORTED}


def test_a_size_of_shared_memory_is_refused_where_a_container_has_its_node_s() -> None:
    for (runtime, network), refused in refusals(SUPPORTED, Placement(), shm_size=64 << 20).items():
        assert refused != RUNTIMES[runtime].sizes_shared_memory, (runtime, network)


def test_a_pod_each_needs_a_network_that_has_an_address_for_each() -> None:
    refused = refusals(SUPPORTED, Placement(ranks_per_node=2, containers_per_node=2, share=Share.NONE))
    for (runtime, network), it_is in refused.items():
        plugin = RUNTIMES[runtime]
        allowed = not plugin.makes_containers or (NETWORKS[network].pods_share_nic and plugin.pods_are_hosts)
        assert it_is != allowed, (runtime, network)


def test_a_container_that_joins_a_pod_is_not_privileged_and_shares_what_mpi_needs() -> None:
    pod = make_pod(NODE, runtime="docker", container="tare-p")
    request = make_request(NODE, image_tag="tare:x", shown=("/home/u",), session="/run/t")
    config = join_config(pod, request, (3,))
    host = config["HostConfig"]
    assert set(config) == {"Image", "Cmd", "Labels", "HostConfig"}
    assert set(host) == {"NetworkMode", "IpcMode", "PidMode", "CpusetCpus", "CapDrop", "Binds"}, "no right is asked for"
    assert {host["NetworkMode"], host["IpcMode"], host["PidMode"]} == {"container:tare-p"}
    assert host["CpusetCpus"] == "3"
    assert host["Binds"] == ["/home/u:/home/u:ro", "/run/t:/run/t"]


def test_shared_memory_between_nodes_is_refused_and_within_one_is_not() -> None:
    wanted = composed("bare", "host", transport="shm")
    reason = composition.refuse(wanted, Placement(nodes=2))
    assert reason is not None
    assert "tcp" in reason
    assert composition.refuse(wanted, Placement(nodes=1, ranks_per_node=2)) is None


def test_a_fake_runtime_and_network_are_refused_with_a_real_mpi() -> None:
    wanted = Environment(name="e", runtime="fake", network="fake", mpi="openmpi")
    assert composition.refuse(wanted, Placement())


def test_a_supported_pair_has_a_kind_of_wiring_that_its_runtime_can_make() -> None:
    for runtime, network in SUPPORTED:
        wiring = NETWORKS[network].wiring
        assert wiring in {Wiring.NODE, Wiring.OWN} or (wiring is Wiring.DOCKER and RUNTIMES[runtime].needs_daemon)


def test_environments_that_own_a_nic_get_one_each_and_the_others_share_the_first() -> None:
    pairs = [("bare", "host"), ("docker", "bridge"), ("docker", "overlay"), ("bare", "direct"), ("docker", "macvlan")]
    wanted = [Environment(name=f"{r}+{n}", runtime=r, network=n) for r, n in pairs]
    wanted.append(Environment(name="one side", runtime="docker", network="host", sides=Sides.SENDER))
    there = Placement()
    slots = {e.name: slot for (e, _), slot in composition.nic_slots((e, there) for e in wanted).items()}
    owners = [e.name for e in wanted if NETWORKS[e.network].owns_nic or e.sides is not Sides.BOTH]
    assert sorted(slots[name] for name in owners) == list(range(1, len(owners) + 1))
    assert {slots[e.name] for e in wanted if e.name not in owners} == {0}
