"""`tare network`: try a network by hand, a pod on each node of a lab, and list the networks there are.

What wires the pods must live as long as they do: a process of tare keeps them, and `tare network down` ends it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tare import study
from tare.cli import lab_commands
from tare.cluster import CLUSTERS, Site, clean
from tare.cluster.lab_site import LabSite
from tare.containers.held import enter
from tare.deploy import study_files
from tare.deploy.hosts import Deployed
from tare.deploy.pods import deployed
from tare.errors import InfrastructureError, RefusedError, UsageError
from tare.host import process
from tare.host.paths import made_run_folder, run_folder
from tare.host.ping import ping
from tare.host.user_namespace import become_root
from tare.images import DEFAULT
from tare.model import Environment, LabSpec, Placement, Plan, Study, Workload
from tare.networks import NETWORKS, Network, Wiring, find
from tare.node.cgroups import bases
from tare.node.owners import lives, owner
from tare.node_service.order import Files
from tare.node_service.sides import Side
from tare.plan import cells, composition
from tare.run import runner
from tare.runtimes import RUNTIMES
from tare.wiring.conflist import PREFIX, VARIABLES

STATE: Final = "network.json"
UP_LIMIT_S: Final = 300.0
DOWN_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `tare network up` is asked for; `name` is that of a lab that is up, or of the one that is made."""

    network: str
    runtime: str = "bare"
    nodes: int = 2
    name: str = "net"
    foreground: bool = False


# --- list -----------------------------------------------------------------------------------------------------------


def network_list() -> None:
    """Print every network: whether it can be used here, what of it is the product itself, and what it needs."""
    for name, network in NETWORKS.items():
        if not network.is_fake:
            print("\n".join(described(name, network)))
    print(f"{PREFIX}PATH\n    any CNI configuration of yours, with variables ${{{'}, ${'.join(VARIABLES)}}}")


def described(name: str, network: Network) -> list[str]:
    """Return the lines on one network."""
    reason = network.probe()
    state = f"unavailable: {reason}" if reason else "available"
    return [f"{name}: {state}", f"    is     {network.product}", f"    needs  {needs_of(name, network)}"]


def needs_of(name: str, network: Network) -> str:
    """Return what a network needs of nodes and runtimes, in words."""
    real = [name for name, runtime in RUNTIMES.items() if not runtime.is_fake]
    serves = {nodes: [r for r in real if _refused(r, name, nodes) is None] for nodes in (1, 2)}
    most = serves[2] or serves[1]
    nic = {
        Wiring.OWN: "a data NIC of its own" if network.owns_nic else "no data NIC of its own",
        Wiring.NODE: "the data NIC of its node, shared",
        Wiring.DOCKER: "a Docker daemon a node",
    }[network.wiring]
    runtimes = "any runtime" if most == real else f"a runtime of {', '.join(most)}"
    nodes = "" if serves[1] and serves[2] else "; two nodes at least" if serves[2] else "; one node only"
    return f"{nic}; {runtimes}{nodes}"


def _refused(runtime: str, network: str, nodes: int) -> str | None:
    image = DEFAULT if RUNTIMES[runtime].needs_image else ""
    wanted = Environment(name="it", runtime=runtime, network=network, image=image)
    return composition.refuse(wanted, Placement(nodes=nodes))


# --- up -------------------------------------------------------------------------------------------------------------


def network_up(wanted: Wanted) -> int:
    """Bring a network up and leave it up, or, in the foreground, until Ctrl-C; return the exit code."""
    lab_commands.check_name(wanted.name)
    one = _plan(wanted)
    if _state(wanted.name) is not None:
        raise UsageError(
            f"a network is up on the lab {wanted.name} already",
            remedy=f"tare network down --name {wanted.name}, or choose another name",
        )
    become_root()
    if wanted.foreground:
        _attended(wanted, one)
        return 0
    return _left_up(wanted)


def _plan(wanted: Wanted) -> Plan:
    """Return a plan of the one environment; raise `UsageError` where it cannot be."""
    it = study.environment(f"{wanted.runtime}+{wanted.network}")
    placement = Placement(nodes=wanted.nodes)
    reason = (
        composition.refuse(it, placement) or RUNTIMES[it.runtime].probe() or find(it.network).probe()
        if not RUNTIMES[it.runtime].is_fake
        else "the fake runtime wires nothing"
    )
    if reason:
        raise RefusedError(reason)
    stated = Study(
        name="network",
        cluster="lab",
        lab=LabSpec(nodes=wanted.nodes, oversubscribe=True),
        baseline=it.name,
        environments=(it,),
        placements=(placement,),
        workloads=(Workload(name="none", command=("true",)),),
        self_comparison=False,
    )
    return cells.expand(stated, lambda *_: None)


def _left_up(wanted: Wanted) -> int:
    """Start a process that keeps the network, and wait until it says that it is up."""
    folder = made_run_folder() / f"{wanted.name}-network"
    folder.mkdir(exist_ok=True)
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    options = ("--nodes", str(wanted.nodes), "--runtime", wanted.runtime, "--name", wanted.name, "--foreground")
    keeper = process.start((sys.executable, "-m", "tare.cli.app", "network", "up", wanted.network, *options), log=log)
    try:
        until = time.monotonic() + UP_LIMIT_S
        while _state(wanted.name) is None:
            if keeper.poll() is not None or time.monotonic() > until:
                raise InfrastructureError(f"the network did not come up: {_said(log)}")
            time.sleep(0.05)
    except BaseException:
        process.end(keeper, grace_s=DOWN_LIMIT_S)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        shown = log.read_text(errors="replace") if log.exists() else ""
        log.unlink(missing_ok=True)
    print(shown, end="")
    return 0


def _said(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return text.strip()[-1500:].removeprefix("tare: ") or "it said nothing"


def _attended(wanted: Wanted, one: Plan) -> None:
    """Keep the network until a signal comes, or its pods are gone (`tare clean` removes them)."""
    clean.leftovers_of_the_dead(_say)
    with _kept(wanted, one) as up, _noted(wanted, up):
        for line in report(wanted, up):
            print(line, flush=True)
        _ready(wanted)
        try:
            while up.ended() is None:
                time.sleep(0.5)
        except KeyboardInterrupt:
            pass
        print(f"the network on the lab {wanted.name} is taken down", flush=True)


@contextmanager
def _kept(wanted: Wanted, one: Plan) -> Iterator[Deployed]:
    (cell,) = one.cells
    # Without an image there is nothing to build: what is measured here is whether packets pass.
    files = Files(host_prefix=Path("/"))
    if cell.environment.image:
        files = study_files.make_files(one, _say, measured=False).of(cell.environment)
    slots = composition.nic_slots([(cell.environment, cell.placement)])
    nic = slots[cell.environment, cell.placement]
    with ExitStack() as stack:
        site = stack.enter_context(_site(wanted, one, files, nics=nic + 1))
        up = stack.enter_context(deployed(site, cell.environment, cell.placement, slot=0, nic=nic, files=files))
        site.settle()
        up.wait_for_carriers()
        yield up


@contextmanager
def _site(wanted: Wanted, one: Plan, files: Files, nics: int) -> Iterator[Site]:
    """Use the lab of the name, if it is up, or make it for as long as the network lasts."""
    needs = runner.needs(one, files.seen_by_nodes)
    made = lab_commands.lab_that_is_up(wanted.name)
    with ExitStack() as stack:
        site: Site
        if made is None:
            site = stack.enter_context(CLUSTERS["lab"].open(wanted.name, one.study.lab, needs))
        else:
            if len(made.nodes) < wanted.nodes or len(made.nodes[0].nics) < nics:
                raise UsageError(
                    f"the lab {wanted.name} is too small for it",
                    remedy=f"tare lab up --nodes {wanted.nodes} --nics {nics}, or another --name",
                )
            if needs.docker and not made.nodes[0].docker_socket:
                raise UsageError(f"the lab {wanted.name} has no Docker", remedy="tare lab up --docker")
            folder = made_run_folder() / f"{wanted.name}-network"
            folder.mkdir(exist_ok=True)
            site = LabSite(name=made.name, lab=made, nodes=made.nodes, daemon_nodes=made.nodes, folder=folder)
        study_files.import_images(site, [files])
        yield site


@contextmanager
def _noted(wanted: Wanted, up: Deployed) -> Iterator[None]:
    """Keep a note of what is up and who keeps it, for the other commands."""
    folder = made_run_folder() / f"{wanted.name}-network"
    folder.mkdir(exist_ok=True)
    (folder / "owner.json").write_text(json.dumps({"lab": wanted.name, **owner(), "cgroups": bases()}))
    state = {**owner(), "network": wanted.network, "runtime": wanted.runtime, "pods": [_pod(side) for side in up.sides]}
    (folder / f"{STATE}.new").write_text(json.dumps(state))
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ready(wanted: Wanted) -> None:
    folder = run_folder() / f"{wanted.name}-network"
    (folder / f"{STATE}.new").rename(folder / STATE)


def _pod(side: Side) -> dict[str, Any]:
    return {
        "name": side.pod.node.name,
        "runtime": side.pod.runtime,
        "pid": side.pod.pid,
        "enter": list(side.pod.enter),
        "address": side.endpoint.address,
        "interface": side.endpoint.interface,
        "mtu": side.endpoint.mtu,
    }


def report(wanted: Wanted, up: Deployed) -> list[str]:
    """Return what is told of a network that is up: its pods, how to enter them, and what they hear of each other."""
    product = find(up.environment.network).product
    lines = [f"network {wanted.network} on the lab {wanted.name}: {product}"]
    for side in up.sides:
        at = f"{side.endpoint.interface} {side.endpoint.address}/{side.endpoint.prefix}"
        lines.append(f"  {side.pod.node.name}  {at}  MTU {side.endpoint.mtu}  pod {side.pod.name}")
    lines += [f"  {line}" for line in heard(up.sides)]
    named = "" if wanted.name == "net" else f" --name {wanted.name}"
    first = up.sides[0].pod.node.name
    return [*lines, f"enter: tare network exec{named} {first} -- ip address", f"end:   tare network down{named}"]


def heard(sides: Sequence[Side]) -> Iterator[str]:
    """Yield what the first pod hears of each of the others: small packets, and one that fills the MTU."""
    first = sides[0]
    for other in sides[1:]:
        target, mtu = other.endpoint.address, min(first.endpoint.mtu, other.endpoint.mtu)
        trips = ping(first.pod.pid, target, count=5, source=first.endpoint.address)
        whole = ping(first.pod.pid, target, count=1, packet_bytes=mtu, source=first.endpoint.address)
        took = f", {1e6 * median(trips):.0f} us" if trips else ""
        passed = "passes whole" if whole else "does not pass"
        names = f"{first.pod.node.name} -> {other.pod.node.name}"
        yield f"{names}: {len(trips)} of 5 echoes{took}; a packet of {mtu} bytes {passed}"


# --- exec, down -----------------------------------------------------------------------------------------------------


def network_exec(name: str, node: str, command: Sequence[str]) -> None:
    """Become a command in the pod on a node."""
    state = _needed(name)
    pod = next((pod for pod in state["pods"] if pod["name"] == node), None)
    if pod is None:
        names = ", ".join(pod["name"] for pod in state["pods"])
        raise UsageError(f"the network on the lab {name} has no pod on {node}", remedy=f"its nodes: {names}")
    command = lab_commands.without_dashes(command)
    process.replace((*(enter(pod["pid"]) if pod["runtime"] == "bare" else pod["enter"]), *command))


def network_down(name: str) -> None:
    """Take a network down, with the lab that was made for it."""
    state = _needed(name)
    os.kill(state["pid"], signal.SIGTERM)
    until = time.monotonic() + DOWN_LIMIT_S
    while lives(state):
        if time.monotonic() > until:
            raise InfrastructureError(
                f"the network on the lab {name} is not down after {DOWN_LIMIT_S:g} s", remedy="tare clean removes it"
            )
        time.sleep(0.02)
    print(f"the network on the lab {name} is down")


def _needed(name: str) -> dict[str, Any]:
    lab_commands.check_name(name)
    state = _state(name)
    if state is None:
        raise UsageError(f"no network is up on a lab {name}", remedy="tare network up NETWORK makes one")
    return state


def _state(name: str) -> dict[str, Any] | None:
    """Return the note of a network that is up, None where there is none or its keeper has ended."""
    try:
        state: dict[str, Any] = json.loads((run_folder() / f"{name}-network" / STATE).read_text())
        return state if lives(state) else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
