"""Configure an environment's NIC and its pods' interfaces as its study says, and restore everything.

Settings are applied where the packets pass: MTU, offloads and RPS on the NIC and on the pod's interface; rate and delay
on the NIC (on the pod's interface if that is the NIC); connection tracking in the pod's network namespace; and
br_netfilter on the one bridge that the pod is a port of, so that other environments keep their settings. The result is
read back and recorded. Argvs and rules are made by pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.errors import CommandFailed, InfrastructureError
from tare.model import Link, Tracking
from tare.system.namespaces import index_of, netlink
from tare.system.node import Endpoint, Nic, Node, Pod
from tare.system.packages import install
from tare.system.process import find, need, run
from tare.system.user_namespace import is_real_root

FEATURES: Final = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "sg": "scatter-gather",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
}
"""Offloads by their `ethtool -K` keywords, with their names in the output of `ethtool -k`."""

TABLE: Final = "tare"
BURST_S: Final = 0.001
LEAST_BURST_BYTES: Final = 128 * 1024
PACKET_BYTES: Final = 1514
"""The size of a full packet of Ethernet, in which the length of a queue is counted."""
WITH_SYS: Final = ("unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c")
SET_RPS: Final = (
    'mount -t sysfs tare /sys && for queue in /sys/class/net/"$0"/queues/rx-*; do '
    'cat "$queue/rps_cpus" && echo "$1" >"$queue/rps_cpus"; done'
)
"""Which interfaces /sys shows depends on who mounted it. Prints the mask of each queue before setting it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetnsInterface:
    """An interface in a process's network namespace."""

    pid: int
    interface: str

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the argv prefix that enters the network namespace."""
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")


# --- arguments of the programs: pure --------------------------------------------------------------------------------


def ethtool_words(offloads: Sequence[str]) -> tuple[str, ...]:
    """Return the `ethtool -K` arguments for offloads such as `tso=off`."""
    return tuple(word for setting in offloads for word in setting.split("="))


def qdiscs(link: Link, interface: str) -> tuple[tuple[str, ...], ...]:
    """Return the tc commands for a link's delay and rate on an interface: the delay first, as on a wire."""
    begin = ("tc", "qdisc", "add", "dev", interface)
    commands: list[tuple[str, ...]] = []
    if link.delay_s:
        commands.append((*begin, "root", "handle", "1:", "netem", "delay", f"{link.delay_s * 1e6:.12g}us"))
    if link.rate_bps:
        at = ("parent", "1:", "handle", "2:") if link.delay_s else ("root", "handle", "1:")
        burst = max(int(link.rate_bps / 8 * BURST_S), LEAST_BURST_BYTES)
        waits = ("limit", str(link.queue * PACKET_BYTES)) if link.queue else ("latency", "50ms")
        commands.append((*begin, *at, "tbf", "rate", f"{link.rate_bps}bit", "burst", str(burst), *waits))
    return tuple(commands)


def rules(tracking: Tracking, interface: str) -> str:
    """Return the nft rules that track a pod's connections, or exempt those over its interface from tracking.

    In both cases the same rule matches each packet's state, so that only the tracking differs.
    """
    every = "ct state established,related,new,invalid,untracked counter accept"
    chains = [
        f'chain in {{ type filter hook input priority 0; iifname "{interface}" {every}; }}',
        f'chain out {{ type filter hook output priority 0; oifname "{interface}" {every}; }}',
    ]
    if tracking is Tracking.NOTRACK:
        chains += [
            f'chain rawin {{ type filter hook prerouting priority -300; iifname "{interface}" counter notrack; }}',
            f'chain rawout {{ type filter hook output priority -300; oifname "{interface}" counter notrack; }}',
        ]
    return "\n".join([f"table inet {TABLE} {{", *chains, "}", ""])


def mask_of(cores: Sequence[int]) -> str:
    """Return the mask of cores as /sys writes it: groups of 32 in hexadecimal, the last cores first."""
    value = sum(1 << core for core in set(cores))
    groups = [f"{value & 0xFFFFFFFF:x}"]
    while value := value >> 32:
        groups = [f"{value & 0xFFFFFFFF:x}", f"{int(groups[0], 16):08x}", *groups[1:]]
    return ",".join(groups)


def features(text: str) -> dict[str, str]:
    """Return the offloads in the output of `ethtool -k`, by short name: `on` or `off`, with `[fixed]` if it says so."""
    states = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    return {word: states[name] for word, name in FEATURES.items() if name in states}


# --- is it supported? ------------------------------------------------------------------------------------------------


def probe(link: Link) -> str | None:
    """Return why this machine does not support a link's settings, or None; tested in a namespace that ends at once."""
    programs = (
        (link.offloads, "ethtool", "ethtool"),
        (link.rate_bps or link.delay_s, "tc", "iproute2"),
        (link.conntrack, "nft", "nftables"),
    )
    for wanted, program, package in programs:
        if wanted and find(program) is None:
            return f"link: needs {program}, which is not installed: {install(package)}"
    if link.br_netfilter and not Path("/proc/sys/net/bridge").exists():
        return "link: br_netfilter needs the kernel module of that name, which is not loaded: modprobe br_netfilter"
    if link.rps and not Path("/sys/class/net/lo/queues/rx-0/rps_cpus").exists():
        return "link: rps is not supported by this kernel (CONFIG_RPS)"
    if link.delay_s and not _kernel_takes(("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")):
        return "link: delay is not supported by this kernel (sch_netem; docs/networks.md)"
    if link.rate_bps and not _kernel_takes(qdiscs(Link(rate_bps=10**9), "lo")[0]):
        return "link: rate is not supported by this kernel (sch_tbf)"
    if link.conntrack and not _kernel_takes(("nft", "-f", "-"), rules(Tracking.NOTRACK, "lo")):
        return "link: conntrack needs nf_tables and nf_conntrack, which this kernel lacks or denies"
    return None


def _kernel_takes(argv: tuple[str, ...], stdin: str | None = None) -> bool:
    key = (argv, stdin)
    if key not in _TAKEN:
        prefix = (
            ("unshare", "--net", "--") if is_real_root() else ("unshare", "--user", "--map-root-user", "--net", "--")
        )
        _TAKEN[key] = run((*prefix, *argv), check=False, timeout_s=20, stdin=stdin).status == 0
    return _TAKEN[key]


_TAKEN: Final[dict[tuple[tuple[str, ...], str | None], bool]] = {}


# --- setting it ---------------------------------------------------------------------------------------------------


@contextmanager
def nic_set(node: Node, nic: Nic, link: Link) -> Iterator[Nic]:
    """Keep a NIC at a link's MTU before a network is made on it, and yield the NIC with that MTU."""
    if not link.mtu:
        yield nic
        return
    place = NetnsInterface(pid=node.pid, interface=nic.name)
    _set_mtu(place, link.mtu)
    try:
        yield replace(nic, mtu=link.mtu)
    finally:
        with suppress(InfrastructureError, FileNotFoundError):
            _set_mtu(place, nic.mtu)


@contextmanager
def link_set(node: Node, nic: Nic, pod: Pod, endpoint: Endpoint, link: Link) -> Iterator[Endpoint]:
    """Keep a wired pod's interfaces configured as a link says; yield its endpoint with the settings in effect."""
    if not link:
        yield endpoint
        return
    here = NetnsInterface(pid=pod.pid, interface=endpoint.interface)
    home = where(node, nic, endpoint)
    on_node = NetnsInterface(pid=home.pid, interface=nic.name)
    places = (on_node, here) if pod.own_network and _is_there(on_node) else (here,)
    facts: dict[str, str] = {}
    with ExitStack() as stack:
        for place in places if pod.number == 0 else (here,):
            states = [f"mtu {_mtu(place)}"]
            states += stack.enter_context(_offloads(place, link.offloads))
            states += stack.enter_context(_rps(place, link.rps, node.cores))
            states += stack.enter_context(_shaped(place, link)) if place == places[0] else []
            facts[f"interface {place.interface}"] = ", ".join(states)
        facts |= stack.enter_context(_tracked(here, link.conntrack))
        if link.br_netfilter is not None:
            facts |= stack.enter_context(_filtered(home, here, link))
        yield replace(endpoint, facts={**endpoint.facts, **facts})


def where(node: Node, nic: Nic, endpoint: Endpoint) -> Node:
    """Return the node as seen from its NIC: its own stack, if the network moved the NIC there."""
    pids = (watch.pid for watch in endpoint.watches if watch.interface == nic.name)
    return replace(node, pid=next(pids, node.pid))


@contextmanager
def _offloads(place: NetnsInterface, wanted: Sequence[str]) -> Iterator[list[str]]:
    """Keep offloads on or off; yield their actual states. Raises `InfrastructureError` if one cannot be set."""
    if not wanted:
        yield []
        return
    ethtool = need("ethtool", package="ethtool")
    before = features(run((*place.enter, ethtool, "-k", place.interface)).stdout)
    run((*place.enter, ethtool, "-K", place.interface, *ethtool_words(wanted)), check=False)
    after = features(run((*place.enter, ethtool, "-k", place.interface)).stdout)
    asked = dict(setting.split("=") for setting in wanted)
    changed = [f"{word}={value}" for word, value in before.items() if after.get(word) != value and " " not in value]
    try:
        for word, value in asked.items():
            if after.get(word, "").split(" ")[0] != value:
                state = after.get(word, "missing")
                raise InfrastructureError(
                    f"{place.interface} cannot have {word} {value}: it is {state}",
                    remedy="remove it from link: offloads",
                )
        yield [f"{word} {after[word].split(' ')[0]}" for word in asked]
    finally:
        if changed and _is_there(place):
            run((*place.enter, ethtool, "-K", place.interface, *ethtool_words(changed)), check=False)


@contextmanager
def _rps(place: NetnsInterface, wanted: str, cores: Sequence[int]) -> Iterator[list[str]]:
    """Keep received packets spread over a node's cores (RPS), or over none."""
    if not wanted:
        yield []
        return
    mask = mask_of(cores) if wanted == "all" else "0"
    argv = (*place.enter, *WITH_SYS, SET_RPS, place.interface)
    before = run((*argv, mask), what=f"setting RPS of {place.interface}").stdout.split()
    try:
        yield [f"rps {mask}"]
    finally:
        if before and _is_there(place):
            run((*argv, before[0]), check=False)


@contextmanager
def _shaped(place: NetnsInterface, link: Link) -> Iterator[list[str]]:
    """Keep an interface's egress limited to a rate and delayed."""
    commands = qdiscs(link, place.interface)
    if not commands:
        yield []
        return
    try:
        for argv in commands:
            run((*place.enter, *argv), what=f"shaping {place.interface}")
        output = run((*place.enter, "tc", "qdisc", "show", "dev", place.interface)).stdout
        yield [" ".join(line.split()[1:2] + line.split()[4:]) for line in output.splitlines() if line]
    finally:
        if _is_there(place):
            run((*place.enter, "tc", "qdisc", "del", "dev", place.interface, "root"), check=False)


@contextmanager
def _tracked(place: NetnsInterface, tracking: Tracking) -> Iterator[dict[str, str]]:
    """Keep connection tracking of a pod on or off."""
    if tracking is Tracking.AS_IT_IS:
        yield {}
        return
    nft = need("nft", package="nftables")
    run((*place.enter, nft, "-f", "-"), stdin=rules(tracking, place.interface), what=f"tracking on {place.interface}")
    try:
        yield {"conntrack": f"{tracking.value} in the pod"}
    finally:
        if _is_there(place):
            run((*place.enter, nft, "delete", "table", "inet", TABLE), check=False)


@contextmanager
def _filtered(node: Node, place: NetnsInterface, link: Link) -> Iterator[dict[str, str]]:
    """Let the frames of the pod's bridge pass through the node's packet filter, or not."""
    bridge, before = bridge_of(node, place)
    try:
        _pass_netfilter(node, bridge, link.br_netfilter is True)
        yield {"br_netfilter": f"{'on' if link.br_netfilter else 'off'} for {bridge}"}
    finally:
        with suppress(InfrastructureError, FileNotFoundError):
            _pass_netfilter(node, bridge, before)


def bridge_of(node: Node, place: NetnsInterface) -> tuple[str, bool]:
    """Return the node's bridge that a pod's interface is connected to, and whether its frames pass packet filters."""
    with netlink(place.pid) as route:
        peer = route.get_links(index_of(route, place.interface))[0].get_attr("IFLA_LINK")
    with netlink(node.pid) as route:
        master = route.get_links(peer)[0].get_attr("IFLA_MASTER") if peer else None
        if not master:
            raise InfrastructureError(
                f"{place.interface} of the pod is not connected to a bridge on {node.name}",
                remedy="remove link: br_netfilter, or use the network bridge",
            )
        bridge = route.get_links(master)[0]
        options = bridge.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA")
        passes = options.get_attr("IFLA_BR_NF_CALL_IPTABLES") if options is not None else 0
        return str(bridge.get_attr("IFLA_IFNAME")), bool(passes)


def _pass_netfilter(node: Node, bridge: str, wanted: bool) -> None:
    with netlink(node.pid) as route:
        route.link("set", index=index_of(route, bridge), kind="bridge", br_nf_call_iptables=int(wanted))


def _set_mtu(place: NetnsInterface, mtu: int) -> None:
    argv = (*place.enter, "ip", "link", "set", "dev", place.interface, "mtu", str(mtu))
    try:
        run(argv, what=f"setting the MTU of {place.interface} to {mtu}")
    except CommandFailed as error:
        raise InfrastructureError(
            f"{place.interface} cannot have an MTU of {mtu}: {error.stderr_tail}", remedy="choose a smaller link: mtu"
        ) from error


def _mtu(place: NetnsInterface) -> int:
    with netlink(place.pid) as route:
        return int(route.get_links(index_of(route, place.interface))[0].get_attr("IFLA_MTU"))


def _is_there(place: NetnsInterface) -> bool:
    try:
        with netlink(place.pid) as route:
            return bool(route.link_lookup(ifname=place.interface))
    except FileNotFoundError:
        return False
