"""Antrea: the agent's settings say whether packets are tunnelled, and how. A line commented out is a default."""

from __future__ import annotations

import re
from typing import Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Details, Product, Seen
from tare.kubernetes.pod_networks.objects import config_of, interface, mtu_of, setting

CONFIG: Final = r"antrea-config(-\w+)?"
SETTINGS: Final = "antrea-agent.conf"
TUNNELS: Final = {"": model.GENEVE, "geneve": model.GENEVE, "vxlan": model.VXLAN, "gre": model.GRE, "stt": model.STT}
MODES: Final = {"": True, "encap": True, "hybrid": True, "noencap": False}
ENCRYPTION: Final = {"wireguard": model.WIREGUARD, "ipsec": model.IPSEC}
DEVICES: Final = ((r"genev_sys_\d+", model.GENEVE), (r"vxlan_sys_\d+", model.VXLAN), (r"gre_sys", model.GRE))


def details(seen: Seen) -> Details:
    """Return what Antrea's settings and devices say."""
    config = config_of(seen, CONFIG).get(SETTINGS)
    if config is None:
        return _from_devices(seen)
    mode, tunnel = setting(config, "trafficEncapMode").lower(), setting(config, "tunnelType").lower()
    encryption = ENCRYPTION.get(setting(config, "trafficEncryptionMode").lower(), "")
    mtu = mtu_of(setting(config, "defaultMTU"))
    encapsulation = (TUNNELS.get(tunnel, "") if MODES[mode] else model.NONE) if mode in MODES else ""
    if encryption == model.WIREGUARD and encapsulation not in ("", model.NONE):
        encapsulation = model.WIREGUARD
    evidence = [f"{SETTINGS}: trafficEncapMode {mode or 'by default encap'}"]
    if encapsulation not in ("", model.NONE, model.WIREGUARD):
        evidence += [f"{SETTINGS}: tunnelType {tunnel or 'by default geneve'}"]
    if encryption:
        evidence += [f"{SETTINGS}: trafficEncryptionMode {encryption}"]
    if mtu:
        evidence += [f"{SETTINGS}: defaultMTU {mtu}"]
    return Details(
        encapsulation=encapsulation,
        between_subnets_only=mode == "hybrid",
        encryption=encryption,
        mtu=mtu,
        evidence=tuple(evidence),
    )


def _from_devices(seen: Seen) -> Details:
    for pattern, encapsulation in DEVICES:
        if found := interface(seen.node_interfaces, pattern):
            return Details(encapsulation=encapsulation, evidence=(f"the node has the device {found.name}",))
    return Details()


PRODUCT: Final = Product(
    name="Antrea",
    images=re.compile(r"(?:.*/)?antrea(?:-agent)?(?:-ubuntu|-ubi)?"),
    workloads=re.compile(r"antrea-agent(?:-\w{5})?"),
    details=details,
    node_annotations=("node.antrea.io/",),
    interfaces=re.compile(r"antrea-(?:gw|tun|wg|egress)\d"),
    config_maps=("antrea-config",),
)
