"""Read the server's objects, whatever is in them: fields may be missing or of another type, and nothing here raises."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tare.clusters.pods.pod_networks.model import Agent
from tare.model.text import printable

LONGEST: Final = 120
"""The most characters that are kept of a value."""
LARGEST_MTU: Final = 1 << 16
LARGEST: Final = 1 << 62
NOT_SHOWN: Final = "from elsewhere"
TRUE: Final = frozenset({"true", "1", "yes", "on"})
ADDRESS_OF_NODE: Final = "projectcalico.org/IPv4Address"
TAG: Final = re.compile(r"[\w][\w.+-]{0,127}")


def at(value: Any, *keys: str) -> Any:
    """Return what is at a path in an object; None if there is nothing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def each(value: Any) -> Iterator[Any]:
    """Yield the members of a list; nothing of anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from value


def text(value: Any) -> str:
    """Return a value as short text that is safe for a terminal; "" if it is no text, number or truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if -LARGEST < value < LARGEST else ""
    return printable(value[:LONGEST]).strip() if isinstance(value, str) else ""


def named(value: Any) -> dict[str, str]:
    """Return a mapping of names to values, such as annotations, with what is text in it."""
    return {text(key): text(said) for key, said in value.items()} if isinstance(value, Mapping) else {}


def name_of(value: Any) -> str:
    """Return the name of an object."""
    return text(at(value, "metadata", "name")) or "?"


def annotations_of(value: Any) -> dict[str, str]:
    """Return the annotations of an object."""
    return named(at(value, "metadata", "annotations"))


def is_true(value: str) -> bool:
    """Return whether a setting is on."""
    return value.strip().lower() in TRUE


def mtu_of(value: Any) -> int:
    """Return an MTU from a setting; 0 if there is none, or it is for the product to choose."""
    said = text(value)
    number = int(said) if said.isascii() and said.isdigit() else 0
    return number if 0 < number <= LARGEST_MTU else 0


def setting(config: str, key: str) -> str:
    """Return a setting from a text with lines `key: value` or `key = value`; "" if it is not set."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*(\S.{{0,{LONGEST}}})$", config, re.MULTILINE)
    value = found[1].split(" #", 1)[0].strip().strip("\"'") if found else ""
    return printable(value)


def agents(workloads: Sequence[Any]) -> Iterator[Agent]:
    """Yield the containers of daemon sets and pods."""
    for workload in workloads:
        template = at(workload, "spec", "template", "spec")
        pod = template if isinstance(template, Mapping) else at(workload, "spec")
        for container in each(at(pod, "containers")):
            words = [text(word) for word in (*each(at(container, "command")), *each(at(container, "args")))]
            yield Agent(
                workload=name_of(workload),
                namespace=text(at(workload, "metadata", "namespace")),
                image=text(at(container, "image")),
                settings={
                    **{text(at(one, "name")): _value_of(one) for one in each(at(container, "env"))},
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


def conditions(node: Any) -> Iterator[tuple[str, str]]:
    """Yield type and reason of a node's conditions."""
    for condition in each(at(node, "status", "conditions")):
        yield text(at(condition, "type")), text(at(condition, "reason"))


def subnets(nodes: Sequence[Any]) -> frozenset[str] | None:
    """Return the subnets that the nodes are in, if each of them says its own; None if not."""
    found = set()
    for node in nodes:
        said = annotations_of(node).get(ADDRESS_OF_NODE, "")
        try:
            found.add(str(ipaddress.ip_interface(said).network))
        except ValueError:
            return None
    return frozenset(found) or None
