"""Read what tells a cluster's pod network, as far as the user may; what may not be read is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tare.clusters.pods.api import Api, ApiError
from tare.clusters.pods.objects import at, members
from tare.clusters.pods.pod_networks.model import ClusterObjects, Product, RecognisedNetwork
from tare.clusters.pods.pod_networks.products import CALICO, PRODUCTS
from tare.clusters.pods.pod_networks.recognise import agents, candidates, own_agents, recognise

NODES: Final = "/api/v1/nodes"
DAEMON_SETS: Final = "/apis/apps/v1/{}daemonsets"
CONFIG_MAP: Final = "/api/v1/namespaces/{}/configmaps/{}"
IP_POOLS: Final = "/apis/crd.projectcalico.org/v1/ippools"
MOST: Final = "500"
"""The most objects of a kind that are read: the nodes of a cluster have one pod network."""


def pod_network(api: Api) -> RecognisedNetwork:
    """Return the pod network of a cluster."""
    asked = ClusterReader(api=api)
    seen = ClusterObjects(nodes=asked.items(NODES, "list nodes"), workloads=_daemon_sets(asked))
    possible = candidates(seen)
    pools = asked.items(IP_POOLS, "list ippools (crd.projectcalico.org)") if CALICO in possible else ()
    maps = tuple(_config_maps(asked, possible, seen))
    return recognise(replace(seen, ip_pools=pools, config_maps=maps, unread=tuple(asked.refused)))


@dataclass(slots=True, kw_only=True)
class ClusterReader:
    """Requests that may be refused; the keys of `refused` say which were, in the order in which they were made."""

    api: Api
    refused: dict[str, None] = field(default_factory=dict)

    def items(self, path: str, what: str) -> tuple[Any, ...]:
        """Return the objects of a list; none if it may not be read, which is noted, or if there is no such kind."""
        return tuple(members(at(self.one(path, what, query=[("limit", MOST)]), "items")))

    def one(self, path: str, what: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """Return an object; None if it may not be read, which is noted, or if it does not exist."""
        try:
            return self.api.ask("GET", path, query=query)
        except ApiError as error:
            if not error.is_absent:
                self.refused[what] = None
            return None


def _daemon_sets(asked: ClusterReader) -> tuple[Any, ...]:
    """Return the daemon sets of the cluster; those of the usual namespaces if the user may not list all."""
    everywhere = "list daemonsets of all namespaces"
    found = asked.items(DAEMON_SETS.format(""), everywhere)
    if everywhere not in asked.refused:
        return found
    del asked.refused[everywhere]
    usual = dict.fromkeys(name for product in PRODUCTS for name in product.namespaces)
    return tuple(
        one
        for name in usual
        for one in asked.items(DAEMON_SETS.format(f"namespaces/{name}/"), f"list daemonsets in {name}")
    )


def _config_maps(asked: ClusterReader, products: Sequence[Product], seen: ClusterObjects) -> list[Any]:
    """Return the config maps of products: from where their agents are, or usually are."""
    known = tuple(agents(seen.workloads))
    found: dict[tuple[str, str], Any] = {}
    for product in products:
        where = dict.fromkeys(agent.namespace for agent in own_agents(product, known)) or product.namespaces
        for namespace in where:
            for name in product.config_maps:
                if (namespace, name) not in found:
                    what = f"get configmaps in {namespace}"
                    found[namespace, name] = asked.one(CONFIG_MAP.format(namespace, name), what)
    return [one for one in found.values() if one is not None]
