"""Weigh what points to each product, and ask the one that most points to for its details. Pure.

Rights differ: whoever may run pods can read nodes and the study's own pods, but often no daemon sets, config maps and
IP pools. Each of these can tell the product. They are weighed, because an agent that was removed leaves annotations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tare.kubernetes.pod_networks import antrea, calico, cilium, flannel, kindnet, ovn, weave
from tare.kubernetes.pod_networks.model import UNKNOWN, Agent, PodNetwork, Product, Seen
from tare.kubernetes.pod_networks.objects import (
    agents,
    annotations_of,
    conditions,
    interface,
    name_of,
    repository_and_version,
)

PRODUCTS: Final = (
    calico.CALICO,
    flannel.PRODUCT,
    cilium.PRODUCT,
    weave.PRODUCT,
    kindnet.PRODUCT,
    antrea.PRODUCT,
    ovn.OVN_KUBERNETES,
    ovn.KUBE_OVN,
)
OF_AGENT: Final = 4
OF_POD: Final = 4
OF_CONDITION: Final = 3
OF_INTERFACE: Final = 2
OF_ANNOTATION: Final = 2
OF_POOL: Final = 1
POD_INTERFACE: Final = "eth0"
MOST_NAMED: Final = 8


def recognise(seen: Seen) -> PodNetwork:
    """Return the pod network of a cluster from what could be read of it."""
    known = tuple(agents(seen.workloads))
    clues = _all_clues(seen, known)
    weights = {name: sum(weight for weight, _ in found) for name, found in clues.items() if found}
    if _is_canal(seen, clues):
        pair = (calico.CALICO, flannel.PRODUCT)
        evidence = [said for each in pair for _, said in clues[each.name]]
        return _described(calico.CANAL, seen, tuple(one for each in pair for one in own_agents(each, known)), evidence)
    best = sorted(weights, key=lambda name: -weights[name])[:2]
    if not best or (len(best) == 2 and weights[best[0]] == weights[best[1]]):
        return _unknown(seen, known, [said for name in best for _, said in clues[name]])
    product = next(each for each in PRODUCTS if each.name == best[0])
    return _described(product, seen, own_agents(product, known), [said for _, said in clues[product.name]])


def candidates(seen: Seen) -> tuple[Product, ...]:
    """Return the products that something points to; all if nothing does."""
    clues = _all_clues(seen, tuple(agents(seen.workloads)))
    found = tuple(product for product in PRODUCTS if clues[product.name])
    return (*found, calico.CANAL) if {calico.CALICO, flannel.PRODUCT} <= set(found) else found or PRODUCTS


def own_agents(product: Product, known: tuple[Agent, ...]) -> tuple[Agent, ...]:
    """Return the agents of a product: those with its image, or else those of its daemon set."""
    by_image = tuple(one for one in known if product.images.fullmatch(repository_and_version(one.image)[0]))
    return by_image or tuple(one for one in known if product.workloads.fullmatch(one.workload))


def _all_clues(seen: Seen, known: tuple[Agent, ...]) -> dict[str, tuple[tuple[int, str], ...]]:
    return {product.name: tuple(_clues(product, seen, known)) for product in PRODUCTS}


def _clues(product: Product, seen: Seen, known: tuple[Agent, ...]) -> Iterator[tuple[int, str]]:
    """Yield what points to a product: the weight, and a sentence."""
    if own := own_agents(product, known):
        yield OF_AGENT, f"{own[0].namespace}/{own[0].workload} runs {own[0].image}"
    if found := _annotated(seen.pods, product.pod_annotations):
        yield OF_POD, f"pod {found[0]} has the annotation {found[1]}"
    for node in seen.nodes if product.condition else ():
        if ("NetworkUnavailable", product.condition) in conditions(node):
            yield OF_CONDITION, f"node {name_of(node)} reports {product.condition}"
            break
    if product.interfaces and (link := interface(seen.node_interfaces, product.interfaces.pattern)):
        yield OF_INTERFACE, f"the node has the interface {link.name}"
    if found := _annotated(seen.nodes, product.node_annotations):
        yield OF_ANNOTATION, f"node {found[0]} has the annotation {found[1]}"
    if product is calico.CALICO and seen.ip_pools:
        yield OF_POOL, "there are IP pools of Calico"


def _annotated(objects: tuple[object, ...], beginnings: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first object that has an annotation with one of these beginnings, and the annotation."""
    for each in objects if beginnings else ():
        for key in annotations_of(each):
            if key.startswith(beginnings):
                return name_of(each), key
    return None


def _is_canal(seen: Seen, clues: Mapping[str, Sequence[tuple[int, str]]]) -> bool:
    """Return whether Calico's policies apply to Flannel's packets: both are there, and Calico makes no routes."""
    is_there = any(weight >= OF_AGENT for weight, _ in clues[calico.CALICO.name])
    return is_there and bool(clues[flannel.PRODUCT.name]) and not calico.routes_itself(seen)


def _described(product: Product, seen: Seen, own: tuple[Agent, ...], evidence: list[str]) -> PodNetwork:
    """Return a product with its details; the MTU is a pod's own where one was read."""
    told = product.details(replace(seen, agents=own))
    version = next((tag for agent in own if (tag := repository_and_version(agent.image)[1])), "")
    made = PodNetwork(
        product=product.name,
        version=version,
        encapsulation=told.encapsulation,
        between_subnets_only=told.between_subnets_only,
        encryption=told.encryption,
        mtu=told.mtu,
        evidence=(*evidence, *told.evidence),
        unread=seen.unread,
    )
    return _with_mtu(made, seen)


def _with_mtu(made: PodNetwork, seen: Seen) -> PodNetwork:
    link = interface(seen.pod_interfaces, POD_INTERFACE)
    if link is None or not link.mtu:
        return made
    return replace(made, mtu=link.mtu, evidence=(*made.evidence, f"{POD_INTERFACE} of a pod has MTU {link.mtu}"))


def _unknown(seen: Seen, known: tuple[Agent, ...], evidence: list[str]) -> PodNetwork:
    """Return what is left to say: what points to several products alike, or the agents that are not known."""
    names = sorted({f"{agent.namespace}/{agent.workload}" for agent in known})[:MOST_NAMED]
    if not evidence and names:
        evidence = [f"no known agent is among {', '.join(names)}"]
    return _with_mtu(PodNetwork(product=UNKNOWN, evidence=tuple(evidence), unread=seen.unread), seen)
