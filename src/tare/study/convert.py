"""Convert a validated study to `model.Study`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from tare import model
from tare.mpi.defaults import with_transport
from tare.networks.wiring.conflist import PREFIX, is_conflist
from tare.study.cluster_keys import ClusterIn
from tare.study.names import is_path
from tare.study.schema import EnvironmentIn, StudyIn, WorkloadIn
from tare.study.value_types import Checked
from tare.system.binds import absolute, bind_of, format_bind

Made = TypeVar("Made")


def to_model(stated: StudyIn, name: str, base: Path) -> model.Study:
    """Return the study; `name` is used if it has none, relative paths begin at `base`.

    Whether its keys make sense together is left to `checks`.
    """
    environments = tuple(_to_environment(each, fields, base) for each, fields in stated.environments.items())
    placements = tuple(_made(model.Placement, each) for each in stated.placements)
    cluster, lab = next(iter(stated.cluster.items()), ("", ClusterIn()))
    repeat = stated.repetition
    return model.Study(
        name=stated.name or name,
        cluster=cluster,
        lab=_made(
            model.LabSpec,
            lab,
            nodes=lab.nodes or len(lab.hosts) or max(p.nodes for p in placements),
            ssh_config=absolute(lab.ssh_config, base) if lab.ssh_config else "",
            segmented=lab.wire == "segmented",
            slurm=_made(model.SlurmSpec, lab, options=tuple(lab.sbatch), srun=lab.launcher == "srun"),
            kubernetes=_kubernetes(lab, base),
        ),
        baseline=environments[0].name if stated.baseline is None else stated.baseline,
        environments=environments,
        placements=placements,
        workloads=tuple(_to_workload(each, fields, base) for each, fields in stated.workloads.items()),
        repetition=_made(
            model.Repetition, repeat, max_rounds=repeat.max_rounds or repeat.rounds, **repeat.budget.given()
        ),
        margin=stated.margin,
        limit=stated.limit,
        self_comparison=stated.a_a,
        seed=stated.seed,
        published=tuple(_made(model.Published, each) for each in stated.published),
        writable=_writable(stated.writable, base),
    )


def _writable(stated: bool | str, base: Path) -> str:
    return absolute("." if stated is True else stated, base) if stated else ""


def _made(form: type[Made], stated: Checked, **changed: object) -> Made:
    """Return an object of the model from the keys that are its fields, and from those that are `changed`."""
    names = {each.name for each in fields(form)}  # type: ignore[arg-type]
    return form(**{name: value for name, value in stated.given().items() if name in names} | changed)


def _kubernetes(stated: ClusterIn, base: Path) -> model.KubernetesSpec:
    return _made(
        model.KubernetesSpec,
        stated,
        in_lab=stated.kubernetes,
        kubeconfig=absolute(stated.kubeconfig, base) if stated.kubeconfig else "",
        registry=stated.registry.rstrip("/"),
        pull_policy="Never" if stated.kubernetes else stated.pull_policy,
        resources=_pairs(stated.resources),
        annotations=_pairs(stated.annotations),
        pod=json.dumps(stated.pod, sort_keys=True) if stated.pod else "",
    )


def _pairs(given: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in given.items())


def _to_environment(name: str, stated: EnvironmentIn, base: Path) -> model.Environment:
    environment = _made(
        model.Environment,
        stated,
        name=name,
        devices=tuple(dict.fromkeys(stated.devices)),
        image=absolute(stated.image, base) if is_path(stated.image) else stated.image,
        network=network_of(stated.network, base),
        binds=tuple(format_bind(bind_of(text, base)) for text in stated.binds),
        env=_pairs(stated.env),
        link=_made(model.Link, stated.link),
        placement=_made(model.PlacementChange, stated.placement),
    )
    return environment if "transport" in stated.model_fields_set else with_transport(environment)


def network_of(name: str, base: Path) -> str:
    """Return the name of a network, with the path of a CNI configuration made absolute."""
    if not is_conflist(name):
        return name
    return PREFIX + absolute(name.removeprefix(PREFIX), base)


def _to_workload(name: str, stated: WorkloadIn, base: Path) -> model.Workload:
    return _made(
        model.Workload,
        stated,
        name=name,
        kernels=tuple(_made(model.KernelSpec, each) for each in stated.kernels or ()),
        command=_command(stated.command or (), base),
        path="" if stated.path is None else absolute(stated.path, base),
        input="" if stated.input is None else absolute(stated.input, base),
        commands=tuple(_made(model.NodeCommand, each, **each.expect.given()) for each in stated.commands or ()),
        undo=tuple(map(tuple, stated.undo)),
    )


def _command(words: Sequence[str], base: Path) -> tuple[str, ...]:
    """Return a command whose program is named by an absolute path, if by a path; a name alone is looked for later."""
    return tuple(absolute(word, base) if number == 0 and "/" in word else word for number, word in enumerate(words))
