"""Weigh what points to each product, and ask the one that most points to for its details. Pure.

Rights differ: whoever may run pods can read nodes, but often no daemon sets, config maps and IP pools. Each of these
can tell the product. They are weighed, because an agent that was removed leaves annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tare.clusters.pods.objects import annotations_of, at, condition_of, members, name_of, text
from tare.clusters.pods.pod_networks.model import UNKNOWN, Agent, ClusterObjects, Product, RecognisedNetwork
from tare.clusters.pods.pod_networks.products import CALICO, CANAL, FLANNEL, OF_CALICO, PRODUCTS
from tare.clusters.pods.pod_networks.settings import details

OF_AGENT: Final = 4
OF_CONDITION: Final = 3
OF_ANNOTATION: Final = 2
OF_POOL: Final = 1
MOST_NAMED: Final = 8
NOT_SHOWN: Final = "from elsewhere"
TAG: Final = re.compile(r"[\w][\w.+-]{0,127}")


def recognise(seen: ClusterObjects) -> RecognisedNetwork:
    """Return the pod network of a cluster from what could be read of it."""
    known = tuple(agents(seen.workloads))
    clues = _all_clues(seen, known)
    weights = {name: sum(weight for weight, _ in found) for name, found in clues.items() if found}
    if _is_canal(seen, clues):
        pair = (CALICO, FLANNEL)
        evidence = [said for each in pair for _, said in clues[each.name]]
        return _described(CANAL, seen, tuple(one for each in pair for one in own_agents(each, known)), evidence)
    best = sorted(weights, key=lambda name: -weights[name])[:2]
    if not best or (len(best) == 2 and weights[best[0]] == weights[best[1]]):
        return _unknown(seen, known, [said for name in best for _, said in clues[name]])
    product = next(each for each in PRODUCTS if each.name == best[0])
    return _described(product, seen, own_agents(product, known), [said for _, said in clues[product.name]])


def candidates(seen: ClusterObjects) -> tuple[Product, ...]:
    """Return the products that something points to; all if nothing does."""
    clues = _all_clues(seen, tuple(agents(seen.workloads)))
    found = tuple(product for product in PRODUCTS if clues[product.name])
    return (*found, CANAL) if CALICO in found and FLANNEL in found else found or PRODUCTS


def own_agents(product: Product, known: tuple[Agent, ...]) -> tuple[Agent, ...]:
    """Return the agents of a product: those with its image, or else those of its daemon set."""
    images, workloads = rf"(?:.*/)?(?:{product.images})", rf"(?:{product.workloads})(?:-\w{{5}})?"
    by_image = tuple(one for one in known if re.fullmatch(images, repository_and_version(one.image)[0]))
    return by_image or tuple(one for one in known if re.fullmatch(workloads, one.workload))


def _all_clues(seen: ClusterObjects, known: tuple[Agent, ...]) -> dict[str, tuple[tuple[int, str], ...]]:
    return {product.name: tuple(_clues(product, seen, known)) for product in PRODUCTS}


def _clues(product: Product, seen: ClusterObjects, known: tuple[Agent, ...]) -> Iterator[tuple[int, str]]:
    """Yield what points to a product: the weight, and a sentence."""
    if own := own_agents(product, known):
        yield OF_AGENT, f"{own[0].namespace}/{own[0].workload} runs {own[0].image}"
    for node in seen.nodes if product.condition else ():
        if condition_of(node, "NetworkUnavailable").get("reason") == product.condition:
            yield OF_CONDITION, f"node {name_of(node)} reports {product.condition}"
            break
    if found := _annotated(seen.nodes, product.annotations):
        yield OF_ANNOTATION, f"node {found[0]} has the annotation {found[1]}"
    if product is CALICO and seen.ip_pools:
        yield OF_POOL, "there are IP pools of Calico"


def _annotated(objects: tuple[object, ...], beginnings: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first object that has an annotation with one of these beginnings, and the annotation."""
    for each in objects if beginnings else ():
        for key in annotations_of(each):
            if key.startswith(beginnings):
                return name_of(each), key
    return None


def _is_canal(seen: ClusterObjects, clues: Mapping[str, Sequence[tuple[int, str]]]) -> bool:
    """Return whether Calico's policies apply to Flannel's packets: both are there, and Calico makes no routes.

    Where it makes them, it notes its addresses at the nodes.
    """
    is_there = any(weight >= OF_AGENT for weight, _ in clues[CALICO.name])
    return is_there and bool(clues[FLANNEL.name]) and _annotated(seen.nodes, (f"{OF_CALICO}IPv4",)) is None


def _described(
    product: Product, seen: ClusterObjects, own: tuple[Agent, ...], evidence: list[str]
) -> RecognisedNetwork:
    """Return a product with its details."""
    maps = tuple(each for each in seen.config_maps if _is_named(name_of(each), product.config_maps))
    told = details(product, replace(seen, agents=own, config_maps=maps))
    version = next((tag for agent in own if (tag := repository_and_version(agent.image)[1])), "")
    evidence = [*evidence, *told.evidence]
    return replace(told, product=product.name, version=version, evidence=tuple(evidence), unread=seen.unread)


def _is_named(name: str, config_maps: Sequence[str]) -> bool:
    """Return whether a config map is one of a product's; kustomize adds a digest to the name."""
    return any(re.fullmatch(rf"{re.escape(each)}(?:-\w+)?", name) for each in config_maps)


def _unknown(seen: ClusterObjects, known: tuple[Agent, ...], evidence: list[str]) -> RecognisedNetwork:
    """Return what is left to say: what points to several products alike, or the agents that are not known."""
    names = sorted({f"{agent.namespace}/{agent.workload}" for agent in known})[:MOST_NAMED]
    if not evidence and names:
        evidence = [f"no known agent is among {', '.join(names)}"]
    return RecognisedNetwork(product=UNKNOWN, evidence=tuple(evidence), unread=seen.unread)


def agents(workloads: Sequence[Any]) -> Iterator[Agent]:
    """Yield the containers of daemon sets and pods."""
    for workload in workloads:
        template = at(workload, "spec", "template", "spec")
        pod = template if isinstance(template, Mapping) else at(workload, "spec")
        for container in members(at(pod, "containers")):
            words = [text(word) for word in (*members(at(container, "command")), *members(at(container, "args")))]
            yield Agent(
                workload=name_of(workload),
                namespace=text(at(workload, "metadata", "namespace")),
                image=text(at(container, "image")),
                settings={
                    **{text(at(one, "name")): _value_of(one) for one in members(at(container, "env"))},
                    **dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word),
                },
            )


def _value_of(variable: Any) -> str:
    """Return the value of an agent's variable; one that comes from a secret or config map is set, whatever it is."""
    return text(at(variable, "value")) or (NOT_SHOWN if at(variable, "valueFrom") else "")


def repository_and_version(image: str) -> tuple[str, str]:
    """Return the repository of an image, and its tag ("" if it has none)."""
    whole, _, _ = image.partition("@")
    repository, colon, tag = whole.rpartition(":")
    if not colon or "/" in tag:
        return whole, ""
    return repository, tag if TAG.fullmatch(tag) else ""
