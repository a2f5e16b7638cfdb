"""Every network that there is: two pods on two nodes reach each other the way it claims, and nothing of it is left.

Its members are the registry's: a new network is held to this by being registered.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.live import Ended, Watch, by_environment, live, outcome, wait_for, write_study
from integration.node_state import LONG_S, are_as_before, has_settled, reach_each_other, state_of, steady_state_of
from integration.studies import prove, roles, watched
from tare.clusters.lab_site import LabCluster, LabSite
from tare.images import DEFAULT
from tare.model import Environment, LabSpec, Placement, Plan, Study, Workload
from tare.networks import NETWORKS, Wiring, find
from tare.networks.wiring.ping import ping
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.run.site import needs
from tare.study.feasibility import study_files
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan import composition
from tare.study.plan.cells import expand
from tare.system.counters.monitor import key_of
from tare.system.node import SILENT_ROLE

pytestmark = live("docker", "cni", "mmdebstrap", "nftables", "iptables")

TWO = Placement()
BYTES, ITERATIONS = 65536, 40
PAYLOAD = BYTES * ITERATIONS
LATENCY = f"{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}, warmup: 2}}}}"
KERNELS = f"{{micro: {{time_limit: 300s, kernels: [{LATENCY}]}}}}"


def environment_of(network: str) -> Environment | None:
    """Return an environment with a network that two nodes can have: bare if it can be, else docker."""
    for runtime in ("bare", "docker"):
        image = DEFAULT if runtime == "docker" else ""
        wanted = Environment(name=network, runtime=runtime, network=network, image=image)
        if composition.refuse(wanted, TWO) is None:
            return wanted
    return None


ALSO = tuple(
    Environment(name=f"docker+{network}", runtime="docker", network=network, image=DEFAULT)
    for network in ("flannel", "calico")
)
"""Networks that a pod of Docker can have as well, in studies."""
POD, UNDER_FLANNEL = "veth of the pod", "data NIC under flannel"
CARRIERS = {
    "flannel": {POD, "VXLAN of flannel", UNDER_FLANNEL},
    "flannel-host-gw": {POD, UNDER_FLANNEL},
    "flannel-udp": {POD, "tun of flannel", UNDER_FLANNEL},
    "canal": {POD, "VXLAN of flannel", UNDER_FLANNEL},
    "calico": {POD, "data NIC"},
}
"""The roles of the interfaces that must carry the traffic; a network that is not listed may report any."""
WANTED = {name: made for name in NETWORKS if not name.startswith("fake") if (made := environment_of(name))}


@pytest.fixture(params=WANTED)
def network(request: pytest.FixtureRequest) -> str:
    reason = NETWORKS[request.param].probe()
    if reason is not None:
        cannot = "this machine cannot: " if "this kernel" in reason else ""
        pytest.skip(f"{cannot}{request.param}: {reason}")
    return str(request.param)


def groups() -> list[list[Environment]]:
    """Return the environments that can be had here, those together that can be in one study."""
    usable = [wanted for name, wanted in WANTED.items() if NETWORKS[name].probe() is None]
    apart = composition.apart(usable)
    return [part for part in ([e for e in usable if (e.name in apart) is other] for other in (False, True)) if part]


# --- by hand: pings, MTU, counters, what is left ------------------------------------------------------------------

Up = tuple[LabSite, StudyFiles]
"""A lab with all that the networks of a group need, for one after the other of them."""


@pytest.fixture(scope="module")
def labs() -> Iterator[Callable[[str], Up]]:
    """Lend the lab of a network's group, made when it is first asked for."""
    watch = Watch()
    made: dict[int, Up] = {}
    with ExitStack() as stack:

        def lab(network: str) -> Up:
            group = next(number for number, part in enumerate(groups()) if WANTED[network] in part)
            if group not in made:
                plan = plan_of(groups()[group])
                files = study_files.make_files(plan, print, measured=False)
                lab = LabCluster().open(f"nc{os.getpid()}x{group}", plan.study.lab, needs(plan, files.seen_by_nodes))
                made[group] = stack.enter_context(lab), files
                study_files.import_images(made[group][0], files.every)
                watch.look(made[group][0].name)
            return made[group]

        yield lab
    for site, _ in made.values():
        assert watch.left(site.name) == []


def plan_of(wanted: list[Environment]) -> Plan:
    stated = Study(
        name="contract",
        cluster="lab",
        lab=LabSpec(nodes=2, oversubscribe=True),
        baseline=wanted[0].name,
        environments=tuple(wanted),
        placements=(TWO,),
        workloads=(Workload(name="none", command=("true",)),),
        self_comparison=False,
    )
    return expand(stated, lambda *_: None)


def test_two_pods_on_two_nodes_reach_each_other_and_nothing_is_left(network: str, labs: Callable[[str], Up]) -> None:
    wanted, (site, files) = WANTED[network], labs(network)
    owns = find(network).owns_nic
    on = site.daemon_nodes if wanted.runtime == "docker" else site.nodes
    before = [steady_state_of(node) for node in on]
    if NETWORKS[network].wiring is Wiring.DOCKER:  # with its first overlay a daemon makes docker_gwbridge, and keeps it
        with deployed(site, wanted, TWO, slot=0, nic=0, files=files.of(wanted)):
            pass
        wait_for(lambda: all(map(has_settled, on, before)), "daemons that have tidied up")
        before = [steady_state_of(node) for node in on]
    with deployed(site, wanted, TWO, slot=0, nic=1 if owns else 0, files=files.of(wanted)) as up:
        up.wait_until_ready()
        during = [state_of(node) for node in on]
        reach_each_other(up)
        carry_what_is_sent(up)
    if owns:
        assert during != before, "the network made nothing: the test proves nothing"
    are_as_before(on, before)


def carry_what_is_sent(up: Deployed) -> None:
    """Hold the interfaces that are named as the proof to carry what the pods send, and the others to silence."""
    first, second = up.pods
    assert first.endpoint.watches

    def carried() -> list[int]:
        values = up.counters().interfaces
        watches = [values[key_of(pod.node, watch)] for pod in up.pods for watch in pod.endpoint.watches]
        return [received + sent for received, _, sent, _ in watches]

    watches = [watch for pod in up.pods for watch in pod.endpoint.watches]
    before = carried()
    size = first.endpoint.mtu - 100
    address, source = second.endpoint.address, first.endpoint.address
    sent = ping(first.pid, address, count=30, packet_bytes=size, timeout_s=LONG_S, source=source)
    assert len(sent) >= 29
    for watch, had, has in zip(watches, before, carried(), strict=True):
        grown = has - had
        if watch.role == SILENT_ROLE:
            assert grown < 20 * size, watch
        else:
            assert 2 * 29 * size <= grown < 3 * 30 * first.endpoint.mtu, watch


# --- by a study: an MPI ping-pong, and the proof of its way ---------------------------------------------------------

SMOKE = {
    "host", "bridge", "direct", "macvlan", "docker-default", "overlay", "overlay-etcd",
    "calico", "calico-ipip", "calico-ipip-cross",
}  # fmt: skip
"""Those that test_smoke_environments.py has such a study of."""
STUDIED = {
    each.name if each in ALSO else f"{each.runtime}+{each.network}": each
    for each in (*WANTED.values(), *ALSO)
    if (each in ALSO or each.network not in SMOKE) and NETWORKS[each.network].probe() is None
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Watch, Path]:
    folder = tmp_path_factory.mktemp("contract")
    result, watch = watched(write_study(folder, "contract", ["bare", *STUDIED], workloads=KERNELS))
    return result, watch, folder / "results" / "contract"


@pytest.mark.parametrize("name", STUDIED)
def test_an_mpi_ping_pong_runs_and_the_counters_prove_its_way(name: str, study: tuple[Ended, Watch, Path]) -> None:
    result, _, results = study
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    inside = "d" if name.startswith("docker") else "n"
    carriers = {item["node"] for item in trial["traffic"] if item["role"] != SILENT_ROLE}
    assert carriers == {f"{inside}0", f"{inside}1"}
    assert roles(trial) == CARRIERS.get(STUDIED[name].network, roles(trial))
    prove(trial, PAYLOAD)


def test_all_networks_at_once_leave_nothing_and_the_report_says_what_of_each_is_the_product_itself(
    study: tuple[Ended, Watch, Path],
) -> None:
    result, watch, results = study
    assert len(watch.namespaces) > 20, "the watch saw no namespaces"
    assert watch.left(result.lab) == []
    told = json.loads((results / "plan.json").read_text())["facts"]["networks"]
    assert told == {name: NETWORKS[name].product for name in {"host", *(each.network for each in STUDIED.values())}}
    page = html.unescape((results / "report.html").read_text())
    assert all(product in page for product in told.values())
