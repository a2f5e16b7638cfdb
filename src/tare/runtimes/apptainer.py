"""`apptainer`: a container of Apptainer (or Singularity) on the node, from the image's root file system.

There is no daemon and nothing to hold: a container lives as long as the command that `apptainer exec` starts in it, and
shares all namespaces except mounts with its node. Only the pod's network is held, if the pod has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tare.daemons import ssh
from tare.errors import MissingTool, RefusedError
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers.held_namespaces import enter, held, limited_containers, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system import caller_variables, devices
from tare.system.binds import Bind, format_bind, mount_fields
from tare.system.node import Client, Container, Pod
from tare.system.packages import install, script
from tare.system.process import find, run
from tare.system.user_namespace import is_real_root

PROGRAMS: Final = ("apptainer", "/opt/tare/apptainer/bin/apptainer", "singularity")
"""The system's, the one that tools/apptainer unpacks, and the older name, which in Debian is a game's."""

SETTINGS: Final = "APPTAINER_CONFIGDIR=/tmp/tare-apptainer"
"""Where Apptainer looks for user settings. It creates the folder at each start, and a node has no home of its own."""

GPU_OPTIONS: Final = MappingProxyType({devices.NVIDIA: "--nv", devices.ROCM: "--rocm"})
"""What binds the libraries of a GPU's driver, by the word that asks for it; device nodes are visible anyway."""

VERSION: Final = re.compile(r"(?:apptainer|singularity(?:-\w+)?) version \S+")
MISSING: Final = (
    f"neither apptainer nor singularity is installed: run {script('tools/apptainer')} on Debian 12, "
    f"or {install('apptainer')} where it is packaged"
)


class Apptainer(Runtime):
    """Run in containers of Apptainer."""

    name = "apptainer"
    other_names = ("singularity", "singularity-ce")
    runs_sshd = True
    programs = MappingProxyType({"apptainer": "apptainer"})
    clients = ("apptainer", "singularity")

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu in GPU_OPTIONS:
            return None
        return f"{self.name} gives its containers no CDI devices (apptainer exec): use devices: nvidia or rocm"

    def probe(self) -> str | None:
        program = find_program()
        if program is None:
            return MISSING
        if not self.version():
            installs = f"run {script('tools/apptainer')}, or {install('apptainer')}"
            return f"{program} does not start, or is another program: {installs}"
        return None

    def probe_sshd(self) -> str | None:
        if is_real_root():
            return None
        return f"an sshd in a container of {self.name} needs root: use launch: hybrid or exec"

    def version(self) -> str:
        """Return name and version, as in `apptainer 1.4.5`, or "" if there is none that starts."""
        program = find_program()
        if program is None:
            return ""
        match = VERSION.match(run((program, "--version"), check=False, timeout_s=20).stdout)
        return match.group().replace(" version ", " ") if match else ""

    def client(self, request: PodRequest) -> Client:
        folder, _, value = settings(request).partition("=")
        return Client(
            programs=dict.fromkeys(self.clients, find_program() or self.name),
            variables={folder: value},
            words={"image": str(self.image(request))},
        )

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        command = self.command(request)
        with held(request) as pid, pod_group(request) as group:
            yield Pod(
                name=request.name,
                node=request.node,
                runtime=self.name,
                pid=pid,
                enter=(*enter(pid), *command),
                group=group,
                keepers=frozenset({pid} - {request.node.pid}),
                own_network=request.wiring is Wiring.OWN,
                outside=enter(pid),
                setuid=self.setuid(),
            )

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        if self.one_container:
            return super().containers(pod, request, cores)
        return limited_containers(pod, request, cores, self.command(request, alone=True))

    def command(self, request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
        """Return the argv prefix that starts a command in a container; see `exec_options`."""
        program = find_program()
        if program is None:
            raise MissingTool(MISSING)
        options = exec_options(request, self.image(request), self.privileges, alone=alone)
        variables = variables_for(program, request.variables)
        apptainer = ("env", settings(request), *variables, program, *options, *self.stays)
        return (*devices.inherited(request.devices), *apptainer)

    @property
    def privileges(self) -> tuple[str, ...]:
        """Return the options that say with which rights a container is made."""
        return default_rights()

    @property
    def stays(self) -> tuple[str, ...]:
        """Return the argv prefix inside that keeps a container's first command running as long as its children."""
        return ()

    def setuid(self) -> str:
        """Return the setuid program that helps to start a container."""
        return setuid(find_program() or "")

    def image(self, request: PodRequest) -> Path:
        """Return the image that a container starts from."""
        if request.rootfs is None:
            raise RefusedError("a container of apptainer needs an image")
        return request.rootfs


def settings(request: PodRequest) -> str:
    """Return the variable that names the folder of Apptainer's user settings."""
    return f"{SETTINGS.partition('=')[0]}={request.state}/apptainer" if request.state else SETTINGS


def default_rights() -> tuple[str, ...]:
    """Return the options for root, or for an ordinary user, who needs a user namespace.

    Root of a user namespace is not root to Apptainer, unless Apptainer creates one more namespace.
    """
    return ("--no-privs",) if is_real_root() else ("--no-privs", "--userns")


def exec_options(
    request: PodRequest, image: Path, rights: tuple[str, ...] | None = None, *, alone: bool = False
) -> tuple[str, ...]:
    """Return the arguments of `apptainer` that start a command in a container; `alone`, one rank of several containers.

    The container sees its node's /proc, /sys, /dev, /tmp and /dev/shm, as is Apptainer's default: all containers of a
    node share memory and MPI's session folders. Apptainer would also show the home and the working folder; only the
    latter is shown, and only if the request has one. The container gets no capability: otherwise Apptainer gives root
    all of them, and fails if the machine's root lacks one. The node's devices are already visible, so none is bound:
    Apptainer mounts its binds `nodev`. A rank alone is shown the session folder of the MPI's daemon, which runs
    outside. `rights` are by default those of `default_rights`, and those that an sshd needs if one is to work inside.
    """
    rights = default_rights() if rights is None else rights
    return (
        "exec",
        *rights,
        *sshd_rights(request),
        *hidden(request),
        "--pwd",
        (alone and request.files.cwd) or "/",
        *shown_options(request, alone=alone),
        str(image),
    )


def hidden(request: PodRequest) -> tuple[str, ...]:
    """Return the options that hide folders of the node which Apptainer shows unasked.

    A lab's node has a /tmp of its own, but its /var/tmp is the machine's, where a container of root's could leave files
    of root's for other users.
    """
    if request.node.is_machine:
        return ("--no-mount", "home,cwd")
    return ("--no-mount", "home,cwd,tmp", "--bind=/tmp:/tmp")


def sshd_rights(request: PodRequest) -> tuple[str, ...]:
    """Return the option that gives an sshd inside the rights that it needs, if there is to be one."""
    return (f"--add-caps={','.join(ssh.RIGHTS)}",) if request.files.sshd else ()


def shown_options(request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
    """Return the options that say what a container sees of its node."""
    shown = tuple(map(shown_as, request.folders))
    session = (f"--bind={request.session}:{request.session}",) if alone else ()
    locked = (f"--bind={request.files.sshd}:{ssh.SEPARATION}:ro",) if request.files.sshd else ()
    return (*(GPU_OPTIONS[gpu] for gpu in request.gpus), *shown, *session, *locked)


def shown_as(bind: Bind) -> str:
    """Return the option that shows a folder; `--bind` would take a colon or a comma of its path for a separator."""
    if any(character in bind.source + bind.target for character in ":,\\"):
        return f"--mount={mount_fields(bind, read_only='ro')}"
    return f"--bind={format_bind(bind)}"


def variables_for(program: str, variables: Sequence[str]) -> tuple[str, ...]:
    """Return the variables that set a container's environment through Apptainer: `--env` would split at commas."""
    prefix = "SINGULARITYENV" if Path(program).name == "singularity" else "APPTAINERENV"
    return tuple(f"{prefix}_{variable}" for variable in variables)


def setuid(program: str) -> str:
    """Return the setuid program that helps to start a container, by how Apptainer was built.

    Without one it creates a user namespace; with `--userns` it does so however it was built.
    """
    name, _, value = SETTINGS.partition("=")
    settings = run(
        (program, "buildcfg"), env={**caller_variables.environment(), name: value}, check=False, timeout_s=20
    ).stdout
    if "_SUID_INSTALL=1" not in settings:
        return "none: built without"
    return "starter-suid" if is_real_root() else "none: starter-suid is there, and not used with --userns"


def find_program() -> str | None:
    """Return the path of Apptainer or Singularity, or None."""
    return next((path for name in PROGRAMS if (path := find(name))), None)
