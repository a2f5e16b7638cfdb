"""What is known of a cluster's pod network, and what it is told from: objects of the cluster, and rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

UNKNOWN: Final = "unknown"
NONE: Final = "none"
"""The encapsulation of packets that travel between nodes as the pods sent them."""
NEVER: Final = r"(?!)"
"""A pattern that matches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A container of a daemon set, or of a pod of one, that may be a network's agent on the nodes.

    `settings` are its variables and its arguments `--NAME=VALUE`.
    """

    workload: str
    namespace: str
    image: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """What could be read of a cluster. `unread` names what the user may not read.

    `nodes`, `workloads` (daemon sets, or pods of them), `config_maps` and `ip_pools` are the server's objects. When a
    product's settings are read, `config_maps` and `agents` are those of the product.
    """

    nodes: tuple[Any, ...] = ()
    workloads: tuple[Any, ...] = ()
    config_maps: tuple[Any, ...] = ()
    ip_pools: tuple[Any, ...] = ()
    unread: tuple[str, ...] = ()
    agents: tuple[Agent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedNetwork:
    """The pod network of a cluster.

    `version` is the tag of the agent's image. `encapsulation` is that of packets between nodes, `between_subnets_only`
    whether only packets between nodes of different subnets have it. `mtu` is that of pods. A value is "" or 0 if it is
    not known. `evidence` says how each was told, `unread` names what could not be read.
    """

    product: str = UNKNOWN
    version: str = ""
    encapsulation: str = ""
    between_subnets_only: bool = False
    encryption: str = ""
    mtu: int = 0
    evidence: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return it in one line, for a report."""
        packets = {"": "encapsulation not known", NONE: "not encapsulated"}.get(self.encapsulation, self.encapsulation)
        subnets = " between subnets only" if self.between_subnets_only else ""
        encryption = f", {self.encryption} encryption" if self.encryption else ""
        mtu = f", MTU {self.mtu}" if self.mtu else ""
        return f"{f'{self.product} {self.version}'.strip()} ({packets}{subnets}{encryption}{mtu})"


ANY: Final = "*"
"""Stands for all values of a setting that are not listed."""


class Stated(NamedTuple):
    """What is stated under a key, "" if it is not set; and who states it: a sentence of evidence for each."""

    value: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSource:
    """A place where products have settings; `read` returns None if the place cannot be seen.

    `said` is the usual sentence of evidence, with `{source}`, `{file}`, `{key}` and `{value}`. A key in a file is
    written `FILE/KEY`.
    """

    read: Callable[[ClusterObjects, str], Stated | None]
    said: str = "{source}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of a product's table: what a key somewhere means for the field of `RecognisedNetwork` that it is `about`.

    `means` has the field's value for each of the key's values, in lower case; "" is a key that is not set. A value that
    is not listed leaves the field to the rows below. An MTU means itself; a `note` is only said. `said` are other
    sentences than the usual one, a line each, `unset` what they have for the value of a key that is not set. A row
    counts only `within` these encapsulations.
    """

    about: Literal["encapsulation", "between_subnets_only", "encryption", "mtu", "note"]
    where: SettingSource
    key: str
    means: Mapping[str, str | bool] = field(default_factory=dict)
    said: str = ""
    unset: str = ""
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product that can be a cluster's pod network, and what it leaves in a cluster.

    `images` matches the end of the repository of its agent's image, `workloads` the name of its daemon set (a mirror
    may name the image otherwise). `settings` say how packets travel: of those about the same field, the first decides.
    `annotations` are beginnings of names of nodes' annotations, `condition` is the reason that it gives for a node's
    condition `NetworkUnavailable`; `config_maps` have its settings; `namespaces` are where its agent usually is.
    """

    name: str
    settings: tuple[Setting, ...]
    images: str = NEVER
    workloads: str = NEVER
    annotations: tuple[str, ...] = ()
    condition: str = ""
    config_maps: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ("kube-system",)
