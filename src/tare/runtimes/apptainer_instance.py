"""`apptainer-instance`: a container of Apptainer that is started once, and which every command joins.

It starts from the image's root file system, as `apptainer` does. An instance has process numbers of its own, and an
init that keeps it up until it is stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tare.daemons.daemons import agent_argv
from tare.daemons.docker import outer_pid
from tare.errors import InfrastructureError, MissingTool
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.apptainer import (
    MISSING,
    Apptainer,
    find_program,
    hidden,
    settings,
    shown_options,
    sshd_rights,
    variables_for,
)
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.held_namespaces import enter, held, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.system import devices
from tare.system.node import Pod
from tare.system.process import run

START: Final = "/.singularity.d/actions/start"
"""The program that an instance starts with. Only images that Apptainer has built have it."""
WRITE: Final = 'mkdir -p "${0%/*}" && printf \'#!/bin/sh\\nexit 0\\n\' > "$0" && chmod 755 "$0"'


class ApptainerInstance(Apptainer):
    """Run in an instance of Apptainer."""

    name = "apptainer-instance"
    holds_containers = True
    one_container = True

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        with held(request) as holder, pod_group(request) as group:
            inside = enter(holder)
            entry = {"cgroups": [str(folder) for folder in group.folders], "argv": list(inside)}
            try:
                _run(entry, ("/bin/sh", "-c", WRITE, _script(request)), "writing the start script of an instance")
                _run(entry, self.start_command(request), f"starting the instance {request.name}")
                pid = _first_pid(entry, request)
                show_boot_id(request.node, pid, user="--userns" in self.privileges)
                yield Pod(
                    name=request.name,
                    node=request.node,
                    runtime=self.name,
                    pid=pid,
                    enter=(*inside, *self.exec_command(request)),
                    group=group,
                    keepers=frozenset({holder, *_family(pid)} - {request.node.pid}),
                    container=request.name,
                    own_network=request.wiring is Wiring.OWN,
                    outside=inside,
                    setuid=self.setuid(),
                )
            finally:
                with suppress(InfrastructureError):  # it may never have started
                    _run(entry, (*client(request), "instance", "stop", "--force", request.name), "stopping")

    def start_command(self, request: PodRequest) -> tuple[str, ...]:
        """Return the argv that starts the instance."""
        variables = variables_for(_program(), request.variables)
        start = f"--bind={_script(request)}:{START}:ro"
        shown = (*hidden(request), start, *shown_options(request))
        options = (*self.privileges, *sshd_rights(request), *shown, str(self.image(request)), request.name)
        return (*devices.inherited(request.devices), *client(request, *variables), "instance", "start", *options)

    def exec_command(self, request: PodRequest) -> tuple[str, ...]:
        """Return the argv prefix that starts a command in the instance."""
        variables = variables_for(_program(), request.variables)
        options = (*self.privileges, *sshd_rights(request), "--pwd", "/", f"instance://{request.name}")
        return (*devices.inherited(request.devices), *client(request, *variables), "exec", *options)


def client(request: PodRequest, *variables: str) -> tuple[str, ...]:
    """Return the argv of Apptainer with its state in the pod's folder."""
    return ("env", settings(request), *variables, _program())


def _script(request: PodRequest) -> str:
    return f"{request.state or '/tmp/tare-apptainer'}/start"


def _program() -> str:
    program = find_program()
    if program is None:
        raise MissingTool(MISSING)
    return program


def _run(entry: dict[str, list[str]], command: tuple[str, ...], what: str) -> str:
    return run(agent_argv(entry, command), what=what, timeout_s=60).stdout


def _first_pid(entry: dict[str, list[str]], request: PodRequest) -> int:
    """Return the number of the instance's first process on this machine."""
    text = _run(entry, (*client(request), "instance", "list", "--json", request.name), "looking for the instance")
    instances = json.loads(text)["instances"]
    if not instances:
        raise InfrastructureError(f"the instance {request.name} is not running")
    return outer_pid(request.node, int(instances[0]["pid"]))


def _family(pid: int) -> set[int]:
    """Return an instance's first process with its parent, which is Apptainer's own."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return {pid, int(file.read().rsplit(")", 1)[1].split()[1])} - {1, os.getpid()}
    except OSError:
        return {pid}
