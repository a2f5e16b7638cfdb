"""`podman-hpc`: containers of NERSC's wrapper of rootless Podman, which start from a squashed image, on a machine.

As with `podman-hpc shared-run`, a pod is one container that sleeps, and all ranks of a node enter it. The image is
migrated once, before a study's first trial: its files are one squashfs in an additional image store, which squashfuse
mounts, with fuse-overlayfs over it. What podman-hpc adds to Podman's command line is part of what is measured: among it
a hook at each start, and `--security-opt seccomp=unconfined`.

Root of the container is the user outside, which is podman-hpc's default. `--userns keep-id` is not used: with it,
fuse-overlayfs 1.10 cannot create links in a container whose image is a squashfs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError, RefusedError
from tare.images.cache import Progress, locked, write_atomically
from tare.images.usage import mark_used
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers import user_podman
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.gpu_options import podman_options
from tare.runtimes.containers.held_namespaces import on_cores
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system import caller_variables, devices
from tare.system.node import Pod, marked_processes
from tare.system.packages import script
from tare.system.process import Result, find, run
from tare.system.user_namespace import lacks_ids, user_name

PROGRAMS: Final = ("podman-hpc", "/opt/tare/podman-hpc/bin/podman-hpc")
"""The site's, and the one that tools/podman-hpc unpacks."""

MISSING: Final = (
    f"podman-hpc is not installed: run {script('tools/podman-hpc')} on Debian 12, or install it as the site does"
)
FUSE: Final = Path("/dev/fuse")
IMAGES: Final = Path("overlay-images/images.json")
SETTINGS: Final = (
    '[containers]\n{cgroups}\n[engine]\nlock_type = "file"\nevents_logger = "none"\nruntime = "crun"\n'
    'tmp_dir = "{folder}/t"\n'
)
STORAGE: Final = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/r"\n'
"""Without it, Podman takes its driver `vfs` for a storage that is new, which knows no mount program."""
GRAPH_ROOT: Final = "PODMANHPC_GRAPH_ROOT"
VERSION: Final = re.compile(r"Podman-HPC Version: (\S+)")


class PodmanHpc(Runtime):
    """Run in containers of podman-hpc."""

    name = "podman-hpc"
    starts_from = "docker-archive"
    holds_containers = True
    one_container = True
    isolates_devices = True
    sizes_shared_memory = True
    gives_gpus = True
    limits_each_container = False
    start_s = 1.5
    pod_s = 2.0

    def probe(self) -> str | None:
        if find_program() is None:
            return MISSING
        return "podman-hpc works for ordinary users on a machine, not in the lab: use podman-rootless"

    def probe_machine(self) -> str | None:
        if find_program() is None:
            return MISSING
        if os.geteuid() == 0:
            return "podman-hpc is for ordinary users: run tare as one"
        if not os.access(FUSE, os.R_OK | os.W_OK):
            return f"podman-hpc mounts images by {FUSE}, which this user cannot open: have an administrator allow it"
        return user_podman.missing_program() or lacks_ids() or user_podman.hybrid_cgroups()

    def version(self) -> str:
        """Return name and version, as in `podman-hpc 1.2.2`, or "" if there is none that starts."""
        program = find_program()
        if program is None:
            return ""
        told = run(
            (program, "infohpc"), env={**caller_variables.environment(), "USER": user_name()}, check=False, timeout_s=20
        ).stdout
        match = VERSION.search(told)
        return f"podman-hpc {match.group(1)}" if match else ""

    def stored(self, packed: Path, progress: Progress) -> Path:
        """Return a store with the image migrated, in the cache; make it once."""
        cache = packed.parent.parent.parent
        place = cache / "stores" / packed.parent.name
        mark_used(place)
        with locked(place, what="image for podman-hpc", progress=progress):
            if not image_of(place):
                progress("image: podman-hpc migrate (some seconds)")
                with write_atomically(place) as store:
                    migrate(packed, store)
        return place

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        if request.packed is None:
            raise RefusedError("a container of podman-hpc needs an image")
        folder = Path(request.state)
        user_podman.check_length(folder)
        try:
            prepare(folder)
            _call(folder, request.packed, *run_options(request), what=f"starting {request.name}")
            pid = int((folder / "pid").read_text())
            show_boot_id(request.node, pid, user=True)
            inside = client(folder, request.packed, "exec", request.name)
            yield Pod(
                name=request.name,
                node=request.node,
                runtime=self.name,
                pid=pid,
                enter=(*devices.inherited(request.devices), *on_cores(request.cores), *inside),
                group=request.node.group,
                container=request.name,
                own_network=request.wiring is Wiring.OWN,
                outside=user_podman.in_network(pid) if request.wiring is Wiring.OWN else (),
                setuid=user_podman.SETUID,
            )
        finally:
            with suppress(InfrastructureError):
                _call(folder, request.packed, "rm", "--force", "--time", "0", request.name, check=False)
            end(folder, request.packed)


def find_program() -> str | None:
    """Return the path of podman-hpc, or None."""
    return next((path for name in PROGRAMS if (path := find(name))), None)


def image_of(store: Path) -> str:
    """Return the ID of the image in a store, "" if there is none."""
    try:
        images = json.loads((store / IMAGES).read_text())
        return str(images[0]["id"]) if list((store / "overlay" / "l").glob("*.squash")) else ""
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def client(folder: Path, store: Path, *arguments: str) -> tuple[str, ...]:
    """Return the argv of podman-hpc with its state in a folder, and images in a store."""
    variables = {
        "USER": user_name(),
        "HOME": folder,
        "TMPDIR": folder,
        "SQUASH_DIR": store,
        GRAPH_ROOT: f"{folder}/storage",
        "PODMANHPC_RUN_ROOT": f"{folder}/r",
        "PODMANHPC_CONFIG_HOME": f"{folder}/config",
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
    }
    return ("env", *(f"{name}={value}" for name, value in variables.items()), find_program() or PROGRAMS[0], *arguments)


def run_options(request: PodRequest) -> tuple[str, ...]:
    """Return the arguments of podman-hpc that create the pod's container; never `--privileged`."""
    others = [gpu for gpu in request.gpus if gpu != devices.NVIDIA]
    return (
        "run", "--rm", "--pidfile", f"{request.state}/pid", *user_podman.container_options(request),
        *(("--gpu",) if devices.NVIDIA in request.gpus else ()), *podman_options(others),
        image_of(request.packed) if request.packed else "", "sleep", "infinity",
    )  # fmt: skip


def prepare(folder: Path) -> None:
    """Write the settings of a Podman whose state is in a folder."""
    cgroups = "" if user_podman.UNIFIED.exists() else 'cgroups = "disabled"'
    (folder / "containers.conf").write_text(SETTINGS.format(folder=folder, cgroups=cgroups))
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))


def migrate(archive: Path, store: Path) -> None:
    """Load an image from its archive, and migrate it into a store."""
    folder = Path(tempfile.mkdtemp(prefix="tare-", dir="/tmp"))  # Podman takes no long path
    try:
        prepare(folder)
        _call(folder, store, "load", "--quiet", "--input", str(archive), what="loading the image", timeout_s=600)
        loaded = json.loads((folder / "storage" / IMAGES).read_text())[0]["id"]
        told = _call(folder, store, "migrate", loaded, what="migrating the image", timeout_s=600)
        if not image_of(store):  # podman-hpc ends with 0 all the same
            words = (told.stderr or told.stdout).strip().splitlines() or ["it printed no reason"]
            raise InfrastructureError(f"podman-hpc could not migrate the image: {words[-1]}")
    finally:
        end(folder, store)
        shutil.rmtree(folder, ignore_errors=True)


def end(folder: Path, store: Path) -> None:
    """End what Podman leaves of its own in a folder, and remove files that belong to subordinate IDs."""
    with suppress(InfrastructureError):
        _call(folder, store, "unshare", "rm", "-rf", f"{folder}/storage", check=False)
    marked_processes.end_with_variable(GRAPH_ROOT, f"{folder}/storage")


def _call(
    folder: Path, store: Path, *arguments: str, what: str = "", check: bool = True, timeout_s: float = 60.0
) -> Result:
    argv = client(folder, store, *arguments)
    return run(argv, check=check, timeout_s=timeout_s, cwd=Path("/"), what=what or f"podman-hpc {arguments[0]}")
