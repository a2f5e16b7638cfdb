"""What becomes of two ranks that srun starts, by the MPI and the PMI: on the nodes and in containers of Apptainer.

`TARE_UPDATE_GOLDEN=1` writes what was seen into docs/compatibility.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from compatibility_table import FILE, MPIS_SHOWN, written_by_srun
from integration.live import live
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import UID
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.kernels import ensure_kernels
from tare.mpi import MPIS
from tare.runtimes.apptainer import find_program
from tare.study.feasibility.compatibility import JobOutcome
from tare.system.paths import cache_folder

pytestmark = [*live("slurm", "apptainer", "mmdebstrap"), pytest.mark.long]
PMIS = ("pmix", "pmi2")
PLACES = ("on the nodes", "in Apptainer")
LIMIT_S = 60
TIMED_OUT = 124
TRIES = 3
"""Of what did not end: about one `srun` in thirty hangs, and so does what cannot work."""
SRUN = "srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --mem=0 --quiet --input=none --kill-on-bad-exit=1"
SETTINGS = (
    "UCX_TLS=self,sysv,tcp UCX_NET_DEVICES=data0 OMPI_MCA_btl_tcp_if_include=data0 "
    "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp FI_TCP_IFACE=data0"
)
"""MPICH 5 over libfabric: over UCX, Slurm's pmi2 cuts a request of it in some launches (docs/compatibility.md)."""

Cell = tuple[str, str, str]
"""An MPI, a PMI and a place."""


@pytest.fixture(scope="module")
def seen() -> Mapping[Cell, JobOutcome]:
    with slurm_nodes(2) as cluster:
        commands = {(mpi, place): command(cluster, mpi, place) for mpi in MPIS_SHOWN for place in PLACES}
        return {
            (mpi, pmi, place): outcome(cluster, pmi, commands[mpi, place])
            for mpi in MPIS_SHOWN for pmi in PMIS for place in PLACES
        }  # fmt: skip


def command(cluster: SlurmNodes, mpi: str, place: str) -> str:
    """Return the command of a rank, whose files are lent to the user."""
    if place == PLACES[0]:
        program = lent(cluster.cache, ensure_kernels(mpi).prefix) / "bin" / "tare-kernels"
        return f"{shlex.quote(str(program))} latency:bytes=8,iterations=50,warmup=5"
    root = lent(cluster.cache, ensure_image(find_recipe(f"debian-{mpi}")).rootfs.parent) / "rootfs"
    options = "exec --no-privs --userns --no-mount home,cwd --pwd /"
    return f"{find_program()} {options} {root} /opt/tare/bin/tare-kernels latency:bytes=8,iterations=50,warmup=5"


def lent(cache: Path, place: Path) -> Path:
    """Copy a folder of the tests' cache into the user's."""
    kept = cache / "tare" / place.relative_to(cache_folder())
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(("cp", "-a", "--reflink=auto", str(place), str(kept)), check=True)
        subprocess.run(("chown", "-R", f"{UID}:{UID}", str(cache / "tare")), check=True)
    return kept


def outcome(cluster: SlurmNodes, pmi: str, rank: str) -> JobOutcome:
    """Return what becomes of two ranks on two nodes."""
    started = f"timeout {LIMIT_S} env {SETTINGS} {SRUN} --mpi={pmi} {rank}"
    for _ in range(TRIES):
        ended = cluster.shell(f"salloc --nodes=2 --exclusive --quiet {started}")
        if ended.returncode != TIMED_OUT:
            break
    if ended.returncode == 0:
        return JobOutcome.WORKS
    return JobOutcome.ALONE if "needs at least 2 ranks and there is 1" in ended.stderr else JobOutcome.FAILS


def test_a_rank_works_in_a_container_by_the_pmi_by_which_it_works_on_the_node(seen: Mapping[Cell, JobOutcome]) -> None:
    works = [[seen[mpi, pmi, place] is JobOutcome.WORKS for mpi in MPIS_SHOWN for pmi in PMIS] for place in PLACES]
    assert works[0] == works[1]


def test_the_pmis_of_a_member_are_those_that_work(seen: Mapping[Cell, JobOutcome]) -> None:
    works = {mpi: tuple(pmi for pmi in PMIS if seen[mpi, pmi, PLACES[0]] is JobOutcome.WORKS) for mpi in MPIS_SHOWN}
    assert works == {mpi: MPIS[mpi].pmis for mpi in MPIS_SHOWN}


def test_the_table_in_docs_is_what_was_seen(seen: Mapping[Cell, JobOutcome]) -> None:
    path = Path(__file__).parents[2] / FILE
    text = written_by_srun(path.read_text(), seen, PMIS, PLACES)
    if os.environ.get("TARE_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert path.read_text() == text
