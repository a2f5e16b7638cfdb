"""Cilium: its config map says whether packets are tunnelled. Before version 1.14, one key had mode and protocol."""

from __future__ import annotations

import re
from typing import Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Details, Product, Seen
from tare.kubernetes.pod_networks.objects import config_of, interface, is_true, mtu_of, text

CONFIG: Final = "cilium-config"
PROTOCOLS: Final = {"vxlan": model.VXLAN, "geneve": model.GENEVE}
NATIVE: Final = frozenset({"native", "disabled"})
DEVICES: Final = ((r"cilium_vxlan", model.VXLAN), (r"cilium_geneve", model.GENEVE))
ENCRYPTION: Final = (("enable-wireguard", model.WIREGUARD), ("enable-ipsec", model.IPSEC))


def details(seen: Seen) -> Details:
    """Return what Cilium's settings and devices say."""
    settings = {key: text(value) for key, value in config_of(seen, CONFIG).items()}
    encapsulation, evidence = _encapsulation(settings, seen)
    encryption = ""
    for key, name in ENCRYPTION:
        if is_true(settings.get(key, "")):
            encryption, evidence = name, (*evidence, f"config map {CONFIG}: {key}")
    mtu = mtu_of(settings.get("mtu"))
    if mtu:
        evidence = (*evidence, f"config map {CONFIG}: mtu {mtu}")
    return Details(encapsulation=encapsulation, encryption=encryption, mtu=mtu, evidence=evidence)


def _encapsulation(settings: dict[str, str], seen: Seen) -> tuple[str, tuple[str, ...]]:
    mode, protocol = settings.get("routing-mode", "").lower(), settings.get("tunnel-protocol", "").lower()
    older = settings.get("tunnel", "").lower()
    if mode in NATIVE or older in NATIVE:
        key = f"routing-mode {mode}" if mode else f"tunnel {older}"
        return model.NONE, (f"config map {CONFIG}: {key}",)
    if stated := protocol or older:
        return PROTOCOLS.get(stated, ""), (
            f"config map {CONFIG}: {'tunnel-protocol' if protocol else 'tunnel'} {stated}",
        )
    for pattern, encapsulation in DEVICES:
        if found := interface(seen.node_interfaces, pattern):
            return encapsulation, (f"the node has the device {found.name}",)
    if settings and (not mode or mode == "tunnel"):
        return model.VXLAN, (f"config map {CONFIG} states no protocol, which means VXLAN",)
    return "", ()


PRODUCT: Final = Product(
    name="Cilium",
    images=re.compile(r"(?:.*/)?cilium(?:-ci)?"),
    workloads=re.compile(r"cilium(?:-\w{5})?"),
    details=details,
    node_annotations=("network.cilium.io/", "io.cilium.network."),
    condition="CiliumIsUp",
    interfaces=re.compile(r"cilium_\w+|lxc[0-9a-f]{12}"),
    config_maps=(CONFIG,),
    namespaces=("kube-system", "cilium"),
)
