"""The name of a plug-in is in its own file and its registry, so that adding one touches no other file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from source_tree import trees
from tare.clusters import CLUSTERS
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.workloads import WORKLOADS

FAMILIES: Mapping[str, frozenset[str]] = {
    "clusters": frozenset(CLUSTERS),
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
KNOWN: Mapping[str, str] = {
    OTHER: (
        "compare/facts.py: kernels lab program slurm; compare/kinds.py: program; cli/groups.py: docker; "
        "cli/usage.py: commands; clusters/lab_links.py: bridge; runtimes/containers/held_namespaces.py: overlay; "
        "runtimes/containers/user_podman.py: host overlay; system/counters/links.py: bridge; "
        "system/holder.py: overlay; "
        "system/packages.py: apptainer charliecloud docker mpich openmpi podman slirp4netns; "
        "images/__main__.py: kernels; images/build.py: kernels; images/clusters.py: docker; "
        "images/convert.py: charliecloud podman; images/direct_build.py: kernels; images/kernels.py: kernels; "
        "images/usage.py: kernels docker; clusters/pods/in_lab.py: bridge kubernetes; "
        "clusters/pods/lab_networks/flannel.py: bridge; clusters/pods/manifests.py: command; "
        "clusters/pods/mpi_jobs/manifest.py: command; clusters/pods/pod_networks/recognise.py: command; "
        "clusters/pods/policy/manifest.py: command; clusters/pods/session.py: command; "
        "mpi/fake_program.py: miniapp program startup; system/node/cgroups.py: host; "
        "system/node/owners.py: host lab; agent/clean.py: lab; agent/administered.py: docker bridge; "
        "agent/site_folder.py: lab; study/plan/grants.py: program; "
        "report/runs.py: startup; run/facts.py: kernels lab; images/sources/__init__.py: kernels; "
        "runtimes/podman.py: overlay host; runtimes/podman_hpc.py: overlay; "
        "runtimes/podman_rootless.py: overlay host; daemons/kubernetes.py: lab; daemons/ssh.py: host; "
        "analysis/summary/__init__.py: host; networks/wiring/host_stack.py: macvlan bridge; "
        "networks/wiring/link.py: bridge"
    ),
    LAB: (
        "cli/app.py: lab; cli/groups.py: lab kubernetes; cli/lab_commands.py: lab; cli/options.py: lab; "
        "cli/lab_kubernetes.py: lab kubernetes; cli/launch_command.py: lab; cli/network_commands.py: lab"
    ),
    DEFAULT: (
        "cli/options.py: bare host; cli/groups.py: openmpi; "
        "cli/network_commands.py: bare; cli/quick.py: bare podman podman-rootless apptainer charliecloud; "
        "cli/doctor/machine.py: openmpi; model/study.py: openmpi; study/names.py: host; "
        "study/schema.py: openmpi host; study/shorthand.py: host"
    ),
    BATCH: "cli/batch/__init__.py: slurm; cli/batch/slurm.py: slurm; cli/options.py: slurm",
    "a key of a lab's settings": "cli/lab_state.py: kubernetes slurm",
    STUDY: (
        "cli/launch_command.py: command; cli/quick.py: lab program command; cli/workload_commands.py: program; "
        "cli/doctor/machine.py: command; "
        "study/plan/cells.py: commands; study/checks.py: kernels miniapp program commands command startup; "
        "study/schema.py: kernels lab program; "
        "study/shorthand.py: kernels miniapp command commands"
    ),
    "the program itself": "runtimes/containers/user_podman.py: podman; daemons/ssh.py: ssh",
    BUILDS: (
        "study/feasibility/compatibility.py: mpich; "
        "study/feasibility/preflight.py: openmpi; "
        "images/mpi_wheels.py: openmpi openmpi5 mpich mpich5 intelmpi; "
        "images/__init__.py: openmpi openmpi5 mpich mpich5; images/__main__.py: openmpi; "
        "images/clusters.py: openmpi mpich; images/host_mpi.py: openmpi mpich; "
        "images/inside/inspect.py: openmpi mpich; images/kernels.py: openmpi openmpi5 mpich; "
        "images/mpi_programs.py: openmpi mpich intelmpi; images/recipe.py: openmpi openmpi5 mpich mpich5; "
        "workloads/drivers/jones2009.py: openmpi mpich"
    ),
    LAUNCHING: "model/choices.py: ssh; mpi/openmpi5.py: ssh",
    "a kind of link": "agent/administered.py: macvlan",
    "a word of ip-address(8)": "agent/remote/machine.py: local",
    DOCKER: "daemons/docker.py: docker; networks/wiring/plug.py: docker",
    "the package of the official client": "clusters/pods/api.py: kubernetes",
    "a word of somebody's launch line, or of their MPI": (
        "analysis/check/changes.py: apptainer mpich openmpi podman slurm; "
        "analysis/check/facts.py: host mpich openmpi program slurm; "
        "analysis/check/remedies.py: apptainer docker mpich openmpi podman podman-hpc; analysis/check/rules.py: slurm; "
        "mpi/lines/words.py: apptainer docker enroot podman podman-hpc sarus shifter"
    ),
    "a word of ip-tunnel(8)": "networks/wiring/ipip.py: local",
}
"""What names stand for in other files, and those files with the names. A new plug-in must add nothing to this table."""

PARTS = ("clusters/pods/", "mpi/launch/", "mpi/lines/", "networks/wiring/", "runtimes/containers/")
"""What members are made from: it knows the names of none."""


def named() -> Iterator[tuple[str, str]]:
    """Yield each file outside of a family with each name of a member that is a string in its code."""
    for file, tree in trees():
        own = frozenset() if file.startswith(PARTS) else FAMILIES.get(file.partition("/")[0], frozenset())
        names = frozenset().union(*FAMILIES.values()) - own
        yield from ((file, text) for text in strings(tree) & names)


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
    files = [entry.split(": ") for entries in KNOWN.values() for entry in entries.split("; ")]
    known = {(file, name) for file, names in files for name in names.split()}
    assert sorted(found - known) == [], "let the plug-in say by an attribute what this file asks its name for"
    assert sorted(known - found) == [], "no longer there: remove it from the table"
