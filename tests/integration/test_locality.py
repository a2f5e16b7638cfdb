"""MPI sees lab nodes as hosts: shared memory within a node, the network between nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from factory_job import job_of
from integration.live import compiled, lab_site, live, sent_on, wait_for
from tare.clusters.lab_site import LabSite
from tare.images.kernels import ensure_kernels
from tare.model import Environment, Placement
from tare.mpi import MPIS, MpiWiring
from tare.mpi.launch import Launch, write_agent, write_map
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.runtimes.containers.held_namespaces import enter
from tare.system import process
from tare.system.namespaces import plain_python

pytestmark = [*live(), pytest.mark.measures]
MIB_8 = 8 << 20
LITTLE = 64 << 10  # of 128 KiB that neighbours on a node exchange


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locality")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[LabSite]:
    with lab_site(shown=(folder, ensure_kernels("openmpi").prefix)) as made:
        yield made


def result_of(argv: Sequence[str], site: LabSite, timeout_s: float = 60, **variables: str) -> process.Result:
    environment = {**os.environ, **variables, "TARE_LAUNCH_MAP": str(site.folder / "map.json")}
    return process.run(argv, env=environment, timeout_s=timeout_s, check=False)


def run(argv: Sequence[str], site: LabSite, **variables: str) -> str:
    done = result_of(argv, site, **variables)
    assert done.status == 0, (argv, done.stdout, done.stderr)
    return done.stdout + done.stderr


def run_mpich(argv: Sequence[str], site: LabSite) -> str:
    """Run a job of Debian's MPICH (4.0.2 over UCX), which on a busy machine now and then hangs in MPI_Finalize.

    There one rank waits for UCX to flush, the other for it in a PMI barrier; all was said before. So it is run anew.
    """
    for _ in range(4):
        done = result_of(argv, site, timeout_s=15)
        if not done.timed_out:
            break
    assert done.status == 0, (argv, done.stdout, done.stderr)
    return done.stdout + done.stderr


def split(placement: Placement, folder: Path, mpi: str = "openmpi") -> tuple[str, ...]:
    """Return the program; where ranks share a core, and poll, it is given little to do."""
    program = compiled("split", folder, mpi=mpi)
    return (str(program), str(16 << 10)) if placement.ranks_per_node > 1 else (str(program),)


def shared_with(output: str) -> dict[int, int]:
    """Return how many ranks each rank shares memory with, by its own word."""
    found = re.findall(r"rank (\d+) on \S+ shares with (\d+)", output)
    return {int(rank): int(size) for rank, size in found}


def prepared(site: LabSite, up: Deployed, placement: Placement) -> Path:
    write_map(launch_of(site, up, placement, ("true",)), site.folder / "map.json")
    return write_agent(site.folder, plain_python())


def launch_of(site: LabSite, up: Deployed, placement: Placement, program: tuple[str, ...]) -> Launch:
    wiring = MpiWiring(control_subnet=site.control_subnet, data_subnet=up.subnet)
    return MPIS["openmpi"].launch(job_of(up.hosts(placement), placement, wiring, head=site.head, programs=(program,)))


PLACEMENTS = [
    pytest.param(Placement(nodes=2, ranks_per_node=1), {0: 1, 1: 1}, True, id="two nodes"),
    pytest.param(Placement(nodes=1, ranks_per_node=2), {0: 2, 1: 2}, False, id="one node"),
    pytest.param(Placement(nodes=2, ranks_per_node=2), {0: 2, 1: 2, 2: 2, 3: 2}, False, id="two nodes of two"),
]
BARE = Environment(name="bare", runtime="bare", network="host")


def hold_to(before: list[int], after: list[int], *, crosses: bool) -> None:
    """Hold the data NICs to what ranks that are neighbours exchanged: 8 MiB each way, or nothing."""
    for old, new in zip(before, after, strict=True):
        if crosses:
            assert MIB_8 <= new - old <= 1.5 * MIB_8
        else:
            assert new - old < LITTLE


@pytest.mark.parametrize("chosen", ["by tare", "by Open MPI"])
@pytest.mark.parametrize(("placement", "shared", "crosses"), PLACEMENTS)
def test_open_mpi_shares_memory_within_a_node_and_never_between_two(
    placement: Placement, shared: dict[int, int], crosses: bool, chosen: str, site: LabSite, folder: Path
) -> None:
    program = split(placement, folder)
    with deployed(site, BARE, placement, slot=0, nic=0, files=Files(host_prefix=folder)) as up:
        agent = prepared(site, up, placement)
        argv = list(launch_of(site, up, placement, program).argv(str(agent)))
        if chosen == "by Open MPI":  # its own choice of transports, on our nodes
            at = argv.index("btl")
            del argv[at - 1 : at + 2]
        before = sent_on(site, "data0")
        output = run(argv, site, **MPIS["openmpi"].head_environment(str(agent)))
        after = sent_on(site, "data0")
    assert shared_with(output) == shared
    hold_to(before, after, crosses=crosses)


def test_open_mpi_with_shared_memory_alone_cannot_reach_another_node(site: LabSite, folder: Path) -> None:
    program = compiled("split", folder)
    placement = Placement(nodes=2, ranks_per_node=1)
    with deployed(site, BARE, placement, slot=0, nic=0, files=Files(host_prefix=folder)) as up:
        agent = prepared(site, up, placement)
        argv = (*site.head, "mpirun.openmpi", "--allow-run-as-root", "--mca", "pml", "ob1",
                "--mca", "btl", "self,vader",
                "--mca", "plm", "rsh", "--mca", "plm_rsh_pass_environ_mca_params", "0", "--mca", "ras", "^slurm",
                "--bind-to", "none", "--host", "n0:1,n1:1", str(program))  # fmt: skip
        # Whichever rank speaks first: one finds no way to the other, or its first message is a fatal error.
        done = result_of(argv, site, **MPIS["openmpi"].head_environment(str(agent)))
    assert done.status != 0
    assert "shares with" not in done.stdout
    assert "unreachable" in done.stdout + done.stderr or "unable to" in done.stdout + done.stderr


@pytest.mark.requires("mpich")
@pytest.mark.parametrize(
    ("placement", "shared", "crosses"), PLACEMENTS[:2]
)  # its ranks poll: four are slow on two cores
def test_mpich_shares_memory_within_a_node_and_never_between_two(
    placement: Placement, shared: dict[int, int], crosses: bool, site: LabSite, folder: Path
) -> None:
    program = split(placement, folder, "mpich")
    with deployed(site, BARE, placement, slot=0, nic=0, files=Files(host_prefix=folder)) as up:
        agent = prepared(site, up, placement)
        before = sent_on(site, "data0")
        output = run_mpich((*hydra(site, agent, placement), *program), site)
        after = sent_on(site, "data0")
    assert shared_with(output) == shared
    hold_to(before, after, crosses=crosses)


def hydra(site: LabSite, agent: Path, placement: Placement) -> tuple[str, ...]:
    """Return how MPICH's launcher starts a job through tare-agent; its network library is told the data NIC."""
    nics = [part for name in ("UCX_NET_DEVICES", "FI_TCP_IFACE") for part in ("-genv", name, "data0")]
    hosts = ",".join(f"n{node}:{placement.ranks_per_node}" for node in range(placement.nodes))
    return (*site.head, "mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", str(agent), "-iface", "ctl0",
            "-disable-hostname-propagation", *nics, "-hosts", hosts, "-n", str(placement.ranks))  # fmt: skip


@pytest.mark.requires("mpich")
def test_our_kernels_built_for_mpich_run_between_nodes_and_tell_where_they_were(folder: Path) -> None:
    build = ensure_kernels("mpich")
    placement = Placement(nodes=2, ranks_per_node=1)
    with (
        lab_site(shown=(build.prefix,)) as site,
        deployed(site, BARE, placement, slot=0, nic=0, files=Files(host_prefix=folder)) as up,
    ):
        agent = prepared(site, up, placement)
        output = run_mpich(
            (*hydra(site, agent, placement), str(build.program), "latency:bytes=65536,iterations=50", "barrier"), site
        )
    records = [json.loads(line.split("@tare ", 1)[1]) for line in output.splitlines() if "@tare " in line]
    assert "MPICH" in records[0]["mpi_library"]
    places = [record for record in records if record["type"] == "rank"]
    assert [place["hostname"] for place in places] == ["n0", "n1"]
    assert len({place["boot_id"] for place in places}) == 2
    assert [place["shared_memory_ranks"] for place in places] == [[0], [1]]
    assert all(record["verified"] for record in records if record["type"] == "kernel")


@pytest.mark.requires("ucx")
@pytest.mark.parametrize(("client", "transport"), [(1, "tcp/"), (0, "(sysv|posix|cma|mm)/")], ids=["between", "within"])
def test_ucx_shares_memory_within_a_node_and_never_between_two(client: int, transport: str, site: LabSite) -> None:
    for _ in range(3):  # on a busy machine ucx_perftest's server sometimes waits for its client when that has ended
        with suppress(subprocess.TimeoutExpired):
            done, told, sent = ucx_between(site, client)
            break
    else:
        pytest.fail("ucx_perftest's server did not end")
    assert done.status == 0, done.stdout + done.stderr
    for text in (done.stdout, told):
        (lanes,) = re.findall(r"ep_cfg\[0\]: tag\(([^)]*)\)", text)
        for lane in lanes.split():
            assert re.match(transport, lane), text
    assert (sent > 65536 * 64) == (client != 0)


def ucx_between(site: LabSite, client: int) -> tuple[process.Result, str, int]:
    """Run ucx_perftest between the first node and another; return the client, the server's output, the bytes sent."""
    server_node, client_node = site.nodes[0], site.nodes[client]
    test = ("-t", "tag_bw", "-s", "65536", "-n", "64", "-w", "8")
    environment = {**os.environ, "UCX_LOG_LEVEL": "info"}
    port = "13399"
    server = subprocess.Popen(
        (*enter(server_node.pid), "ucx_perftest", "-p", port, *test),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        listening = f":{int(port):04X} "
        wait_for(lambda: listening in Path(f"/proc/{server_node.pid}/net/tcp").read_text(), "server", 10)
        before = sent_on(site, "data0")[client] + sent_on(site, "ctl0")[client]
        argv = (*enter(client_node.pid), "ucx_perftest", server_node.nics[0].address, "-p", port, *test)
        done = process.run(argv, env=environment, timeout_s=30, check=False)
        after = sent_on(site, "data0")[client] + sent_on(site, "ctl0")[client]
        return done, server.communicate(timeout=10)[0], after - before
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)  # nsenter has forked the program
            server.communicate()
