"""Check what a node answers, on the head: a node is another machine, and may be hostile, broken or of another version.

An answer has the type that the call's signature states, within bounds (`check`). What the head knows itself it does not
take from a node: which node it is, the names of its hosts, where the programs are (`opened_node`, `made_pods`). So no
answer becomes a path, an option or a variable of something on the head, or a place on another node.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, fields, is_dataclass, replace
from functools import cache
from ipaddress import IPv4Address
from pathlib import PurePath
from typing import Any, Final, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from tare.agent.geometry import environment_on, host_name, pods_per_node
from tare.agent.protocol import CALLS, DescribedPods, NodeService
from tare.agent.remote.machine import Interface, Machine
from tare.agent.remote.wire import NotUnderstood
from tare.model.text import printable
from tare.runtimes.containers.deployment import Deployment
from tare.system.counters.raw_readings import ParsedReading
from tare.system.counters.values import CounterValues
from tare.system.node import Endpoint, Node, Pod

LONGEST_TEXT: Final = 1 << 16
"""Characters of one text."""
MOST_NUMBER: Final = float(1 << 64)
"""Counters of the kernel have 64 bits, and sums of them stay far below what results may hold."""
MOST_CPU_S: Final = 1e12
"""CPU time of a machine: ten thousand cores for three years."""
MOST_CORES: Final = 1 << 16
DEEPEST: Final = 8
"""Levels of a value whose type no signature states."""
INTERFACE: Final = re.compile(r"[A-Za-z0-9_][^\s/,;=]{0,14}")
PORT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}:\d{1,3}")
SWARM_TOKEN: Final = re.compile(r"SWMTKN-[A-Za-z0-9-]{10,200}")

Check = Callable[[Any], None]
T = TypeVar("T")


def check(host: str, call: str, value: Any) -> Any:
    """Return the answer to a call; raise `NotUnderstood` unless it is of the type that the call returns."""
    try:
        _check_of(_returned(call))(value)
    except (ValueError, TypeError) as error:
        refuse(host, call, str(error))
    return value


def refuse(host: str, call: str, why: str) -> NoReturn:
    """Raise `NotUnderstood`: what a node answered to a call cannot be so."""
    raise NotUnderstood(f"node {host} gave an impossible answer to {call!r}: {printable(why)[:300]}")


@cache
def _returned(call: str) -> Any:
    """Return the type that a call returns; any value if no signature states it."""
    from tare.agent.remote import serve
    from tare.agent.remote.machine_answers import Service

    owners = {**dict.fromkeys(CALLS, NodeService), **dict.fromkeys(serve.OWN, Service), serve.GREET: serve}
    owner = Service if call == "counters" else owners.get(call)  # a reading is parsed there
    return Any if owner is None else get_type_hints(getattr(owner, call)).get("return", Any)


@cache
def _check_of(hint: Any) -> Check:
    """Return what raises `ValueError` for a value that is not of a type, or beyond the bounds."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _check_plain
    if origin in (Union, types.UnionType):
        others = [_check_of(each) for each in inner if each is not type(None)]
        return lambda value: None if value is None else others[0](value)
    if origin is tuple and inner[-1] is not Ellipsis:
        return _fixed(tuple(map(_check_of, inner)))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_check_of(inner[0]), _check_of(inner[1]))
    if origin is not None:
        return _items(tuple if issubclass(origin, tuple) else frozenset, _check_of(inner[0]))
    return _check_data(hint) if is_dataclass(hint) else _simple(hint)


def _simple(hint: Any) -> Check:
    if hint is str:
        return _check_text
    if hint is int:  # a count, or the number of something: a core, a process
        return lambda value: _check_number(value, (int,), least=0)
    if hint is float:
        return lambda value: _check_number(value, (int, float))
    wanted = type(None) if hint is None else hint

    def check_kind(value: Any) -> None:
        if not isinstance(value, wanted):
            raise ValueError(f"{_shown(value)} is not {wanted.__name__}")
        if isinstance(value, PurePath):
            _check_text(str(value))

    return check_kind


def _check_text(value: Any) -> None:
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is not a text")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"a text has {len(value)} characters")
    if not value.isprintable() and value != printable(value, lines=True):
        raise ValueError(f"a text has control characters: {_shown(value)}")


def _check_number(value: Any, kinds: tuple[type, ...], least: float = -MOST_NUMBER) -> None:
    if type(value) not in kinds or not least <= value < MOST_NUMBER:  # NaN is not within bounds
        raise ValueError(f"{_shown(value)} is not a possible number")


def _check_plain(value: Any, depth: int = 0) -> None:
    """Check a value that becomes JSON as it is."""
    if depth > DEEPEST:
        raise ValueError("a value is nested too deeply")
    if isinstance(value, Mapping):
        for key, own in value.items():
            _check_text(key)
            _check_plain(own, depth + 1)
    elif isinstance(value, list | tuple):
        for each in list(value):
            _check_plain(each, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, (int, float))
    elif isinstance(value, str):
        _check_text(value)
    elif not (value is None or isinstance(value, bool)):
        raise ValueError(f"{_shown(value)} is no plain value")


def _items(kind: type[Collection[Any]], each: Check) -> Check:
    def check_items(value: Any) -> None:
        if not isinstance(value, kind):
            raise ValueError(f"{_shown(value)} is no list")
        for own in value:
            each(own)

    return check_items


def _fixed(every: tuple[Check, ...]) -> Check:
    def check_parts(value: Any) -> None:
        if not isinstance(value, tuple) or len(value) != len(every):
            raise ValueError(f"{_shown(value)} does not have {len(every)} parts")
        for each, own in zip(every, value, strict=True):
            each(own)

    return check_parts


def _mapping(keys: Check, values: Check) -> Check:
    def check_items(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise ValueError(f"{_shown(value)} is no table")
        for key, own in value.items():
            keys(key)
            values(own)

    return check_items


def _check_data(kind: Any) -> Check:
    hints = get_type_hints(kind)
    parts = [(field.name, _check_of(hints[field.name])) for field in fields(kind)]
    more = MORE.get(kind)

    def check_fields(value: Any) -> None:
        if type(value) is not kind:
            raise ValueError(f"{_shown(value)} is no {kind.__name__}")
        for name, each in parts:
            each(getattr(value, name))
        if more is not None:
            more(value)

    return check_fields


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


def _check_counters(values: CounterValues) -> None:
    """Raise `ValueError` for what no kernel counts: less than nothing, or more CPU time than there can be."""
    counts: list[float] = [number for each in values.interfaces.values() for number in each]
    counts += [number for each in (values.growing, values.states) for own in each.values() for number in own.values()]
    if counts and min(counts) < 0:
        raise ValueError(f"a counter is {min(counts):g}")
    for name in ("busy_s", "steal_s", "softirq_s", "job_s", "ours_s", "throttled_s"):
        seconds = getattr(values, name)
        if seconds is not None and not 0 <= seconds <= MOST_CPU_S:
            raise ValueError(f"{name} is {seconds:g}")


def _check_endpoint(endpoint: Endpoint) -> None:
    _check_address(endpoint.address, endpoint.prefix)
    _check_name(INTERFACE, endpoint.interface, "an interface")
    if endpoint.port:
        _check_name(PORT, endpoint.port, "a port")


def _check_interface(interface: Interface) -> None:
    _check_address(interface.address, interface.prefix)
    _check_name(INTERFACE, interface.name, "an interface")


def _check_address(address: str, prefix: int) -> None:
    IPv4Address(address)  # raises ValueError
    if not 1 <= prefix <= 32:
        raise ValueError(f"a subnet's prefix has {prefix} bits")


def _check_name(pattern: re.Pattern[str], name: str, what: str) -> None:
    if not pattern.fullmatch(name):
        raise ValueError(f"{_shown(name)} is not the name of {what}")


def _check_machine(machine: Machine) -> None:
    cores = machine.cores
    numbers = (*cores, *(number for each in machine.layout for number in astuple(each)))
    if not cores or len(cores) != len(set(cores)) or max(numbers) >= MOST_CORES:
        raise ValueError("its cores are not numbers of cores")


MORE: Final[Mapping[Any, Check]] = {
    CounterValues: _check_counters,
    Endpoint: _check_endpoint,
    Interface: _check_interface,
    Machine: _check_machine,
}
"""What is checked beyond the types of fields."""


def understood(call: str, told: Any, node: Node, order: Deployment | None) -> Any:
    """Return an answer to a call as the head takes it; `order` is that of the deployment which the call names."""
    if call == "facts":
        return with_gpus(node, told)
    if call == "counters":
        return ParsedReading(own_counters(node, told))
    if order is None:
        return told
    if call in ("deploy", "join"):
        return made_pods(order, node, told)
    return of_each_pod(order, node, told) if call == "described" else told


def opened_node(asked: Node, told: Node, *, owned: bool) -> Node:
    """Return a node as its service says it is there: on a machine that tare owns it has a process, groups, a daemon.

    The groups are of the node's own machine, and joined there.
    """
    if not owned:
        return replace(asked, launches=told.launches)
    return replace(asked, pid=told.pid, group=told.group, docker_socket=told.docker_socket, launches=told.launches)


def made_pods(order: Deployment, node: Node, told: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return the pods of a node; where they are, their names and the paths of programs are as the deployment says."""
    environment = environment_on(order, node)
    host_mpi = order.files.host_mpi_of(environment)
    count = pods_per_node(environment, order.placement)
    return tuple(
        replace(
            pod,
            node=node,
            number=number,
            host=host_name(node, number, count),
            prefix=order.files.prefix_in(environment),
            variables=host_mpi.environment if host_mpi else (),
        )
        for number, pod in enumerate(_one_each(node, "deploy", told, count))
    )


def of_each_pod(order: Deployment, node: Node, told: DescribedPods) -> DescribedPods:
    """Return the description of a node's pods; raise `NotUnderstood` unless it has the limits of each."""
    count = pods_per_node(environment_on(order, node), order.placement)
    _one_each(node, "described", told.state, count)
    if not all(_one_each(node, "described", told.limits, count)):
        refuse(node.machine or node.name, "described", "a pod without limits")
    return told


def _one_each(node: Node, call: str, told: Sequence[T], count: int) -> Sequence[T]:
    """Return what was answered for each pod of a node; raise `NotUnderstood` unless there are as many answers."""
    if len(told) != count:
        refuse(node.machine or node.name, call, f"{len(told)} values for {count} pods")
    return told


def with_gpus(node: Node, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a machine; raise `NotUnderstood` unless its GPUs are among them."""
    try:
        _check_of(tuple[str, ...])(facts.get("GPUs"))
    except ValueError as error:
        refuse(node.machine or node.name, "facts", str(error))
    return dict(facts)


def own_counters(node: Node, values: CounterValues) -> CounterValues:
    """Return counters without those that a node gives for other machines."""
    if all(key[0] == node.machine for each in (values.interfaces, values.unread) for key in each) and all(
        scope[0] == node.machine for each in (values.growing, values.states) for scope in each
    ):
        return values
    return refuse(node.machine or node.name, "counters", "counters of another machine")


def swarm_token(host: str, token: str) -> str:
    """Return the token of a Swarm, which is given to the other nodes' daemons."""
    if not SWARM_TOKEN.fullmatch(token):
        refuse(host, "begin_swarm", f"{_shown(token)} is no token")
    return token
