"""`canal`: flannel's VXLAN with Calico's policy in the path of every pod.

flanneld and its data path are the product; Calico's part is rebuilt. The rules that Calico's Felix programs for
workloads that may talk to everybody are nftables rules of the same structure here: each pod's veth is routed by the
node and not bridged, a dispatch by interface leads to the pod's own pair of chains, connections are looked up in
conntrack, then the profile's chain marks packets as accepted, in the order of Felix's iptables chains (filter, mangle,
raw).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tare.daemons.daemons import Place
from tare.networks.flannel import Flannel, peer_of, probe_programs
from tare.networks.wiring.plug import POD_INTERFACE, probe_cni
from tare.system.node import Pod
from tare.system.packages import install
from tare.system.process import find, need, run

PROFILE: Final = "cali-pro-default"
ACCEPTED: Final = "0x00010000"
CLEARED: Final = "0xfffeffff"
FROM_WORKLOAD: Final = "0x00040000"
LEFT: Final = "0xfffbffff"
VXLAN_PORT: Final = 4789
IP_IN_IP: Final = 4


class Canal(Flannel):
    """Wire a pod through flannel's VXLAN and chains like Calico's."""

    needs_root = True
    plug_in_type: ClassVar[Mapping[str, Any]] = {"type": "ptp"}
    """A veth that the node routes to, like Calico's."""

    def __init__(self) -> None:
        super().__init__(
            "canal", "vxlan", "flannel itself, its vxlan; Calico's routed veth and policy chains are rebuilt"
        )

    def probe(self) -> str | None:
        if find("nft") is None:
            return f"nft is not installed: {install('nftables')}"
        return probe_cni("ptp", "static") or probe_programs(self.backend)

    def guard(self, place: Place, pod: Pod) -> None:
        """Install a pod's chains in its path; those of the node's other pods are kept."""
        known = place.path("workloads")
        workloads = [*(known.read_text().split() if known.exists() else ()), peer_of(pod.pid, POD_INTERFACE, place)]
        known.write_text("\n".join(workloads))
        run(
            ("nsenter", f"--net=/proc/{place.pid}/ns/net", "--", need("nft", package="nftables"), "-f", "-"),
            stdin=rules(workloads),
            what=f"writing the policy of {pod.name} on {pod.node.name}",
        )


def rules(workloads: Sequence[str]) -> str:
    """Return the whole table for the pods behind these interfaces; it replaces the previous one."""
    chains = "".join(_workload(name) for name in workloads)
    leaving = "".join(f'    iifname "{name}" goto cali-fw-{name}\n' for name in workloads)
    coming = "".join(f'    oifname "{name}" goto cali-tw-{name}\n' for name in workloads)
    listed = ", ".join(f'"{name}"' for name in workloads)
    return f"""table ip calico
delete table ip calico
table ip calico {{
  set workloads {{
    type ifname
    elements = {{ {listed} }}
  }}
  chain raw-PREROUTING {{
    type filter hook prerouting priority raw; policy accept;
    jump cali-PREROUTING
  }}
  chain cali-PREROUTING {{
    meta mark set meta mark & {CLEARED}
    meta mark set meta mark & {LEFT}
    iifname @workloads meta mark set meta mark | {FROM_WORKLOAD}
    meta mark & {FROM_WORKLOAD} == {FROM_WORKLOAD} fib saddr . mark . iif oif missing drop
    meta mark & {ACCEPTED} == {ACCEPTED} accept
  }}
  chain mangle-PREROUTING {{
    type filter hook prerouting priority mangle; policy accept;
    ct state established,related accept
    meta mark & {ACCEPTED} == {ACCEPTED} accept
  }}
  chain FORWARD {{
    type filter hook forward priority filter; policy accept;
    jump cali-FORWARD
    meta mark & {ACCEPTED} == {ACCEPTED} accept
  }}
  chain cali-FORWARD {{
    meta mark set meta mark & {CLEARED}
    iifname @workloads jump cali-from-wl-dispatch
    oifname @workloads jump cali-to-wl-dispatch
  }}
  chain {PROFILE} {{
    meta mark set meta mark | {ACCEPTED}
    meta mark & {ACCEPTED} == {ACCEPTED} return
  }}
{chains}  chain cali-from-wl-dispatch {{
{leaving}    drop
  }}
  chain cali-to-wl-dispatch {{
{coming}    drop
  }}
}}
"""


def _workload(name: str) -> str:
    """Return the two chains of one pod: for its egress and its ingress."""
    either = f"""    ct state established,related accept
    ct state invalid drop
    meta mark set meta mark & {CLEARED}
"""
    profile = f"""    jump {PROFILE}
    meta mark & {ACCEPTED} == {ACCEPTED} return
    drop
"""
    return f"""  chain cali-fw-{name} {{
{either}    udp dport {VXLAN_PORT} drop
    ip protocol {IP_IN_IP} drop
{profile}  }}
  chain cali-tw-{name} {{
{either}{profile}  }}
"""
