"""Create pods, wait until they run, and remove them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tare.agent.remote.timing import scaled
from tare.clusters.pods import manifests, reasons
from tare.clusters.pods.api import Api, ApiError
from tare.errors import InfrastructureError, TareError
from tare.system.waiting import wait_until

READY_S: Final = 180.0
"""How long pods may take: images are pulled in this time."""
NODE_S: Final = scaled(30.0)
"""After so long the node of a pod that does not run is looked at."""
GONE_S: Final = scaled(60.0)
PAUSE_S: Final = 0.2
FORBIDDEN: Final = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"')
"""How the API server says which right is missing."""
LIMITED: Final = re.compile(r"(?:maximum|minimum) \S+ usage per |limit to request ratio per ")
"""How the API server says that a pod asks for what a LimitRange does not let one have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """The pods of a namespace."""

    api: Api
    namespace: str

    @property
    def path(self) -> str:
        """Return the path of the namespace's pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def listed(self) -> tuple[str, ...]:
        """Return the names of the pods."""
        found = ask(self.api, "GET", self.path, what=f"pods of {self.namespace}")
        return tuple(str(each["metadata"]["name"]) for each in found.get("items", ()))

    def create(self, spec: manifests.PodSpec) -> tuple[str, ...]:
        """Create a pod; return in which fields the cluster has changed what was asked for (webhooks, limits)."""
        asked = manifests.pod(spec)
        made = ask(self.api, "POST", self.path, asked, what=f"pod {spec.name}")
        return reasons.differences(asked, made)

    def wait(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Wait until pods run; return them by name. Raise `InfrastructureError` with the reason why one does not."""
        began = time.monotonic()
        ready: dict[str, dict[str, Any]] = {}

        def are_ready() -> bool:
            for name in names:
                if name not in ready and reasons.is_ready(pod := self.read(name)):
                    ready[name] = pod
                elif name not in ready:
                    self._check(name, pod, time.monotonic() - began)
            return len(ready) == len(names)

        wait_until(are_ready, math.inf, pause_s=PAUSE_S)
        return ready

    def _check(self, name: str, pod: Mapping[str, Any], waited_s: float) -> None:
        """Raise the reason for which a pod does not get ready, if there is one, or if it is late."""
        late = waited_s > READY_S
        events = self.events(name) if late or reasons.is_slow(pod) else ()
        if trouble := reasons.waits_in_vain(pod, events):
            said, remedy = trouble
            raise InfrastructureError(f"pod {name} does not run: {said}", remedy=remedy)
        if waited_s > NODE_S and (lost := self._lost_node(pod)):
            raise InfrastructureError(f"pod {name} does not run: {lost}", remedy=reasons.SEE_NODE)
        if late:
            last = reasons.last_event(events)
            raise InfrastructureError(f"pod {name} does not run after {READY_S:g} s{last}")

    def _lost_node(self, pod: Mapping[str, Any]) -> str | None:
        """Return that the node of a pod is not ready, and why, or None; None if the user may not read nodes."""
        name = pod.get("spec", {}).get("nodeName")
        if not name:
            return None
        try:
            return reasons.is_lost(self.api.ask("GET", f"/api/v1/nodes/{name}"))
        except ApiError:
            return None

    def read(self, name: str) -> dict[str, Any]:
        """Return a pod; raise `InfrastructureError` if it is gone."""
        return ask(self.api, "GET", f"{self.path}/{name}", what=f"pod {name}")

    def ended(self, name: str) -> str | None:
        """Return why a pod does not run any more, or None."""
        try:
            return reasons.has_ended(self.read(name))
        except TareError as error:
            return error.message

    def events(self, name: str) -> tuple[dict[str, Any], ...]:
        """Return the events of a pod, the latest last; none if the user may not list them."""
        query = [("fieldSelector", f"involvedObject.name={name}")]
        try:
            found = self.api.ask("GET", f"/api/v1/namespaces/{self.namespace}/events", query=query)
        except ApiError:
            return ()
        return tuple(found.get("items", ()))

    def remove(self, names: Sequence[str]) -> None:
        """Remove pods, and wait until they are gone."""
        left = {name for name in names if self._delete(name)}

        def are_gone() -> bool:
            left.intersection_update([name for name in left if is_there(self.api, f"{self.path}/{name}")])
            return not left

        wait_until(are_gone, GONE_S, pause_s=PAUSE_S)
        if left and (held := self.held(sorted(left))):
            raise InfrastructureError(
                f"the pods {', '.join(sorted(left))} are not removed after {GONE_S:g} s: {held}",
                remedy="who set a finalizer removes it when its work is done: see whether that controller runs, then "
                "`tare clean`",
            )
        if left:
            raise InfrastructureError(
                f"the pods {', '.join(sorted(left))} are not removed after {GONE_S:g} s",
                remedy="a node that does not answer keeps them; `tare clean` tries again",
            )

    def held(self, names: Sequence[str]) -> str:
        """Return which finalizers keep pods that are being removed, "" if none do."""
        found = []
        for name in names:
            with suppress(TareError):
                found.append(self.read(name))
        return "; ".join(said for each in found if (said := reasons.is_held(each)))

    def _delete(self, name: str) -> bool:
        try:
            self.api.ask("DELETE", f"{self.path}/{name}", query=[("gracePeriodSeconds", "0")])
        except ApiError as error:
            if not error.is_absent:
                raise
            return False
        return True


def found(api: Api, path: str) -> dict[str, Any] | None:
    """Return an object, None if there is none; raise `ApiError` for another refusal."""
    try:
        return api.ask("GET", path)
    except ApiError as error:
        if not error.is_absent:
            raise
        return None


def is_there(api: Api, path: str) -> bool:
    """Return whether there is an object; another refusal does not say that there is none."""
    try:
        return found(api, path) is not None
    except ApiError:
        return True


def ask(api: Api, method: str, path: str, body: Mapping[str, Any] | None = None, *, what: str) -> dict[str, Any]:
    """Make a request; a refusal becomes an `InfrastructureError` that says what is not allowed, and what would help."""
    try:
        return api.ask(method, path, body)
    except ApiError as error:
        raise InfrastructureError(f"{what}: {error.message}", remedy=remedy_of(error)) from error


def remedy_of(error: ApiError) -> str:
    """Return what to do about a refusal."""
    if "exceeded quota" in error.message:
        return "use fewer ranks, or ask for a larger quota"
    if "pod rejected: RuntimeClass" in error.message:
        return "see `kubectl get runtimeclasses`, or leave runtime_class out"
    if LIMITED.search(error.message):
        return "a LimitRange of the namespace says what one pod may ask for: ask for other cpus or memory"
    if error.status == 403:
        missing = FORBIDDEN.search(error.message)
        right = f"{missing['verb']} {missing['resource']}" if missing else "do it"
        return f"let an administrator allow this user to {right}: docs/clusters.md has the whole role"
    if error.status == 401:
        return "sign in again: the credentials of this context are not accepted"
    if error.status == 409:
        return "wait until it is gone, or run `tare clean`"
    return ""
