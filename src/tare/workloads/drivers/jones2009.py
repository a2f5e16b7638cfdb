"""Simulate the Jones 2009 model on all ranks of a job and print one line of what came out.

Started by an MPI launcher, one process a rank, with the Python that has hnn-core, NEURON and mpi4py. hnn-core's own
MPIBackend would start a launcher inside, and end every process named `nrniv` of the machine: here NEURON's
ParallelContext takes the ranks that there are. It is no part of the package `tare` and imports nothing of it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time


def main() -> int:
    """Run the model; return the exit status."""
    options = _options()
    _keep_to_the_mpi()
    begun_s = time.monotonic()
    # MPI is begun before NEURON is imported, whose ParallelContext then sees it.
    mpi = importlib.import_module("mpi4py.MPI")
    hnn_core = importlib.import_module("hnn_core")
    world = mpi.COMM_WORLD
    import_s = time.monotonic() - begun_s
    begun_s = time.monotonic()
    network = hnn_core.jones_2009_model(mesh_shape=(options.mesh, options.mesh), add_drives_from_params=True)
    build_s = time.monotonic() - begun_s
    if _told_ranks() not in {None, world.Get_size()}:
        sys.stderr.write(f"jones2009: mpi4py sees {world.Get_size()} ranks, the launcher started {_told_ranks()}\n")
        world.Abort(1)
    world.Barrier()
    begun_s = time.monotonic()
    dipoles = hnn_core.simulate_dipole(network, tstop=options.tstop, n_trials=1, postproc=False)
    sim_s = time.monotonic() - begun_s
    import_s, build_s, sim_s = (world.allreduce(value, op=mpi.MAX) for value in (import_s, build_s, sim_s))
    ranks = _neuron_ranks()
    if ranks != world.Get_size():
        sys.stderr.write(f"jones2009: NEURON sees {ranks} ranks, MPI has {world.Get_size()}\n")
        world.Abort(1)
    if world.Get_rank() == 0:
        aggregate = dipoles[0].data["agg"]
        spikes = len(network.cell_response.spike_times[0])
        told = (
            f"hnn_core {hnn_core.__version__} np {ranks} tstop {options.tstop:g} mesh {options.mesh}"
            f" import_s {import_s:.6g} build_s {build_s:.6g} sim_s {sim_s:.6g}"
            f" nspikes {spikes} agg_sum {aggregate.sum():.10g} agg_max {aggregate.max():.10g}\n"
        )
        sys.stdout.write("\n" + told)
        sys.stdout.flush()
    world.Barrier()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The Jones 2009 model on all ranks of an MPI job.")
    parser.add_argument("--tstop", type=float, default=170.0, help="simulated time in ms")
    parser.add_argument("--mesh", type=int, default=10, help="side of the grid of cells")
    return parser.parse_args()


def _keep_to_the_mpi() -> None:
    """Tell mpi4py and NEURON of the MPI that tare's preloaded library belongs to: left alone they take the system's."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = (line.split(maxsplit=5)[-1].strip() for line in maps)
        found = next((path for path in paths if re.search(r"/libmpi(ch)?\.so\.(12|40)[^/]*$", path)), None)
    if found:
        os.environ.setdefault("MPI4PY_MPIABI", "mpich" if ".so.12" in found else "openmpi")
        os.environ.setdefault("MPI4PY_LIBMPI", found)
        os.environ.setdefault("MPI_LIB_NRN_PATH", found)


def _told_ranks() -> int | None:
    """Return how many ranks the launcher says there are, None where it does not."""
    told = next((os.environ[name] for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") if name in os.environ), None)
    return int(told) if told else None


def _neuron_ranks() -> int:
    return int(importlib.import_module("neuron").h.ParallelContext().nhost())


if __name__ == "__main__":
    sys.exit(main())
