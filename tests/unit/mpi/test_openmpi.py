"""The argv of every supported environment is as it was: docker's options, the entry of each node, mpirun's line.

`TARE_UPDATE_GOLDEN=1 pytest tests/unit/mpi/test_openmpi.py` writes tests/golden/argv/ anew.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from golden_texts import check_golden
from launches import launch_argv, make_job, settings, values
from nodes import make_node, make_request
from tare.agent import geometry
from tare.model import Binding, Cell, Environment, KernelSpec, Placement, RankOrder, Role, Sides, Workload
from tare.mpi import MPIS
from tare.mpi.launch import Launch
from tare.mpi.openmpi import OpenMpi
from tare.networks import NETWORKS, Wiring
from tare.networks.calico import Calico, pod_address
from tare.run import job, runner
from tare.run.deploy.hosts import Deployed
from tare.runtimes import RUNTIMES
from tare.runtimes.containers import held_namespaces
from tare.runtimes.containers.deployment import IMAGE_PREFIX, Files, is_inside
from tare.runtimes.docker import run_options
from tare.study.plan import composition
from tare.system.namespaces import plain_python
from tare.system.node import Endpoint, Nic, Node, Pod
from tare.system.node.cgroups import Group, Hierarchy
from unit.scripts import speaker

GOLDEN = Path(__file__).parents[2] / "golden" / "argv"
CGROUPS = (Hierarchy(mountpoint=Path("/sys/fs/cgroup/cpuset"), version=1, controllers=("cpuset",)),)
FILES = Files(
    host_prefix=Path("/cache/kernels"), rootfs=Path("/cache/rootfs"), image_tag="tare:0123", shown=("/home/u",)
)
VALUES = {"--mca": 2, "--pmixmca": 2, "--prtemca": 2, "-env": 2, "-genv": 2} | dict.fromkeys(
    (
        "-bind-to", "-genvlist", "-hosts", "-iface", "-launcher", "-rmk",
        "--bind-to", "--cpuset-cpus", "--factor", "--host", "--hostname", "--hosts", "--ip", "--ipc", "--label",
        "--map-by", "--name", "--network", "--ranks-per-node", "--shm-size", "-H", "-n", "-x",
    ),
    1,
)  # fmt: skip
MICRO = Workload(
    name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8), KernelSpec(kernel="spacing", rate_hz=1e4))
)
TWO_NODES = Placement()
APP = Workload(name="app", command=("/home/u/app", "two words"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One environment to write down: its name is the file's."""

    name: str
    environment: Environment
    placement: Placement = TWO_NODES
    workload: Workload = MICRO
    cores: int = 1


def made(name: str, runtime: str, network: str, **more: object) -> Environment:
    image = "debian-openmpi" if RUNTIMES[runtime].needs_image else ""
    mpi = "fake" if runtime == "fake" else "openmpi"
    return replace(Environment(name=name, runtime=runtime, network=network, image=image, mpi=mpi), **more)  # type: ignore[arg-type]


def supported() -> list[Case]:
    """Return a case for every runtime x network x MPI that is not refused, and the special ones."""
    cases = []
    for runtime in ("bare", "docker", "fake"):  # the others have tests of their own argv
        for network in NETWORKS:
            for mpi in MPIS:
                wanted = made(f"{runtime}+{network}+{mpi}", runtime, network, mpi=mpi)
                for nodes in (2, 1):
                    placement = Placement(nodes=nodes)
                    if composition.refuse(wanted, placement) is None:
                        cases.append(Case(name=wanted.name, environment=wanted, placement=placement))
                        break
    image = made("e", "bare", "host", image="debian-openmpi")
    bridge = made("e", "docker", "bridge")
    host = made("e", "bare", "host")
    two = Placement(ranks_per_node=2)
    special = (
        ("bare+image+host+openmpi", image, TWO_NODES, 1),
        ("bare+image+bridge+openmpi", replace(image, network="bridge"), TWO_NODES, 1),
        ("docker+bridge+openmpi, sender only", replace(bridge, sides=Sides.SENDER), TWO_NODES, 1),
        ("docker+bridge+openmpi, receiver only", replace(bridge, sides=Sides.RECEIVER), TWO_NODES, 1),
        ("docker+bridge+openmpi, two ranks a node", bridge, two, 2),
        ("docker+bridge+openmpi, ranks in turn", bridge, replace(two, rank_order=RankOrder.CYCLIC), 2),
        ("bare+host+openmpi, more cores than ranks", host, TWO_NODES, 2),
        ("bare+host+openmpi, bound by the MPI", host, replace(two, binding=Binding.MPI_DEFAULT), 2),
        ("bare+host+openmpi, shared memory", replace(host, transport="shm"), replace(two, nodes=1), 2),
    )
    return [
        *cases,
        Case(name="docker+bridge+openmpi, command", environment=bridge, workload=APP),
        *(
            Case(name=name, environment=environment, placement=placement, cores=cores)
            for name, environment, placement, cores in special
        ),
    ]


CASES = supported()


def node(index: int, cores: int) -> Node:
    return make_node(
        index,
        cores=tuple(range(cores * index, cores * (index + 1))),
        nics=tuple(Nic(name=f"data{k}", address=f"10.214.{k}.{index + 1}", prefix=24) for k in range(2)),
        pid=1000 + index,
        group=Group(path=f"LAB/n{index}", hierarchies=CGROUPS),
        docker_socket=f"/proc/{1000 + index}/root/run/docker.sock",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    nodes: tuple[Node, ...]
    name: str = "LAB"
    head: tuple[str, ...] = ("nsenter", "--net=/proc/999/ns/net", "--")
    control_subnet: str = "10.213.0.0/16"
    control_interface: str = "ctl0"
    folder: Path = Path("/run/tare/LAB")
    allocation: None = None

    def reach(self, _node: Node) -> tuple[str, ...]:
        return ()


def pod(wanted: Environment, at: Node, nic: Nic, lines: list[str]) -> Pod:
    """Return one node's part as the runtime would make it, without making it; its commands go to `lines`."""
    network = NETWORKS[wanted.network]
    in_image = bool(wanted.image)
    request = make_request(
        at,
        study="LAB-3",
        environment=wanted,
        wiring=network.wiring,
        files=FILES,
        network_options=network.container_options(at, "LAB-3") if wanted.runtime == "docker" else (),
    )
    own = network.wiring is not Wiring.NODE or (in_image and wanted.runtime == "bare")
    pid = 2000 + at.index if own or wanted.runtime == "docker" else at.pid
    if wanted.runtime == "docker":
        lines += [f"# container on {at.name}", *lined(("docker", *run_options(request)))]
        entering: tuple[str, ...] = ("docker", "-H", f"unix://{at.docker_socket}", "exec", request.name)
    else:
        entering = held_namespaces.enter(pid) if wanted.runtime == "bare" else ()
    pod = Pod(
        name=request.name,
        node=at,
        runtime=wanted.runtime,
        pid=pid,
        enter=entering,
        group=at.group.below("job"),
        join_groups=wanted.runtime == "bare",
    )
    if wanted.runtime == "fake":
        with ExitStack() as stack:
            endpoint = stack.enter_context(network.attach(pod, nic))
    elif network.wiring is Wiring.DOCKER:
        endpoint = Endpoint(address=f"10.215.0.{100 + at.index}", prefix=24, interface="eth0", mtu=1450)
    elif isinstance(network, Calico):
        endpoint = Endpoint(address=pod_address(nic), prefix=24, interface="eth0", mtu=nic.mtu)
    else:
        endpoint = Endpoint(address=nic.address, prefix=nic.prefix, interface="eth0", mtu=nic.mtu)
    return replace(pod, endpoint=endpoint, prefix=IMAGE_PREFIX if in_image else FILES.host_prefix)


def launched(case: Case, lines: list[str] | None = None) -> Launch:
    site = Site(nodes=tuple(node(i, case.cores) for i in range(case.placement.nodes)))
    pods = []
    pair = (case.environment, case.placement)
    slot = composition.nic_slots([pair])[pair]
    for at in site.nodes:
        inside = is_inside(case.environment.sides, at.index, len(site.nodes))
        wanted = case.environment if inside else geometry.bare_side(case.environment)
        pods.append(pod(wanted, at, at.nics[slot], [] if lines is None else lines))
    up = Deployed(environment=case.environment, pods=tuple(pods))
    cell = Cell(
        key="k",
        group="g",
        role=Role.ENVIRONMENT,
        workload=case.workload,
        environment=case.environment,
        placement=case.placement,
    )
    return job.make_launch(site, cell, up)  # type: ignore[arg-type]


def lined(argv: tuple[str, ...]) -> list[str]:
    """Return an argv with one token a line, but the values of an option behind it."""
    lines, rest = [], list(argv)
    while rest:
        count = 1 + VALUES.get(rest[0], 0)
        lines.append("  " + " ".join(repr(token) if " " in token else token for token in rest[:count]))
        rest = rest[count:]
    return lines


def written(case: Case) -> str:
    lines: list[str] = []
    launch = launched(case, lines)
    for host in launch.hosts:
        agent = launch.agent(host.name)
        lines.append(f"# daemon on {host.name}: {host.ranks} rank(s)")
        argv, *settings = (f"{key} {value}" for key, value in agent.as_json().items())
        lines += [f"  {argv}", f"  {', '.join(settings)}"]
    lines.append("# launcher")
    lines += lined(launch.argv("/run/tare/LAB/tare-agent"))
    if head := MPIS[case.environment.mpi].head_environment("/run/tare/LAB/tare-agent"):
        lines += ["# variables of the launcher alone", *(f"  {key}={value}" for key, value in head.items())]
    return scrubbed("\n".join(lines) + "\n")


def scrubbed(text: str) -> str:
    for program in {shutil.which("mpirun.openmpi"), shutil.which("mpirun")} - {None}:
        text = text.replace(f"  {program}\n", "  MPIRUN\n")
    text = re.sub(r"^  \S*mpiexec\.mpich$", "  MPIEXEC", text, flags=re.MULTILINE)
    source = str(Path(runner.__file__).parents[1])
    return text.replace(source, "TARE").replace(plain_python(), "PYTHON").replace("  mpirun\n", "  MPIRUN\n")


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let entries be those of root of the machine, whoever runs the tests."""
    monkeypatch.setattr(held_namespaces, "is_real_root", lambda: True)


# --- golden -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mpi", sorted({case.environment.mpi for case in CASES}))
def test_the_argv_of_every_environment_is_as_it_was(mpi: str) -> None:
    check_golden(GOLDEN / f"{mpi}.txt", {case.name: written(case) for case in CASES if case.environment.mpi == mpi})


def test_every_golden_file_of_argv_is_one_of_an_mpi() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {case.environment.mpi for case in CASES}


# --- what must hold of every mpirun line --------------------------------------------------------------------------

OPENMPI = [case for case in CASES if case.environment.mpi == "openmpi"]


@pytest.mark.parametrize("case", OPENMPI, ids=lambda case: case.name)
def test_all_cells_give_mpi_the_same_components_so_that_only_the_treatment_differs(case: Case) -> None:
    reference, mine = (dict(settings(launched(each).argv("/agent"), "--mca")) for each in (OPENMPI[0], case))
    tick = "mpi_event_tick_rate"
    by_tcp = len(launched(case).hosts) > 1 and case.environment.transport == "tcp"
    assert (mine.pop(tick, ""), reference.pop(tick)) == ("1" if by_tcp else "", "1"), "several hosts connect by TCP"
    assert set(mine) == set(reference)
    if case.environment.transport == "tcp":
        differing = {key for key in mine if mine[key] != reference[key]}
        assert differing <= {"btl_tcp_if_include"}


# --- what the argv above do not show ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mpi", ["openmpi", "openmpi5"])
def test_ranks_that_may_share_cores_yield_and_fill_hosts_or_go_to_them_in_turn(mpi: str) -> None:
    alone = make_job()
    crowded = replace(alone, placement=replace(alone.placement, oversubscribe=True))
    named, usual = (dict(settings(launch_argv(mpi, job), "--mca")) for job in (crowded, alone))
    assert named == {**usual, "mpi_yield_when_idle": "1"}
    variables, usual_variables = (dict(MPIS[mpi].for_srun(job)[0].environment) for job in (crowded, alone))
    assert variables == {**usual_variables, "OMPI_MCA_mpi_yield_when_idle": "1"}
    job = make_job(ranks=2)
    in_turn = replace(job, placement=replace(job.placement, rank_order=RankOrder.CYCLIC))
    assert values(launch_argv(mpi, job), "--map-by") == ["slot"]
    assert values(launch_argv(mpi, in_turn), "--map-by") == ["node"]
    assert values(launch_argv(mpi, in_turn), "--host") == ["n0:2,n1:2"]


ENTERED = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")


@pytest.mark.parametrize(
    ("uid", "real_root", "other", "options"),
    [
        (0, True, "", ("--all",)),
        (0, False, "", ENTERED),
        (1000, False, "mnt uts ipc net pid cgroup", ("--preserve-credentials", "--user", *ENTERED)),
        (1000, False, "mnt", ("--preserve-credentials", "--user", "--mount")),
        (1000, False, "", ("--preserve-credentials", "--user")),
    ],
)
def test_a_node_is_entered_as_far_as_the_user_may_and_an_ordinary_user_only_where_it_differs(
    uid: int, real_root: bool, other: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_namespaces, "is_real_root", lambda: real_root)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    if other:
        monkeypatch.setattr(held_namespaces, "_is_shared", lambda pid, kind: kind not in other.split())
    assert held_namespaces.enter(os.getpid()) == ("nsenter", "-t", str(os.getpid()), *options, "--")
    assert held_namespaces.enter(0) == (), "a machine itself is not entered"


# --- which mpirun -------------------------------------------------------------------------------------------------


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all of PATH."""
    monkeypatch.setattr("tare.mpi.openmpi.find", lambda name: shutil.which(name, path=str(tmp_path)))
    return tmp_path


def test_only_open_mpi_4_is_taken_and_by_debians_own_name_first_and_else_the_package_is_named(only: Path) -> None:
    assert OpenMpi().probe() == "Open MPI is not installed: apt-get install openmpi-bin"
    assert OpenMpi().version() == ""
    speaker(only / "mpirun", "HYDRA build details:")
    reason = OpenMpi().probe()
    assert "is not Open MPI but 'HYDRA build details:'" in reason
    assert "apt-get install openmpi-bin" in reason
    speaker(only / "mpirun", "mpirun (Open MPI) 5.0.3")
    reason = OpenMpi().probe()
    assert "is Open MPI 5.0.3, whose options differ: use mpi: openmpi5" in reason
    speaker(only / "mpirun", "")
    assert "is not Open MPI" in str(OpenMpi().probe())
    speaker(only / "mpirun.openmpi", "mpirun.real (OpenRTE) 4.1.4")
    assert (OpenMpi().probe(), OpenMpi().version()) == (None, "Open MPI 4.1.4")


@pytest.mark.parametrize(("subnet", "asked"), [("127.0.0.0/8", []), ("10.1.0.0/16", ["10.1.0.0/16"])])
def test_open_mpi_5_is_not_told_to_use_the_loopback_that_it_drops(subnet: str, asked: list[str]) -> None:
    alone = make_job()
    made = launch_argv("openmpi5", replace(alone, wiring=replace(alone.wiring, control_subnet=subnet)))
    assert [value for name, value in settings(made, "--prtemca") if name == "prte_if_include"] == asked
