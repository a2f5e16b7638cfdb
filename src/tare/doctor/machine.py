"""Run `tare doctor`: show what this machine can run, what is missing and how to install it, and whether it is quiet."""

from __future__ import annotations

import os
import time
from itertools import product
from pathlib import Path
from typing import Final

from tare.cluster import CLUSTERS
from tare.counters import scheduling
from tare.errors import EXIT_DONE, EXIT_INFRASTRUCTURE
from tare.host.topology import in_words, read_topology
from tare.images import DEFAULT, RECIPES, mpi_programs
from tare.images.build import list_images
from tare.model import Environment, Placement
from tare.mpi import MPIS
from tare.mpi.defaults import with_transport
from tare.networks import NETWORKS, Wiring
from tare.node import limits
from tare.node.cgroups import hierarchies
from tare.node_service import clean
from tare.node_service.probe import probe
from tare.plan import composition
from tare.runtimes import RUNTIMES

QUIET: Final = 0.03
"""Share of one core that others may use before figures suffer: 3 % moved an 8-byte latency only within its interval."""
WATCH_S: Final = 1.0


def show_doctor() -> int:
    """Print the diagnosis; return 0 when at least the baseline can run, else 5."""
    lines, able = diagnosis()
    print("\n".join(lines))
    return EXIT_DONE if able else EXIT_INFRASTRUCTURE


def diagnosis() -> tuple[list[str], bool]:
    """Return the lines to print and whether bare runs are possible."""
    lines = [*_machine(), "", "parts"]
    for family, members in (("cluster", CLUSTERS), ("runtime", RUNTIMES), ("network", NETWORKS), ("MPI", MPIS)):
        for name, member in members.items():
            if not member.is_fake:
                lines.append(_line(f"{family} {name}", member.probe(), _version(member)))
    if reason := mpi_programs.on_path():
        lines.append(f"  note    {reason}")
    images = {image.name for image in list_images()}
    missing = {name: f"not built yet: tare image build {name}" for name in RECIPES if name not in images}
    lines += [_line(f"image {name}", missing.get(name)) for name in RECIPES]
    lines.append(_line("limits of containers (memory, CPUs)", limits.missing()))
    lines += ["", "environments (two nodes)"]
    for name, value in environments().items():
        refused = composition.refuse(value, Placement())
        lines.append(f"  no      {name}: {refused}" if refused else _line(name, probe(value)))
    lines += ["", *_quiet(), *_left()]
    able = any(CLUSTERS[name].probe() is None for name in ("lab", "local")) and _available_mpi() is not None
    return lines, able


def environments() -> dict[str, Environment]:
    """Return every environment that the plug-ins can form, by name, with an MPI that is available here."""
    by_name = {}
    mpi = _available_mpi() or "openmpi"
    for runtime, network in product(RUNTIMES.values(), NETWORKS.values()):
        if runtime.is_fake or network.is_fake:
            continue
        plain = not runtime.makes_containers and network.wiring is Wiring.NODE
        name = runtime.name if plain else f"{runtime.name}+{network.name}"
        image = DEFAULT if runtime.needs_image else ""
        stated = Environment(name=name, runtime=runtime.name, network=network.name, mpi=mpi, image=image)
        by_name[name] = with_transport(stated)
    return by_name


def _available_mpi() -> str | None:
    """Return the first MPI that is available here, None without any."""
    return next((name for name, mpi in MPIS.items() if not mpi.is_fake and mpi.probe() is None), None)


def _machine() -> list[str]:
    cpus = in_words(read_topology(os.sched_getaffinity(0)))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    groups = hierarchies()
    version = f"cgroup v{groups[0].version}" if groups else "no writable cgroup (cores are limited by affinity only)"
    user = "root" if os.geteuid() == 0 else "an ordinary user: labs without daemons"
    return [f"machine: {cpus}, {memory:.0f} GiB, Linux {os.uname().release}, {version}, {user}"]


def _line(what: str, reason: str | None, detail: str = "") -> str:
    mark = "ok     " if reason is None else "missing"
    return f"  {mark} {what}{f'  ({detail})' if detail and reason is None else ''}{f': {reason}' if reason else ''}"


def _version(member: object) -> str:
    version = getattr(member, "version", None)
    return str(version()) if version is not None else ""


def _quiet() -> list[str]:
    """Watch the machine for a moment and report the CPU time that other programs and guests use."""
    before, started = scheduling.machine_times(), time.monotonic()
    own = time.process_time()
    time.sleep(WATCH_S)
    after, elapsed = scheduling.machine_times(), time.monotonic() - started
    others = max(0.0, after[0] - before[0] - (time.process_time() - own)) / elapsed
    steal = (after[1] - before[1]) / elapsed
    load = Path("/proc/loadavg").read_text().split()[0]
    quiet = others <= QUIET and steal <= QUIET
    verdict = "quiet enough" if quiet else "NOT quiet: figures will have wide intervals; end other programs"
    return [f"noise: others use {others:.1%} of a core, steal {steal:.1%}, load {load}: {verdict}"]


def _left() -> list[str]:
    leftovers = clean.find(dead_only=True)
    return [f"left behind by killed runs: {len(leftovers)} items; `tare clean` removes them"] if leftovers else []
