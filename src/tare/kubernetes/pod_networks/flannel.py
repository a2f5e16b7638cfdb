"""Flannel: each node says which backend it uses; the config map says more, such as DirectRouting."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Details, Product, Seen
from tare.kubernetes.pod_networks.objects import (
    annotations_of,
    at,
    config_of,
    interface,
    is_true,
    mtu_of,
    name_of,
    text,
)

OWN: Final = "flannel.alpha.coreos.com/"
CONFIG: Final = "kube-flannel-cfg"
SETTINGS: Final = "net-conf.json"
BACKENDS: Final[Mapping[str, tuple[str, str]]] = {
    "vxlan": (model.VXLAN, ""),
    "host-gw": (model.NONE, ""),
    "udp": (model.USER_UDP, ""),
    "wireguard": (model.WIREGUARD, model.WIREGUARD),
    "ipip": (model.IP_IN_IP, ""),
    "ipsec": (model.IPSEC, model.IPSEC),
    "alloc": (model.NONE, ""),
}
"""Encapsulation and encryption of each backend."""
DEVICES: Final = (
    (r"flannel\.\d+", "vxlan"),
    (r"flannel\d+", "udp"),
    (r"flannel-wg", "wireguard"),
    (r"flannel\.ipip", "ipip"),
)


def details(seen: Seen) -> Details:
    """Return what Flannel's settings, nodes and devices say."""
    settings, source = _settings(seen)
    backend, evidence = _backend(seen, settings, source)
    encapsulation, encryption = BACKENDS.get(backend, ("", ""))
    direct = is_true(text(at(settings, "Backend", "DirectRouting"))) and encapsulation in (model.VXLAN, model.IP_IN_IP)
    if direct:
        evidence = (*evidence, f"{source}: DirectRouting")
    mtu = mtu_of(at(settings, "Backend", "MTU"))
    if mtu:
        evidence = (*evidence, f"{source}: MTU {mtu} below, of which pods get what the encapsulation leaves")
    return Details(encapsulation=encapsulation, between_subnets_only=direct, encryption=encryption, evidence=evidence)


def _settings(seen: Seen) -> tuple[Any, str]:
    """Return Flannel's own settings and the name of the config map with them."""
    for name in (CONFIG, "canal-config", r".*flannel.*"):
        said = config_of(seen, name).get(SETTINGS)
        if said is None:
            continue
        try:
            return json.loads(said), f"{SETTINGS} of {'a config map' if '*' in name else name}"
        except (ValueError, RecursionError):
            continue
    return None, ""


def _backend(seen: Seen, settings: Any, source: str) -> tuple[str, tuple[str, ...]]:
    """Return the backend's name, and how it was told: by nodes, which use it, before settings, which may be newer."""
    by_node = {name_of(node): annotations_of(node).get(f"{OWN}backend-type", "") for node in seen.nodes}
    stated = {backend.lower() for backend in by_node.values() if backend}
    if len(stated) == 1:
        (backend,) = stated
        return backend, (f"the nodes state the backend {backend}",)
    if stated:
        return "", (f"the nodes state different backends: {', '.join(sorted(stated))}",)
    if backend := text(at(settings, "Backend", "Type")).lower():
        return backend, (f"{source} states the backend {backend}",)
    for pattern, backend in DEVICES:
        if found := interface(seen.node_interfaces, pattern):
            return backend, (f"the node has the device {found.name}",)
    return "", ()


PRODUCT: Final = Product(
    name="Flannel",
    images=re.compile(r"(?:.*/)?(?:mirrored-)?(?:flannel|flannelcni|coreos)?-?flannel"),
    workloads=re.compile(r"kube-flannel(?:-ds)?(?:-\w+)*"),
    details=details,
    node_annotations=(OWN,),
    condition="FlannelIsUp",
    interfaces=re.compile(r"flannel[.-]?\w+"),
    config_maps=(CONFIG,),
    namespaces=("kube-flannel", "kube-system"),
)
