"""The name of a plug-in is in its own file and its registry, so that adding one touches no other file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tare.cluster import CLUSTERS
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.workloads import WORKLOADS

SOURCE = Path(__file__).parents[3] / "src" / "tare"
FAMILIES: Mapping[str, frozenset[str]] = {
    "cluster": frozenset(CLUSTERS),
    "mpi": frozenset(MPIS),
    "networks": frozenset(NETWORKS),
    "runtimes": frozenset(RUNTIMES),
    "workloads": frozenset(WORKLOADS),
}
DEFAULT = "what a user gets who states none"
LAB = "the commands `tare lab` and `tare network` are about the lab"
BUILDS = "how an MPI is built, packaged or recognised on disk"
STUDY = "a key of a study file"
DOCKER = "the program or daemon itself"
BATCH = "the batch system, which has the name of its cluster"
LAUNCHING = "a way of launching"
OTHER = "the word means something else: a file system, a link type, a key, a folder"
KNOWN: Mapping[str, Mapping[str, str]] = {
    "across/facts.py": dict.fromkeys(("kernels", "lab", "program", "slurm"), OTHER),
    "across/kinds.py": {"program": OTHER},
    "cli/app.py": {"lab": LAB, "bare": DEFAULT, "host": DEFAULT, "openmpi": DEFAULT, "slurm": BATCH},
    "doctor/machine.py": {"lab": LAB, "local": LAB, "openmpi": DEFAULT},
    "cli/groups.py": {"lab": LAB, "bare": DEFAULT, "openmpi": DEFAULT, "docker": OTHER, "kubernetes": LAB},
    "cli/lab_commands.py": {"lab": LAB},
    "cli/lab_kubernetes.py": dict.fromkeys(("lab", "kubernetes"), LAB),
    "cli/lab_state.py": dict.fromkeys(("kubernetes", "slurm"), "a key of a lab's settings"),
    "cli/launch_command.py": {"lab": LAB, "bare": DEFAULT, "openmpi": DEFAULT, "command": STUDY},
    "cli/network_commands.py": {"lab": LAB, "bare": DEFAULT},
    "cli/quick.py": {
        **dict.fromkeys(("bare", "podman", "apptainer", "charliecloud", "openmpi"), DEFAULT),
        **dict.fromkeys(("lab", "program", "command"), STUDY),
    },
    "cli/usage.py": {"commands": OTHER},
    "cli/workload_commands.py": {"program": STUDY},
    "cluster/lab.py": {"bridge": OTHER},
    "containers/held.py": {"overlay": OTHER},
    "containers/user_podman.py": {"host": OTHER, "overlay": OTHER, "podman": "the program itself"},
    "counters/links.py": {"bridge": OTHER},
    "deploy/fit.py": {"openmpi": BUILDS, "mpich": BUILDS},
    "feasibility/compatibility.py": {"openmpi": BUILDS, "mpich": BUILDS},
    "feasibility/compatibility_table.py": dict.fromkeys(("openmpi", "openmpi5", "mpich", "mpich5"), BUILDS),
    "feasibility/preflight.py": {"openmpi": BUILDS},
    "host/holder.py": {"overlay": OTHER},
    "images/mpi_programs.py": dict.fromkeys(("openmpi", "mpich", "intelmpi"), BUILDS),
    "host/packages.py": {
        **dict.fromkeys(("apptainer", "charliecloud", "docker", "mpich", "openmpi", "podman", "slirp4netns"), OTHER)
    },
    "host/wheels.py": dict.fromkeys(("openmpi", "openmpi5", "mpich", "mpich5", "intelmpi"), BUILDS),
    "batch/__init__.py": {"slurm": BATCH},
    "batch/slurm.py": {"slurm": BATCH},
    "images/__init__.py": dict.fromkeys(("openmpi", "openmpi5", "mpich", "mpich5"), BUILDS),
    "images/__main__.py": {"kernels": OTHER, "openmpi": BUILDS},
    "images/build.py": {"kernels": OTHER},
    "images/clusters.py": {"openmpi": BUILDS, "mpich": BUILDS, "docker": OTHER},
    "images/direct_build.py": {"kernels": OTHER},
    "images/convert.py": {"charliecloud": OTHER, "podman": OTHER},
    "images/host_mpi.py": {"openmpi": BUILDS, "mpich": BUILDS},
    "images/inside/inspect.py": {"openmpi": BUILDS, "mpich": BUILDS},
    "images/kernels.py": {"openmpi": BUILDS, "openmpi5": BUILDS, "mpich": BUILDS, "kernels": OTHER},
    "images/recipe.py": dict.fromkeys(("openmpi", "openmpi5", "mpich", "mpich5"), BUILDS),
    "images/usage.py": {"kernels": OTHER, "docker": OTHER},
    "model/choices.py": {"ssh": LAUNCHING},
    "model/study.py": {"openmpi": DEFAULT},
    "mpi/fake_program.py": dict.fromkeys(("miniapp", "program", "startup"), OTHER),
    "node/cgroup_marks.py": {"lab": OTHER},
    "node/cgroups.py": {"host": OTHER},
    "node_service/clean.py": {"docker": OTHER, "lab": OTHER},
    "node/owners.py": {"host": OTHER},
    "node_service/owned.py": {"docker": OTHER, "bridge": OTHER, "macvlan": "a kind of link"},
    "node_service/site_folder.py": {"lab": OTHER},
    "remote/archive.py": {"host": OTHER},
    "remote/machine.py": {"local": "a word of ip-address(8)"},
    "remote/served.py": {"lab": OTHER},
    "plan/cells.py": {"commands": STUDY},
    "plan/grants.py": {"program": OTHER},
    "report/runs.py": {"startup": OTHER},
    "run/facts.py": {"kernels": OTHER, "lab": OTHER},
    "runtimes/podman.py": {"overlay": OTHER, "host": OTHER},
    "runtimes/podman_hpc.py": {"overlay": OTHER},
    "runtimes/podman_rootless.py": {"overlay": OTHER, "host": OTHER},
    "services/docker.py": {"docker": DOCKER},
    "services/docker_api.py": {"docker": DOCKER},
    "mpi/openmpi5.py": {"ssh": LAUNCHING},
    "mpi/site.py": {"ssh": LAUNCHING},
    "kubernetes/api.py": {"kubernetes": "the package of the official client"},
    "kubernetes/in_lab.py": {"bridge": OTHER, "kubernetes": OTHER},
    "kubernetes/lab_networks/flannel.py": {"bridge": OTHER},
    "kubernetes/manifests.py": {"command": OTHER},
    "kubernetes/mpi_jobs/manifest.py": {"command": OTHER},
    "kubernetes/pod_networks/objects.py": {"command": OTHER},
    "kubernetes/policy/manifest.py": {"command": OTHER},
    "kubernetes/session.py": {"command": OTHER},
    "services/kubernetes.py": {"lab": OTHER},
    "services/ssh.py": {"host": OTHER, "ssh": "the program itself"},
    "study/checks.py": dict.fromkeys(("kernels", "miniapp", "program", "commands", "command", "startup"), STUDY),
    "study/editor_schema.py": dict.fromkeys(("kernels", "miniapp", "commands"), STUDY),
    "study/names.py": {"host": DEFAULT},
    "study/schema.py": {"openmpi": DEFAULT, "host": DEFAULT, **dict.fromkeys(("kernels", "lab", "program"), STUDY)},
    "study/shorthand.py": {"host": DEFAULT, **dict.fromkeys(("kernels", "miniapp", "command", "commands"), STUDY)},
    "summary/__init__.py": {"host": OTHER},
    "wiring/host_stack.py": {"macvlan": OTHER, "bridge": OTHER},
    "wiring/link.py": {"bridge": OTHER},
    "wiring/plug.py": {"docker": DOCKER},
    "workloads/drivers/jones2009.py": {"openmpi": BUILDS, "mpich": BUILDS},
    "wiring/ipip.py": {"local": "a word of ip-tunnel(8)"},
}
"""The names that other files have, each with what it stands for there. A new plug-in must add nothing to this table."""


def named() -> Iterator[tuple[str, str]]:
    """Yield each file outside of a family with each name of a member that is a string in its code."""
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE)
        if file.parts[0] == "sources":
            continue
        own = FAMILIES.get(file.parts[0], frozenset())
        names = frozenset().union(*FAMILIES.values()) - own
        for text in sorted(strings(ast.parse(path.read_text())) & names):
            yield str(file), text


def strings(tree: ast.Module) -> set[str]:
    """Return the strings of a module that are no docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    }


def test_the_name_of_a_plug_in_is_known_to_its_family_only() -> None:
    found = set(named())
    known = {(file, name) for file, names in KNOWN.items() for name in names}
    assert sorted(found - known) == [], "let the plug-in say by an attribute what this file asks its name for"
    assert sorted(known - found) == [], "no longer there: remove it from the table"
