"""Say in one sentence why a pod does not run, or why it no longer does, from its status and its events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tare.clusters.pods.objects import at, condition_of, members, name_of
from tare.model.text import printable

Object = Mapping[str, Any]

OF_IMAGES: Final[Mapping[str, str]] = {
    "ErrImageNeverPull": "the node does not have the image {image}, and the pull policy is Never",
    "ErrImagePull": "the image {image} cannot be pulled",
    "ImagePullBackOff": "the image {image} cannot be pulled",
    "InvalidImageName": "{image} is no name of an image",
    "CreateContainerConfigError": "container {name} cannot be made",
    "CreateContainerError": "container {name} cannot be made",
    "RunContainerError": "container {name} cannot be started",
}
"""Reasons for which a container waits in vain."""
REMEDIES: Final[Mapping[str, str]] = {
    "ErrImageNeverPull": "load it on every node, or set pull_policy: IfNotPresent",
    "ErrImagePull": "push it with `tare image push`, and name pull_secrets where the registry asks who pulls",
    "ImagePullBackOff": "push it with `tare image push`, and name pull_secrets where the registry asks who pulls",
}
ENDED: Final[Mapping[str, str]] = {
    "OOMKilled": "container {name} was killed for exceeding its memory limit",
    "Evicted": "the node has evicted the pod",
    "Preempted": "a pod of higher priority has taken its place",
    "NodeLost": "its node does not answer",
    "NodeShutdown": "its node is shutting down",
    "DeadlineExceeded": "its deadline has passed",
    "Terminated": "its node is shutting down",
}
SEE_NODE: Final = "see `kubectl describe node`; the next round tries again"
LONGEST: Final = 300
QUANTITIES: Final = re.compile(r"\.resources\.|\.sizeLimit$")
"""Matches the paths of a pod's fields that are amounts."""
SUFFIXES: Final[Mapping[str, Decimal]] = {
    "": Decimal(1),
    **{name: Decimal(1000) ** power for power, name in enumerate("num", -3)},
    **{name: Decimal(1000) ** power for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", 1)},
}
QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i|)")


def waits_in_vain(pod: Object, events: Sequence[Object] = ()) -> tuple[str, str] | None:
    """Return why a pod that is not ready yet will not get so, with what to do; None while it may."""
    if ended := has_ended(pod):
        return ended, ""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return f"no node can take the pod: {_short(scheduled.get('message'))}", _to_schedule(scheduled)
    for container in _containers(pod):
        reason = str(at(container, "state", "waiting", "reason"))
        if reason in OF_IMAGES:
            said = OF_IMAGES[reason].format(image=container.get("image", "?"), name=container.get("name", "?"))
            return _with(said, at(container, "state", "waiting", "message")), REMEDIES.get(reason, "")
    for event in events:
        if event.get("reason") in ("FailedCreatePodSandBox", "FailedMount", "NetworkNotReady", "FailedPostStartHook"):
            return f"the node cannot start the pod: {_short(event.get('message'))}", ""
    return None


def has_ended(pod: Object) -> str | None:
    """Return why a pod that should run does not any more, or None."""
    name = name_of(pod)
    for container in _containers(pod):
        if ended := at(container, "state", "terminated"):
            reason = str(ended.get("reason", ""))
            known = ENDED.get(reason, "container {name} has ended with status {code}")
            return f"pod {name}: {known.format(name=container.get('name', '?'), code=ended.get('exitCode', '?'))}"
    disrupted = condition_of(pod, "DisruptionTarget")
    if disrupted.get("status") == "True":
        return f"pod {name}: {_with(ENDED['Preempted'], disrupted.get('message'))}"
    if at(pod, "status", "phase") in ("Failed", "Succeeded"):
        known = ENDED.get(str(at(pod, "status", "reason")), "it has ended")
        return f"pod {name}: {_with(known, at(pod, 'status', 'message'))}"
    if at(pod, "metadata", "deletionTimestamp"):
        return f"pod {name} is being removed by somebody else"
    return None


def is_lost(node: Object) -> str | None:
    """Return that a node is not ready, with the reason that its conditions give, or None if it is."""
    ready = condition_of(node, "Ready")
    if ready.get("status") == "True":
        return None
    return _with(f"its node {name_of(node)} is not ready", ready.get("message"))


def is_held(pod: Object) -> str | None:
    """Return which finalizers keep a pod that is being removed, or None."""
    held = ", ".join(printable(str(one)) for one in members(at(pod, "metadata", "finalizers")))
    return f"pod {name_of(pod)} has the finalizer {held}" if held else None


def is_ready(pod: Object) -> bool:
    """Return whether all containers of a pod run."""
    found = list(_containers(pod))
    return at(pod, "status", "phase") == "Running" and bool(found) and all(one.get("ready") for one in found)


def differences(asked: Object, made: Object) -> tuple[str, ...]:
    """Return what a webhook, a LimitRange or a default has changed in a pod.

    That is what was asked for and is not there, and what was not asked for and ranks would feel.
    """
    wanted, found = asked.get("spec", {}), made.get("spec", {})
    return (*_differences(wanted, found, "spec"), *_added_to_pod(wanted, found))


def _differences(asked: Any, made: Any, path: str) -> Iterator[str]:
    if isinstance(asked, Mapping):
        for key, value in asked.items():
            yield from _differences(value, made.get(key) if isinstance(made, Mapping) else None, f"{path}.{key}")
    elif isinstance(asked, list) and isinstance(made, list) and len(made) >= len(asked):
        named = {str(each.get("name")): each for each in made if isinstance(each, Mapping)}
        for number, value in enumerate(asked):
            own = named.get(str(value.get("name"))) if isinstance(value, Mapping) and "name" in value else made[number]
            yield from _differences(value, own, f"{path}[{number}]")
    elif asked != made and not (QUANTITIES.search(path) and _same_quantity(asked, made)):
        yield f"{path} is {_short(str(made))}, not {_short(str(asked))}"


def _added_to_pod(asked: Object, made: Object) -> Iterator[str]:
    """Yield what was added to a pod's spec: containers, a runtime class, and fields of its own containers."""
    yield from _added(asked, made, ("runtimeClassName", "securityContext"), "spec")
    for kind in ("initContainers", "containers"):
        wanted = {each.get("name"): (number, each) for number, each in enumerate(asked.get(kind) or ())}
        for each in made.get(kind) or ():
            if each.get("name") not in wanted:
                yield f"spec.{kind}: {_short(each.get('name'))} ({_short(each.get('image'))}) was added"
                continue
            number, own = wanted[each["name"]]
            yield from _added(own, each, ("resources", "env", "envFrom", "securityContext"), f"spec.{kind}[{number}]")


def _added(asked: Object, made: Object, fields: Sequence[str], path: str) -> Iterator[str]:
    """Yield what some fields have that was not asked for."""
    for field in fields:
        wanted = dict(_leaves(asked.get(field), f"{path}.{field}"))
        for name, value in _leaves(made.get(field), f"{path}.{field}"):
            if name not in wanted:
                yield f"{name} is {_short(str(value))}, which was not asked for"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the values in an object, each with its path; a member of a list is named as it names itself."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            named = each.get("name", number) if isinstance(each, Mapping) else number
            yield from _leaves(each, f"{path}[{named}]")
    elif value is not None:
        yield path, value


def _same_quantity(asked: object, made: object) -> bool:
    """Return whether two values are the same amount: the server writes 0.5 as 500m, and 64000000 as 64M."""
    amounts = [_amount(str(asked)), _amount(str(made))]
    return amounts[0] is not None and amounts[0] == amounts[1]


def _amount(text: str) -> Decimal | None:
    """Return a quantity as a number, None if it is none."""
    found = QUANTITY.fullmatch(text)
    return Decimal(found[1]) * SUFFIXES[found[2]] if found else None


def _containers(pod: Object) -> Iterator[Object]:
    yield from members(at(pod, "status", "initContainerStatuses"))
    yield from members(at(pod, "status", "containerStatuses"))


def _to_schedule(condition: Object) -> str:
    message = str(condition.get("message", ""))
    if "Insufficient" in message:
        return "use fewer ranks a node, or free the nodes"
    if any(f"node.kubernetes.io/{taint}" in message for taint in ("unreachable", "not-ready")):
        return f"a node does not answer: {SEE_NODE}"
    if "taint" in message:
        return "add tolerations to the pod fields of the study"
    return "see `kubectl describe pod`"


def _with(said: str, message: object) -> str:
    text = _short(message)
    return f"{said}: {text}" if text else said


def _short(message: object) -> str:
    return printable(str(message or "").strip().rstrip("."))[:LONGEST]


def is_slow(pod: Object) -> bool:
    """Return whether a pod is scheduled, and its containers wait for more than their images."""
    waiting = [at(container, "state", "waiting", "reason") for container in _containers(pod)]
    return bool(waiting) and all(reason == "ContainerCreating" for reason in waiting)


def last_event(events: Sequence[Object]) -> str:
    """Return the latest event of a pod as the end of a sentence, "" if there is none."""
    return f": {_short(events[-1].get('message'))}" if events else ""
