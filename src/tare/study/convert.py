"""Convert a validated study to `model.Study`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tare import model
from tare.mpi.defaults import with_transport
from tare.networks.wiring.conflist import PREFIX, is_conflist
from tare.study.cluster_keys import ClusterIn
from tare.study.command_keys import CommandIn
from tare.study.names import is_path
from tare.study.schema import EnvironmentIn, LinkIn, StudyIn, WorkloadIn
from tare.system.binds import absolute, bind_of, format_bind


def to_model(stated: StudyIn, name: str, base: Path) -> model.Study:
    """Return the study; `name` is used if it has none, relative paths begin at `base`.

    Whether its keys make sense together is left to `checks`.
    """
    environments = tuple(_to_environment(each, fields, base) for each, fields in stated.environments.items())
    placements = tuple(model.Placement(**dict(each)) for each in stated.placements)
    cluster, lab = next(iter(stated.cluster.items()), ("", ClusterIn()))
    repeat = stated.repetition
    return model.Study(
        name=stated.name or name,
        cluster=cluster,
        lab=model.LabSpec(
            **lab.model_dump(include={"cores_per_node", "oversubscribe", "subnets", "pod_addresses"}),
            ssh_config=absolute(lab.ssh_config, base) if lab.ssh_config else "",
            nodes=lab.nodes or len(lab.hosts) or max(p.nodes for p in placements),
            link_rate_bps=lab.link_rate,
            segmented=lab.wire == "segmented",
            hosts=tuple(lab.hosts),
            data_subnet=lab.subnet,
            nics=tuple(lab.nics),
            daemon_hosts=tuple(lab.daemon_hosts),
            slurm=_slurm(lab),
            kubernetes=_kubernetes(lab, base),
        ),
        baseline=environments[0].name if stated.baseline is None else stated.baseline,
        environments=environments,
        placements=placements,
        workloads=tuple(_to_workload(each, fields, base) for each, fields in stated.workloads.items()),
        repetition=model.Repetition(
            **{**repeat.model_dump(exclude={"budget"}), "max_rounds": repeat.max_rounds or repeat.rounds},
            budget_s=repeat.budget.time,
            budget_node_hours=repeat.budget.node_hours,
        ),
        margin=stated.margin,
        limit=stated.limit,
        self_comparison=stated.a_a,
        seed=stated.seed,
        published=tuple(model.Published(**each.model_dump()) for each in stated.published),
        writable=_writable(stated.writable, base),
    )


def _writable(stated: bool | str, base: Path) -> str:
    return absolute("." if stated is True else stated, base) if stated else ""


def _slurm(stated: ClusterIn) -> model.SlurmSpec:
    return model.SlurmSpec(
        **stated.model_dump(include={"partition", "account", "qos", "constraint", "reservation"}),
        time_s=stated.time or 0.0,
        options=tuple(stated.sbatch),
        srun=stated.launcher == "srun",
    )


def _kubernetes(stated: ClusterIn, base: Path) -> model.KubernetesSpec:
    file = stated.kubeconfig
    same = {"context", "namespace", "selector", "node_image", "exclusive", "network_policy"}
    return model.KubernetesSpec(
        **stated.model_dump(include=same),
        in_lab=stated.kubernetes,
        kubeconfig=absolute(file, base) if file else "",
        registry=stated.registry.rstrip("/"),
        pull_policy="Never" if stated.kubernetes else stated.pull_policy,
        pull_secrets=tuple(stated.pull_secrets),
        resources=tuple(f"{name}={value}" for name, value in stated.resources.items()),
        annotations=tuple(f"{name}={value}" for name, value in stated.annotations.items()),
        pod=json.dumps(stated.pod, sort_keys=True) if stated.pod else "",
    )


def _to_environment(name: str, stated: EnvironmentIn, base: Path) -> model.Environment:
    environment = model.Environment(name=name, **{**dict(stated), **_choices(stated, base)})
    return environment if "transport" in stated.model_fields_set else with_transport(environment)


def _choices(stated: EnvironmentIn, base: Path) -> dict[str, object]:
    return {
        "pmi": stated.pmi or "",
        "devices": tuple(dict.fromkeys(stated.devices)),
        "image": absolute(stated.image, base) if is_path(stated.image) else stated.image,
        "network": network_of(stated.network, base),
        "binds": tuple(format_bind(bind_of(text, base)) for text in stated.binds),
        "env": tuple(f"{name}={value}" for name, value in stated.env.items()),
        "link": _link(stated.link),
        "placement": model.PlacementChange(**dict(stated.placement)),
    }


def network_of(name: str, base: Path) -> str:
    """Return the name of a network, with the path of a CNI configuration made absolute."""
    if not is_conflist(name):
        return name
    return PREFIX + absolute(name.removeprefix(PREFIX), base)


def _link(stated: LinkIn) -> model.Link:
    return model.Link(
        mtu=stated.mtu or 0,
        offloads=tuple(sorted(stated.offloads)),
        rps=stated.rps or "",
        delay_s=stated.delay or 0.0,
        rate_bps=stated.rate or 0,
        queue=stated.queue or 0,
        br_netfilter=stated.br_netfilter,
        conntrack=stated.conntrack or model.Tracking.AS_IT_IS,
    )


def _to_workload(name: str, stated: WorkloadIn, base: Path) -> model.Workload:
    kernels = tuple(
        model.KernelSpec(rate_hz=kernel.rate, **kernel.model_dump(exclude={"rate"})) for kernel in stated.kernels or ()
    )
    return model.Workload(
        name=name,
        kernels=kernels,
        command=_command(stated.command or (), base),
        miniapp=stated.miniapp or "",
        program=stated.program or "",
        arguments=tuple(stated.arguments),
        path="" if stated.path is None else absolute(stated.path, base),
        input="" if stated.input is None else absolute(stated.input, base),
        startup=stated.startup,
        commands=tuple(map(_to_command, stated.commands or ())),
        undo=tuple(tuple(words) for words in stated.undo),
        mpi=stated.mpi or "",
        time_limit_s=stated.time_limit,
    )


def _command(words: Sequence[str], base: Path) -> tuple[str, ...]:
    """Return a command whose program is named by an absolute path, if by a path; a name alone is looked for later."""
    return tuple(absolute(word, base) if number == 0 and "/" in word else word for number, word in enumerate(words))


def _to_command(stated: CommandIn) -> model.NodeCommand:
    return model.NodeCommand(
        run=tuple(stated.run),
        exit=stated.expect.exit,
        line=stated.expect.line or "",
        no_line=stated.expect.no_line or "",
        within_s=stated.within or 0.0,
    )
