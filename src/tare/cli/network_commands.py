"""Run `tare network`: list the networks, or try one by hand with a pod on each node of a lab.

A process of tare keeps the pods for as long as the network is up, and `tare network down` ends it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from tare import study
from tare.cli import lab_commands, lab_state, session
from tare.cli.options import NetworkOptions
from tare.cli.output import print_json, say
from tare.clusters import Site
from tare.clusters.lab_site import LabSite
from tare.errors import InfrastructureError, RefusedError, UsageError
from tare.images import DEFAULT
from tare.model import Environment, LabSpec, Placement, Plan, Study, Workload
from tare.networks import NETWORKS, Network, Wiring, find
from tare.networks.wiring.conflist import PREFIX, VARIABLES
from tare.networks.wiring.ping import ping
from tare.run.deploy.hosts import Deployed
from tare.run.site import needs
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.deployment import Files
from tare.runtimes.containers.held_namespaces import enter
from tare.study.feasibility import study_files
from tare.study.plan import cells, composition
from tare.system import process
from tare.system.node import Pod
from tare.system.node.cgroups import bases
from tare.system.node.owners import owner, write_note
from tare.system.paths import made_run_folder, run_folder
from tare.system.user_namespace import become_root

STATE: Final = "network.json"
DOWN_LIMIT_S: Final = 30.0


# --- list -----------------------------------------------------------------------------------------------------------


def network_list(*, as_json: bool = False) -> None:
    """Print every network: whether it is available here, which part of it is the product itself, and what it needs."""
    listed = {name: network for name, network in NETWORKS.items() if not network.is_fake}
    if as_json:
        print_json([
            {"name": name, "missing": it.probe(), "is": it.product, "needs": needs_of(name, it)}
            for name, it in listed.items()
        ])  # fmt: skip
        return
    for name, network in listed.items():
        print("\n".join(described(name, network)))
    print(f"{PREFIX}PATH\n    your own CNI configuration, with variables ${{{'}, ${'.join(VARIABLES)}}}")


def described(name: str, network: Network) -> list[str]:
    """Return the lines on one network."""
    reason = network.probe()
    state = f"unavailable: {reason}" if reason else "available"
    return [f"{name}: {state}", f"    is     {network.product}", f"    needs  {needs_of(name, network)}"]


def needs_of(name: str, network: Network) -> str:
    """Return the requirements of a network on nodes and runtimes, in words."""
    real = [each for each, it in RUNTIMES.items() if not it.is_fake and it.by_cluster == network.by_cluster]
    serves = {nodes: [r for r in real if _refused(r, name, nodes) is None] for nodes in (1, 2)}
    most = serves[2] or serves[1]
    nic = {
        Wiring.OWN: "a data NIC of its own" if network.owns_nic else "no data NIC of its own",
        Wiring.NODE: "the data NIC of its node, shared",
        Wiring.DOCKER: "a Docker daemon on each node",
    }[network.wiring]
    bound = [name for name in real if RUNTIMES[name].shares_network]
    runtimes = f"only with runtime {', '.join(most)}"
    if sorted({*most, *bound}) == sorted(real):
        runtimes = "any runtime" if most == real else f"any runtime but {', '.join(bound)}"
    nodes = "" if serves[1] and serves[2] else "; at least two nodes" if serves[2] else "; one node only"
    return f"{nic}; {runtimes}{nodes}"


def _refused(runtime: str, network: str, nodes: int) -> str | None:
    image = DEFAULT if RUNTIMES[runtime].needs_image else ""
    environment = Environment(name="it", runtime=runtime, network=network, image=image)
    return composition.refuse(environment, Placement(nodes=nodes))


# --- up -------------------------------------------------------------------------------------------------------------


def network_up(wanted: NetworkOptions) -> int:
    """Bring a network up and leave it up, or, in the foreground, until Ctrl-C; return the exit code."""
    lab_state.check_name(wanted.name)
    one = _plan(wanted)
    if _state(wanted.name) is not None:
        raise UsageError(
            f"a network is already up on the lab {wanted.name}",
            remedy=f"remove it with `tare network down --name {wanted.name}`, or choose another lab with --name",
        )
    become_root()
    if wanted.foreground:
        _attended(wanted, one)
        return 0
    return _left_up(wanted)


def _plan(wanted: NetworkOptions) -> Plan:
    """Return a plan of the one environment; raise `UsageError` if it cannot run here."""
    environment = study.environment(f"{wanted.runtime}+{wanted.network}")
    runtime, placement = RUNTIMES[environment.runtime], Placement(nodes=wanted.nodes)
    reason = (
        composition.refuse(environment, placement) or runtime.probe() or find(environment.network).probe()
        if not runtime.is_fake
        else "the fake runtime has no network to try"
    )
    if reason:
        raise RefusedError(reason)
    stated = Study(
        name="network",
        cluster="lab",
        lab=LabSpec(nodes=wanted.nodes, oversubscribe=True),
        baseline=environment.name,
        environments=(environment,),
        placements=(placement,),
        workloads=(Workload(name="none", command=("true",)),),
        self_comparison=False,
    )
    return cells.expand(stated, lambda *_: None)


def _left_up(wanted: NetworkOptions) -> int:
    """Start a process that keeps the network, and wait until it reports that the network is up."""
    folder = made_run_folder() / f"{wanted.name}-network"
    folder.mkdir(exist_ok=True)
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    options = ("--nodes", str(wanted.nodes), "--runtime", wanted.runtime, "--name", wanted.name, "--foreground")
    try:
        said = lab_state.start_keeper(("network", "up", wanted.network, *options), log, folder / STATE)
        if said is not None:
            raise InfrastructureError(f"the network did not come up: {said}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        shown = log.read_text(errors="replace") if log.exists() else ""
        log.unlink(missing_ok=True)
    print(shown, end="")
    return 0


def _attended(wanted: NetworkOptions, one: Plan) -> None:
    """Keep the network until a signal arrives or its pods have ended (`tare clean` removes them)."""
    with _kept(wanted, one) as up, _noted(wanted, up):
        for line in report(wanted, up):
            print(line, flush=True)
        _ready(wanted)
        try:
            while up.ended() is None:
                time.sleep(0.5)
        except KeyboardInterrupt:
            pass
        print(f"the network on the lab {wanted.name} is being removed", flush=True)


@contextmanager
def _kept(wanted: NetworkOptions, one: Plan) -> Iterator[Deployed]:
    (cell,) = one.cells
    # Without an image there is nothing to build: only packets are sent, and no program is measured.
    files = Files(host_prefix=Path("/"))
    if cell.environment.image:
        files = study_files.make_files(one, say, measured=False).of(cell.environment)
    with session.one_up(one, files, name=wanted.name, say=say, site=_site(wanted, one, files)) as (_, _, up):
        yield up


def _site(wanted: NetworkOptions, one: Plan, files: Files) -> Site | None:
    """Return the lab of that name if it is up; otherwise it is started for as long as the network is up."""
    made, required = lab_state.lab_that_is_up(wanted.name), needs(one)
    if made is None:
        return None
    if len(made.nodes) < wanted.nodes or len(made.nodes[0].nics) < required.nics:
        raise UsageError(
            f"the lab {wanted.name} is too small for this network",
            remedy=f"start a lab with `tare lab up --nodes {wanted.nodes} --nics {required.nics}`, "
            "or choose another with --name",
        )
    if required.docker and not made.nodes[0].docker_socket:
        raise UsageError(
            f"the lab {wanted.name} has no Docker daemons",
            remedy="start a lab with `tare lab up --docker`, or choose another with --name",
        )
    folder = made_run_folder() / f"{wanted.name}-network"
    folder.mkdir(exist_ok=True)
    site = LabSite(name=made.name, lab=made, nodes=made.nodes, daemon_nodes=made.nodes, folder=folder)
    study_files.import_images(site, [files])
    return site


@contextmanager
def _noted(wanted: NetworkOptions, up: Deployed) -> Iterator[None]:
    """Record which network is up and which process keeps it, for the other commands."""
    folder = made_run_folder() / f"{wanted.name}-network"
    folder.mkdir(exist_ok=True)
    write_note(folder, wanted.name, cgroups=bases())
    state = {**owner(), "network": wanted.network, "runtime": wanted.runtime, "pods": [_pod(pod) for pod in up.pods]}
    (folder / f"{STATE}.new").write_text(json.dumps(state))
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ready(wanted: NetworkOptions) -> None:
    folder = run_folder() / f"{wanted.name}-network"
    (folder / f"{STATE}.new").rename(folder / STATE)


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "name": pod.node.name,
        "runtime": pod.runtime,
        "pid": pod.pid,
        "enter": list(pod.enter),
        "address": pod.endpoint.address,
        "interface": pod.endpoint.interface,
        "mtu": pod.endpoint.mtu,
    }


def report(wanted: NetworkOptions, up: Deployed) -> list[str]:
    """Return the lines about a network that is up: its pods, whether they reach each other, and how to enter them."""
    product = find(up.environment.network).product
    lines = [f"network {wanted.network} on the lab {wanted.name}: {product}"]
    for pod in up.pods:
        at = f"{pod.endpoint.interface} {pod.endpoint.address}/{pod.endpoint.prefix}"
        lines.append(f"  {pod.node.name}  {at}  MTU {pod.endpoint.mtu}  pod {pod.name}")
    lines += [f"  {line}" for line in heard(up.pods)]
    named = "" if wanted.name == "net" else f" --name {wanted.name}"
    first = up.pods[0].node.name
    return [*lines, f"enter: tare network exec{named} {first} -- ip address", f"end:   tare network down{named}"]


def heard(pods: Sequence[Pod]) -> Iterator[str]:
    """Yield the replies that the first pod gets from each other: to small packets, and to one that fills the MTU."""
    first = pods[0]
    for other in pods[1:]:
        target, mtu = other.endpoint.address, min(first.endpoint.mtu, other.endpoint.mtu)
        trips = ping(first.pid, target, count=5, source=first.endpoint.address)
        full_packet = ping(first.pid, target, count=1, packet_bytes=mtu, source=first.endpoint.address)
        round_trip = f", {1e6 * median(trips):.0f} us" if trips else ""
        passed = "passes whole" if full_packet else "does not pass"
        names = f"{first.node.name} -> {other.node.name}"
        yield f"{names}: {len(trips)} of 5 echoes{round_trip}; a packet of {mtu} bytes {passed}"


# --- exec, down -----------------------------------------------------------------------------------------------------


def network_exec(name: str, node: str, command: Sequence[str]) -> None:
    """Replace this process by a command in the pod on a node."""
    command = lab_commands.command_after_node(command, "tare network exec")
    state = _needed(name)
    pod = next((pod for pod in state["pods"] if pod["name"] == node), None)
    if pod is None:
        names = ", ".join(pod["name"] for pod in state["pods"])
        raise UsageError(f"the network on the lab {name} has no pod on {node}", remedy=f"its nodes: {names}")
    process.replace((*(enter(pod["pid"]) if pod["runtime"] == "bare" else pod["enter"]), *command))


def network_down(name: str) -> None:
    """Remove a network, and the lab if it was started for it."""
    state = _needed(name)
    if not lab_state.end_keeper(state, DOWN_LIMIT_S):
        raise InfrastructureError(
            f"the network on the lab {name} was not removed within {DOWN_LIMIT_S:g} s",
            remedy="remove it with `tare clean`",
        )
    print(f"the network on the lab {name} is down")


def _needed(name: str) -> dict[str, Any]:
    lab_state.check_name(name)
    state = _state(name)
    if state is None:
        raise UsageError(f"no network is up on the lab {name}", remedy="start one with `tare network up NETWORK`")
    return state


def _state(name: str) -> dict[str, Any] | None:
    """Return the record of a network that is up, or None if there is none or its process has ended."""
    return lab_state.noted(run_folder() / f"{name}-network" / STATE)
