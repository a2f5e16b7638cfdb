"""Write recipes for images of real clusters with hpccm: one source, as a Dockerfile or as a Singularity definition.

hpccm's building blocks compile rdma-core, UCX and the MPI from their sources, at versions that are named here. The text
is printed and nothing is built: building needs a machine with a network and the privilege to build images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tare.errors import MissingTool, UsageError
from tare.system.packages import install_python

VERSIONS: Final = {"openmpi": "4.1.6", "mpich": "4.1.2", "ucx": "1.15.0", "rdma-core": "49.0"}
"""The versions that are compiled: Open MPI and MPICH as close to Debian 12's as this UCX allows."""

BASE: Final = "debian:12"
FORMATS: Final = ("docker", "singularity")
MPIS: Final = ("openmpi", "mpich")
LIKE: Final = {"debian": "ubuntu22"}
"""The distribution that hpccm assumes for one that it does not know: Debian's packages have Ubuntu's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecipe:
    """The contents of a cluster's image, on top of `base`."""

    base: str = BASE
    mpi: str = "openmpi"
    ucx: bool = True
    rdma_core: bool = True


def recipe_text(wanted: ClusterRecipe, form: str) -> str:
    """Return a recipe as a text; raise `UsageError` for an unsupported one, `MissingTool` without hpccm."""
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r} of a recipe", remedy=f"known: {', '.join(FORMATS)}")
    if wanted.mpi not in MPIS:
        raise UsageError(f"no recipe installs the MPI {wanted.mpi!r}", remedy=f"known: {', '.join(MPIS)}")
    hpccm = _hpccm()
    hpccm.config.set_container_format(form)  # before any block is created: each reads the format then
    distribution = LIKE.get(wanted.base.rpartition("/")[2].partition(":")[0], "")
    stage = hpccm.Stage()
    stage += hpccm.primitives.comment(
        f"tare image recipe: {wanted.mpi} for a cluster, {_parts(wanted)}", reformat=False
    )
    stage += hpccm.primitives.baseimage(image=wanted.base, _distro=distribution)
    for block in _blocks(hpccm, wanted):
        stage += block
    return f"{stage}\n"


def _blocks(hpccm: Any, wanted: ClusterRecipe) -> list[Any]:
    blocks = hpccm.building_blocks
    chosen: list[Any] = [
        blocks.gnu(fortran=True),
        blocks.packages(ospackages=["ca-certificates", "cmake", "openssh-client", "openssh-server", "procps"]),
    ]
    if wanted.rdma_core:
        chosen.append(blocks.rdma_core(version=VERSIONS["rdma-core"]))
    if wanted.ucx:
        verbs = {"with_verbs": "/usr/local/rdma-core", "with_rdmacm": "/usr/local/rdma-core"}
        chosen.append(blocks.ucx(version=VERSIONS["ucx"], cuda=False, **(verbs if wanted.rdma_core else {})))
    version = VERSIONS[wanted.mpi]
    if wanted.mpi == "openmpi":
        ucx = {"ucx": "/usr/local/ucx"} if wanted.ucx else {}
        chosen.append(blocks.openmpi(version=version, cuda=False, infiniband=False, **ucx))
    else:
        device = {"with_device": "ch4:ucx", "with_ucx": "/usr/local/ucx"} if wanted.ucx else {"with_device": "ch4:ofi"}
        chosen.append(blocks.mpich(version=version, **device))
    return chosen


def _parts(wanted: ClusterRecipe) -> str:
    parts = [wanted.mpi, *(["ucx"] if wanted.ucx else []), *(["rdma-core"] if wanted.rdma_core else [])]
    return ", ".join(f"{name} {VERSIONS[name]}" for name in parts)


def _hpccm() -> Any:
    try:
        import hpccm
        import hpccm.building_blocks
        import hpccm.primitives
    except ImportError as error:
        raise MissingTool(
            "hpccm is not installed in the Python that runs tare", remedy=f"install it with `{install_python('hpccm')}`"
        ) from error
    return hpccm
