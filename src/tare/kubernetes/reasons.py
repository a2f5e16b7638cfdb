"""Say in one sentence why a pod does not run, or why it no longer does, from its status and its events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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
LONGEST: Final = 300


def waits_in_vain(pod: Object, events: Sequence[Object] = ()) -> tuple[str, str] | None:
    """Return why a pod that is not ready yet will not get so, with what to do; None while it may."""
    status = pod.get("status", {})
    if ended := has_ended(pod):
        return ended, ""
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return f"no node can take the pod: {_short(condition.get('message'))}", _to_schedule(condition)
    for container in _containers(status):
        waiting = container.get("state", {}).get("waiting", {})
        reason = str(waiting.get("reason", ""))
        if reason in OF_IMAGES:
            said = OF_IMAGES[reason].format(image=container.get("image", "?"), name=container.get("name", "?"))
            return _with(said, waiting.get("message")), REMEDIES.get(reason, "")
    for event in events:
        if event.get("reason") in ("FailedCreatePodSandBox", "FailedMount", "NetworkNotReady", "FailedPostStartHook"):
            return f"the node cannot start the pod: {_short(event.get('message'))}", ""
    return None


def has_ended(pod: Object) -> str | None:
    """Return why a pod that should run does not any more, or None."""
    status, name = pod.get("status", {}), pod.get("metadata", {}).get("name", "?")
    for container in _containers(status):
        ended = container.get("state", {}).get("terminated")
        if ended:
            reason = str(ended.get("reason", ""))
            known = ENDED.get(reason, "container {name} has ended with status {code}")
            return f"pod {name}: {known.format(name=container.get('name', '?'), code=ended.get('exitCode', '?'))}"
    for condition in status.get("conditions", ()):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return f"pod {name}: {_with(ENDED['Preempted'], condition.get('message'))}"
    if status.get("phase") in ("Failed", "Succeeded"):
        known = ENDED.get(str(status.get("reason", "")), "it has ended")
        return f"pod {name}: {_with(known, status.get('message'))}"
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return f"pod {name} is being removed by somebody else"
    return None


def is_ready(pod: Object) -> bool:
    """Return whether all containers of a pod run."""
    status = pod.get("status", {})
    found = list(_containers(status))
    return status.get("phase") == "Running" and bool(found) and all(each.get("ready") for each in found)


def differences(asked: Object, made: Object) -> tuple[str, ...]:
    """Return what a webhook, a LimitRange or a default has changed in a pod: what was asked for and is not there."""
    return tuple(_differences(asked.get("spec", {}), made.get("spec", {}), "spec"))


def _differences(asked: Any, made: Any, path: str) -> Iterator[str]:
    if isinstance(asked, Mapping):
        for key, value in asked.items():
            yield from _differences(value, made.get(key) if isinstance(made, Mapping) else None, f"{path}.{key}")
    elif isinstance(asked, list) and isinstance(made, list) and len(made) >= len(asked):
        named = {str(each.get("name")): each for each in made if isinstance(each, Mapping)}
        for number, value in enumerate(asked):
            own = named.get(str(value.get("name"))) if isinstance(value, Mapping) and "name" in value else made[number]
            yield from _differences(value, own, f"{path}[{number}]")
    elif asked != made and not _same_quantity(asked, made):
        yield f"{path} is {_short(str(made))}, not {_short(str(asked))}"


def _same_quantity(asked: Any, made: Any) -> bool:
    """Return whether two values may be the same amount: the server writes quantities its own way."""
    return isinstance(asked, str) and isinstance(made, str) and asked.rstrip("m") == made.rstrip("m") == asked


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses", ())
    yield from status.get("containerStatuses", ())


def _to_schedule(condition: Object) -> str:
    message = str(condition.get("message", ""))
    if "Insufficient" in message:
        return "use fewer ranks a node, or free the nodes"
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
    status = pod.get("status", {})
    waiting = [each.get("state", {}).get("waiting", {}).get("reason") for each in _containers(status)]
    return bool(waiting) and all(reason == "ContainerCreating" for reason in waiting)


def last_event(events: Sequence[Object]) -> str:
    """Return the latest event of a pod as the end of a sentence, "" if there is none."""
    return f": {_short(events[-1].get('message'))}" if events else ""
