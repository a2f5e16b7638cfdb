"""Choose the variables of the user's environment that an MPI left as it is needs on its hosts. Pure.

Daemons get few variables from `tare.mpi.launch.agent`, because settings that happen to be there would differ between
sites. An MPI of the site is measured with them: those of its modules, its MCA parameters, those of UCX and libfabric.
Only names are listed, so that no value is stored with the results. A container gets settings, and no paths of the
host: they mean nothing inside it, or replace a library of the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

SETTINGS: Final = (
    "FI_", "HCOLL_", "HFI_", "IBV_", "I_MPI_", "MLX4_", "MLX5_", "MPICH_", "MPIR_", "MV2_", "MVP_", "OMPI_MCA_",
    "OPAL_", "PMIX_MCA_", "PRTE_MCA_", "PSM2_", "PSM3_", "PSM_", "RDMAV_", "ROMIO_", "SHARP_", "UCC_", "UCX_",
    "CUDA_VISIBLE_", "HIP_VISIBLE_", "ROCR_VISIBLE_", "GOMP_", "KMP_", "OMP_",
)  # fmt: skip
"""Prefixes of the settings of MPIs, of the libraries that they send messages with, and of threads."""

PLACES: Final = (
    "CRAY_", "LD_LIBRARY_PATH", "LD_PRELOAD", "LMOD_", "LOADEDMODULES", "MODULEPATH", "MODULESHOME", "MPI_DIR",
    "MPI_HOME", "MPI_ROOT", "_LMFILES_",
)  # fmt: skip
"""Prefixes of what modules set to show where their software is."""

OF_THE_LAUNCHER: Final = (
    "I_MPI_HYDRA_", "I_MPI_PORT_RANGE", "OMPI_MCA_ess", "OMPI_MCA_oob_tcp_dynamic", "OMPI_MCA_plm", "OMPI_MCA_ras",
    "PRTE_MCA_ess", "PRTE_MCA_plm", "PRTE_MCA_prte_oob_tcp_dynamic", "PRTE_MCA_ras",
)  # fmt: skip
"""Prefixes of settings that only the launcher needs: a daemon that is given its agent, for example, ends with an error.
"""

PATHS: Final = ("_dir", "_file", "_home", "_path", "_prefix", "_root")
"""Ends of the names of settings whose values are paths of the host (`FI_PROVIDER_PATH`, `OPAL_PREFIX`)."""


def kept_names(environment: Iterable[str], *, inside: bool) -> tuple[str, ...]:
    """Return the names of the variables that daemons and ranks get; `inside`: those of a container."""
    names = sorted(name for name in environment if name.startswith(SETTINGS + PLACES))
    return tuple(name for name in names if not name.startswith(OF_THE_LAUNCHER) and not (inside and is_place(name)))


def is_place(name: str) -> bool:
    """Return whether a variable says where something is on the host."""
    return name.startswith(PLACES) or name.lower().endswith(PATHS)


def dropped_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a rank must not take along from a daemon outside into its container."""
    return tuple(sorted(name for name in environment if name.startswith(SETTINGS + PLACES) and is_place(name)))
