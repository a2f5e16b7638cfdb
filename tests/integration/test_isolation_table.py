"""What each runtime exposes and enforces, as ranks saw it from inside, is what docs/environments.md says.

`TARE_UPDATE_GOLDEN=1` writes what was seen into it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from integration.live import live, tare, write_study
from tare.cli import session
from tare.model import Isolation
from tare.runtimes import RUNTIMES
from tare.store.writer import read_only

pytestmark = [*live("docker", "podman", "apptainer", "charliecloud", "mmdebstrap"), pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
BEGIN = "<!-- exposed: written by tests/integration/test_isolation_table.py -->\n"
END = "<!-- end of exposed -->\n"
LEVELS = {name for name in RUNTIMES if name.startswith("apptainer-") and name != "apptainer-sif"}
"""How else Apptainer can start: the container is the same, and some are for ordinary users only."""
ELSEWHERE = {"enroot", "kubernetes", "podman-hpc", "sarus", "sarus-mpi", "shifter"}
"""Those that this test's lab cannot run: of sites, of Kubernetes, of ordinary users."""
NAMES = ("bare", "bare+image", *(name for name in RUNTIMES if name not in {"bare", "fake", *LEVELS, *ELSEWHERE}))


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Isolation]:
    """Run two ranks in every runtime on its node's network, held to 512 MiB where it makes containers."""
    folder = tmp_path_factory.mktemp("isolation")
    study = write_study(
        folder,
        "isolation",
        NAMES,
        placements="[{nodes: 2, ranks_per_node: 1, memory_per_container: 512MiB}]",
        workloads="{micro: {kernels: [{latency: {message_bytes: 8, iterations: 100}}]}}",
    )
    result = tare("run", study, cwd=folder)
    summary = session.summary_of(read_only(folder / "results" / "isolation"))
    found = {each.environment: each for each in summary.isolation}
    assert set(found) == set(NAMES), result.stderr
    return found


def test_the_table_in_docs_is_what_was_seen(facts: dict[str, Isolation]) -> None:
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, "the page has lost the place of its table"
    assert end, "the page has lost the place of its table"
    new = f"{head}{begin}{table(facts)}{end}{tail}"
    if os.environ.get("TARE_UPDATE_GOLDEN") == "1":
        PAGE.write_text(new)
    assert PAGE.read_text() == new


def test_containers_keep_more_from_ranks_than_bare_does(facts: dict[str, Isolation]) -> None:
    bare = facts["bare"]
    assert set(bare.shared) == {"net", "ipc", "uts", "pid", "mnt", "user", "cgroup"}
    assert bare.seccomp == "off"
    for name in set(NAMES) - {"bare"}:
        assert "mnt" not in facts[name].shared, name
    for name in ("docker", "podman"):
        assert facts[name].seccomp == "filter"
        assert facts[name].devices == "the usual"
        assert len(facts[name].capabilities.split(", ")) < 15
    for name in ("apptainer", "apptainer-sif", "charliecloud"):
        assert facts[name].no_new_privileges == "yes"


def table(facts: dict[str, Isolation]) -> str:
    rows = ["| runtime | own namespaces | root is | capabilities | devices | writable | enforced |", f"|{'---|' * 7}"]
    for name in NAMES:
        cells = (f"`{name}`", *exposed(facts[name], facts["bare"]), enforced(facts[name]))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def exposed(fact: Isolation, bare: Isolation) -> tuple[str, ...]:
    """Return what is given to ranks, without what differs from machine to machine."""
    capabilities = fact.capabilities.split(":")[0].split(",")[0]
    if fact.capabilities == bare.capabilities:
        capabilities = "the machine's root's"
    elif fact.capabilities == "all":
        capabilities = "all, in its user namespace"
    root = "the machine's" if fact.users == "the machine's" else "the user"
    return (
        ", ".join(each for each in bare.shared if each not in fact.shared) or "none",
        root if fact.daemon == "none" else f"{root}; {fact.daemon}",
        capabilities,
        re.sub(r" [(][0-9]+[)]", "", fact.devices),
        written(fact.mounts),
    )


def written(mounts: str) -> str:
    """Return where files can be written, without files of /etc and what a run shows of this machine."""
    kept = []
    for part in mounts.split("; "):
        whose, colon, folders = part.partition(": ")
        names = [name for name in folders.split(", ") if not re.match(r"/etc/|/run/\.|.*/kernels/|/tare$", name)]
        if not colon:
            kept.append(part)
        elif names:
            kept.append(f"{whose} {', '.join(names)}")
    return ", ".join(kept)


def enforced(fact: Isolation) -> str:
    """Return what the kernel holds ranks to; the lab gives every node cores, so those are not told."""
    limits = [part for part in fact.limits.split(", ") if not re.match(r"\d+ cores?\b|cores\b", part)]
    parts = [
        f"seccomp {fact.seccomp}" if fact.seccomp != "off" else "",
        "no new privileges" if fact.no_new_privileges == "yes" else "",
        *(part.replace("512 MiB of memory", "memory and CPUs") for part in limits),
    ]
    return ", ".join(part for part in parts if part)
