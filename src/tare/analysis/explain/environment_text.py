"""Write an environment as a study file states it: the inverse of reading one. Pure."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final

import yaml

from tare.model import Environment, Link, PlacementChange
from tare.mpi import MPIS
from tare.mpi.defaults import with_transport
from tare.networks.wiring.conflist import PREFIX, is_conflist
from tare.runtimes import RUNTIMES

_IMAGELESS: Final = frozenset(name for name, runtime in RUNTIMES.items() if not runtime.needs_image)
_LINK_KEYS: Final = {"delay_s": "delay", "rate_bps": "rate"}
"""Keys of a link that the study names otherwise; it takes plain numbers as seconds and bits per second."""


class _Quoted(str):
    """A text that is always written in quotes: a study reads `0E0` as a number, PyYAML writes it as a plain word."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Write texts that are `_Quoted` in quotes."""


_Dumper.add_representer(_Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


PLAIN: Final = (
    "mpi", "sides", "launch", "control", "ssh_port", "devices", "binds", "workdir", "daemon", "pmi", "runtime_class",
    "shm_size",
)  # fmt: skip
"""The keys that are written as they are."""


def environment_text(environment: Environment) -> str:
    """Return an entry of a study's `environments:` as YAML, which reads as the same environment.

    Every character that is not printable ASCII is escaped.
    """
    keys = {environment.name: environment_keys(environment)}
    text: str = yaml.dump(keys, Dumper=_Dumper, sort_keys=False, width=110)
    return text


def environment_keys(environment: Environment) -> dict[str, Any]:
    """Return the keys of an environment's mapping in a study; those that have their default are left out."""
    keys: dict[str, Any] = {"runtime": environment.runtime, "network": _network(environment.network)}
    if environment.image or environment.runtime not in _IMAGELESS:
        keys["image"] = environment.image
    if environment.mpi not in MPIS or environment.transport != _usual_transport(environment):
        keys["transport"] = environment.transport
    for name in PLAIN:
        value = getattr(environment, name)
        if value != _DEFAULTS[name]:
            keys[name] = _plain(value)
    if environment.env:
        keys["env"] = {name: _Quoted(value) for name, _, value in (each.partition("=") for each in environment.env)}
    if environment.link:
        keys["link"] = _link(environment.link)
    if environment.placement:
        keys["placement"] = {
            each.name: _plain(value)
            for each in fields(PlacementChange)
            if (value := getattr(environment.placement, each.name)) is not None
        }
    return keys


def _usual_transport(environment: Environment) -> str:
    """Return the transport that a study means if it states none."""
    return with_transport(replace(environment, transport=_DEFAULTS["transport"])).transport


_DEFAULTS: Final[dict[str, Any]] = {each.name: each.default for each in fields(Environment)}


def _network(network: str) -> str | dict[str, str]:
    return {"cni": network.removeprefix(PREFIX)} if is_conflist(network) else network


def _link(link: Link) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for each in fields(Link):
        value = getattr(link, each.name)
        if each.name == "offloads" and value:
            keys["offloads"] = {word: state for word, _, state in (feature.partition("=") for feature in value)}
        elif value != each.default:
            keys[_LINK_KEYS.get(each.name, each.name)] = _plain(value)
    return keys


def _plain(value: Any) -> Any:
    """Return a value as YAML writes it: the word of a choice, a list for a tuple."""
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
