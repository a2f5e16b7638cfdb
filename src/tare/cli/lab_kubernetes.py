"""Have a real Kubernetes on a lab that stays up: a process of tare keeps its daemons until the lab is removed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tare.cli import lab_state
from tare.clusters.pods import api, in_lab
from tare.clusters.pods.in_lab import LabKubernetes
from tare.errors import InfrastructureError, RefusedError, UsageError
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.cache import Progress, silent
from tare.images.convert import ensure_file, image_tag
from tare.images.recipe import service
from tare.system import process
from tare.system.node.owners import owner
from tare.system.paths import run_folder
from tare.system.user_namespace import is_real_root

STATE: Final = "kubernetes.json"
LOG: Final = "kubernetes.log"
PAUSE_S: Final = 0.5


def refuse(subnets: int) -> None:
    """Raise the reason why a lab cannot have a Kubernetes here, before anything of it is made."""
    if not is_real_root():
        raise UsageError("a Kubernetes in a lab needs root", remedy="run as root, or leave --kubernetes out")
    if subnets > 1:
        raise UsageError("a Kubernetes in a lab has its nodes in one subnet", remedy="leave --subnets out")
    if reason := api.probe() or in_lab.probe():
        raise RefusedError(f"a Kubernetes cannot be started in a lab: {reason}")


def images(progress: Progress = silent) -> dict[str, Path]:
    """Return the images that the nodes get, by tag, as Docker archives; build what is missing first."""
    made = [ensure_image(recipe, progress=progress) for recipe in (find_recipe(), service())]
    return {image_tag(each): ensure_file(each, "docker-archive", progress=progress).path for each in made}


def start(name: str, folder: Path) -> None:
    """Start the process that keeps a Kubernetes on a lab, and wait until every node is ready."""
    arguments = ("lab", "kubernetes", "--name", name)
    if (said := lab_state.start_keeper(arguments, folder / LOG, folder / STATE)) is not None:
        raise InfrastructureError(f"the lab's Kubernetes did not come up: {said}")


def keep(name: str) -> None:
    """Keep a Kubernetes on a lab that is up, until a signal arrives, one of its daemons ends, or the lab does."""
    made = lab_state.lab_that_is_up(name)
    if made is None or state(name) is not None:
        raise UsageError(f"there is no lab {name} without a Kubernetes", remedy="use `tare lab up --kubernetes`")
    folder = run_folder() / f"{name}-stays"
    with in_lab.running(made.nodes, folder) as kept, suppress(KeyboardInterrupt):
        imported = images()
        for archive in imported.values():
            kept.import_image(archive)
        _note(folder, kept.kubeconfig, tuple(imported))
        try:
            ended = None
            while lab_state.is_alive(made) and (ended := _ended(kept)) is None:
                time.sleep(PAUSE_S)
            if ended is not None:
                raise InfrastructureError(f"{ended} has ended", remedy="remove the lab with `tare lab down`")
        finally:
            (folder / STATE).unlink(missing_ok=True)


def state(name: str) -> dict[str, Any] | None:
    """Return the note of a lab's Kubernetes, or None if it has none or the process that kept it has ended."""
    return lab_state.noted(run_folder() / f"{name}-stays" / STATE)


def end(name: str) -> None:
    """End a lab's Kubernetes, if it has one; what its process cannot undo in time goes with the lab."""
    if (noted := state(name)) is not None:
        lab_state.end_keeper(noted)


def lines(name: str) -> list[str]:
    """Return what `tare lab status` says of a lab's Kubernetes."""
    folder = run_folder() / f"{name}-stays"
    if (noted := state(name)) is not None:
        names = ", ".join(noted["images"])
        return [f"  kubernetes  export KUBECONFIG={noted['kubeconfig']}", f"  images on its nodes: {names}"]
    if not (folder / LOG).exists():
        return []
    return [f"  kubernetes has ended ({process.end_of(folder / LOG)}): start again after `tare lab down`"]


def _note(folder: Path, kubeconfig: Path, images: Sequence[str]) -> None:
    noted = {**owner(), "kubeconfig": str(kubeconfig), "images": images}
    (folder / f"{STATE}.new").write_text(json.dumps(noted))
    (folder / f"{STATE}.new").rename(folder / STATE)


def _ended(kept: LabKubernetes) -> str | None:
    """Return which of a Kubernetes' daemons has ended, or None."""
    daemons = (kept.kubernetes.api, *kept.kubernetes.kubelets, *kept.daemons)
    names = (f"{each.name} on {each.place.node.name}" for each in daemons if each.process.poll() is not None)
    return next(names, None)
