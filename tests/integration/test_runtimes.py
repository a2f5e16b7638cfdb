"""Runtimes for real, each with one or two networks that no smoke test combines with it; nothing is left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from integration.containers import (
    DAEMON,
    DAEMON_ONE,
    DOCKER_OWN,
    ON_ONE_NODE,
    ONE,
    ROOTLESS_OWN,
    VETH,
    Case,
    Studied,
    check,
    studied,
)
from integration.live import (
    Watch,
    compiled,
    ended,
    lab_site,
    live,
    pids_of,
    reached,
    start,
    tare,
    wait_for,
    write_study,
)
from integration.studies import SILENT
from tare.agent import clean
from tare.analysis.summary import surroundings
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.model import Environment, Placement
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.apptainer import Apptainer
from tare.runtimes.containers.deployment import Files
from tare.runtimes.podman_rootless import IMAGE_OWNERS, USER
from tare.system.node import Node
from tare.system.paths import cache_folder
from tare.system.process import Result, run

pytestmark = live(
    "docker", "podman", "uidmap", "apptainer", "charliecloud", "cni", "mmdebstrap", "passt", "slirp4netns"
)

MACVLAN, DIRECT = "data NIC, macvlan", "data NIC in the pod"
BOTH = {
    "bare": Case("runtime: bare", ""),
    "bare+image": Case("runtime: bare, image: true", "mnt"),
    "bare+bridge": Case("runtime: bare, network: bridge", "mnt net", VETH),
    "bare+dockerd": Case("runtime: bare, daemon: docker", "", hosts=DAEMON),
    "docker+bridge": Case("runtime: docker, network: bridge", DOCKER_OWN, VETH, hosts=DAEMON),
    "docker+macvlan": Case("runtime: docker, network: macvlan", DOCKER_OWN, MACVLAN, hosts=DAEMON),
    "podman+direct": Case("runtime: podman, network: direct", DOCKER_OWN, DIRECT),
    "podman-rootless+bridge": Case(
        "runtime: podman-rootless, network: bridge, placement: {memory_per_container: 512MiB}", ROOTLESS_OWN, VETH
    ),
    "apptainer+bridge": Case("runtime: apptainer, network: bridge", "mnt net", VETH),
    "apptainer-instance+bridge": Case("runtime: apptainer-instance, network: bridge", "mnt net pid", VETH),
    "charliecloud+macvlan": Case("runtime: charliecloud, network: macvlan", "mnt net user", MACVLAN),
}
SIDES = {
    "docker receives": ("runtime: docker, network: bridge, sides: receiver", ("n0", "d1")),
    "podman sends": ("runtime: podman, network: bridge, sides: sender", ("n0", "n1")),
    "bare sends": ("runtime: bare, network: direct, sides: sender", ("n0", "n1")),
    "apptainer receives": ("runtime: apptainer, network: macvlan, sides: receiver", ("n0", "n1")),
    "charliecloud receives": ("runtime: charliecloud, network: bridge, sides: receiver", ("n0", "n1")),
}
SHM = "transport: shm"
OF_ONE_NODE = {
    "bare": Case("runtime: bare, transport: tcp", "", hosts=ONE, carries=False),
    "docker": Case(f"runtime: docker, {SHM}", "ipc mnt pid uts", hosts=DAEMON_ONE, carries=False),
    "podman": Case(f"runtime: podman, network: bridge, {SHM}", DOCKER_OWN, VETH, hosts=ONE, carries=False),
    "apptainer": Case(f"runtime: apptainer, {SHM}", "mnt", hosts=ONE, carries=False),
    "apptainer-sif": Case(f"runtime: apptainer-sif, network: bridge, {SHM}", "mnt net", VETH, hosts=ONE, carries=False),
    "charliecloud": Case("runtime: charliecloud, transport: tcp", "mnt user", hosts=ONE, carries=False),
    "podman-rootless": Case(
        "runtime: podman-rootless, network: slirp4netns", ROOTLESS_OWN, "tap of the pod", hosts=ONE, carries=False
    ),
    "pasta": Case("runtime: bare, network: pasta", "mnt net", "tap of the pod", hosts=ONE, carries=False),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def two_nodes(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    sided = {name: Case(stated, "", hosts=hosts) for name, (stated, hosts) in SIDES.items()}
    env = {"HOME": str(home), "TARE_CACHE": str(cache_folder())}
    return studied(tmp_path_factory.mktemp("two"), {**BOTH, **sided}, env)


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Studied:
    placements = "[{nodes: 1, ranks_per_node: 2}, {nodes: 1, ranks_per_node: 2, containers_per_node: 2}]"
    return studied(tmp_path_factory.mktemp("one"), OF_ONE_NODE, **{**ON_ONE_NODE, "placements": placements})


@pytest.mark.parametrize("name", BOTH)
def test_ranks_are_in_containers_and_their_traffic_goes_where_it_is_claimed_to(name: str, two_nodes: Studied) -> None:
    (trial,) = two_nodes[2][name]
    check(BOTH[name], trial, two_nodes[0])


@pytest.mark.parametrize("name", SIDES)
def test_one_side_only_puts_only_that_side_into_the_environment(name: str, two_nodes: Studied) -> None:
    ((trial,), (stated, hosts)) = two_nodes[2][name], SIDES[name]
    assert trial["outcome"]["type"] == "Completed", (trial["outcome"], two_nodes[0].stderr)
    assert tuple(rank["hostname"] for rank in trial["ranks"]) == hosts
    of = [{item["role"] for item in trial["traffic"] if item["node"] == host} for host in hosts]
    bare, inside = of if stated.endswith("receiver") else of[::-1]
    assert bare == {"data NIC", SILENT}
    assert inside != bare
    apart = [set(rank["namespaces"]) - {*rank["node_namespaces"]} - {"time"} for rank in trial["ranks"]]
    assert [bool(own) for own in apart] == [stated.endswith("sender"), stated.endswith("receiver")]


def test_ranks_tell_what_of_their_node_they_can_open_and_write(two_nodes: Studied) -> None:
    rights = {name: two_nodes[2][name][0]["ranks"][0]["rights"] for name in BOTH}
    words = {name: (surroundings.devices(each), surroundings.mounts(each)) for name, each in rights.items()}
    assert words["bare"][0].startswith("all of the node's (")
    assert words["bare"][1] == "the node's: /"
    assert words["bare+image"][0] == words["bare"][0]
    assert words["bare+image"][1].startswith("root read-only; own: ")
    for name in ("docker+bridge", "docker+macvlan"):
        assert words[name][0] == "the usual"
        assert words[name][1].startswith("own: /; the node's: /etc/hostname")
    rootless = rights["podman-rootless+bridge"]
    assert (rootless["uid_map"], rootless["capabilities"]) == (f"0 1 {USER}", "0000000000000000")
    assert rootless["setuid"] == "newuidmap, newgidmap"
    assert words["podman-rootless+bridge"][0] == "the usual"
    assert "memory_bytes=536870912" in rootless["limits"].split()
    assert {rights[name]["setuid"] for name in rights if name.startswith(("bare", "docker"))} == {"none"}


def test_bare_beside_a_daemon_has_the_rules_of_the_daemon_and_bare_has_none(two_nodes: Studied) -> None:
    facts = {name: two_nodes[2][name][0]["facts"]["conntrack"] for name in ("bare", "bare+dockerd")}
    assert facts == {"bare": "off", "bare+dockerd": "on"}


@pytest.mark.parametrize("name", OF_ONE_NODE)
def test_two_ranks_of_a_node_share_memory_but_no_core_in_one_container_and_in_one_each_of_a_pod(
    name: str, one_node: Studied
) -> None:
    its = one_node[2][name]
    assert len(its) == 2
    for trial in its:
        check(OF_ONE_NODE[name], trial, one_node[0])


def test_studies_leave_nothing_behind_not_even_a_folder_in_the_home(
    home: Path, two_nodes: Studied, one_node: Studied
) -> None:
    for result, watch, _ in (two_nodes, one_node):
        assert len(watch.namespaces) > 10, "the watch saw no namespaces"
        assert watch.left(result.lab) == []
    assert list(home.iterdir()) == []


# --- runs that are cut off -----------------------------------------------------------------------------------------


def _read(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def hanging(folder: Path, limit: str, *environments: str) -> Path:
    """Write a study of a user's program that hangs in its containers."""
    workload = f"{{app: {{command: [{compiled('misbehave', folder)}, hang], time_limit: {limit}}}}}"
    return write_study(folder, "hang", environments, workloads=workload, a_a="true")


@pytest.mark.parametrize(
    ("runtime", "number"),
    [
        ("podman", signal.SIGINT),
        ("charliecloud", signal.SIGTERM),
        ("apptainer-sif", signal.SIGKILL),
        *(
            pytest.param(runtime, number, marks=pytest.mark.long)
            for runtime, number in [("podman", signal.SIGKILL), ("podman-rootless", signal.SIGKILL),
                                    ("charliecloud", signal.SIGKILL), ("apptainer", signal.SIGINT)]
        ),
    ],
)  # fmt: skip
def test_what_a_run_made_is_undone_when_it_is_ended_while_containers_run(
    runtime: str, number: signal.Signals, tmp_path: Path
) -> None:
    watch = Watch()
    process = start("run", hanging(tmp_path, "1h", f"{runtime}+bridge"), cwd=tmp_path)
    name = f"s{process.pid}"
    with watch.looking(name):
        running = "a rank in a container on each node"
        reached(process, lambda: sum(b"misbehave" in _read(pid).split(b"\0")[0] for pid in pids_of(name)) == 2, running)
        watch.look(name)
        os.kill(process.pid, number)
        result = ended(process)
    if number is signal.SIGKILL:
        clean.remove_lab(name)  # as `tare clean` and the next run do it, sparing the labs of others who test here
    else:
        assert result.status == 130, result.stderr
    assert "Traceback" not in result.stderr
    wait_for(lambda: not pids_of(name), "end of the processes")
    assert watch.left(name) == []


def test_a_program_of_the_user_s_that_hangs_inside_is_ended_and_gone(tmp_path: Path) -> None:
    watch = Watch()
    process = start("run", hanging(tmp_path, "3s", "apptainer"), cwd=tmp_path)
    with watch.looking(f"s{process.pid}"):
        result = ended(process)
    assert result.status == 4, result.stderr
    assert re.search(r"it did not end within its time limit of 3 s", result.stderr)
    assert watch.left(result.lab) == []


def test_an_application_reads_and_writes_where_its_user_is_and_files_belong_to_the_user(tmp_path: Path) -> None:
    command = ("launch", "--runtime", "podman-rootless", "--", "sh", "-c", "id -u; cat given > made")
    assert tare(*command, cwd=tmp_path).status != 0, "there was nothing to read"
    (tmp_path / "given").write_text("words")
    (tmp_path / "given").chmod(0o600)
    done = tare(*command, cwd=tmp_path)
    assert (done.status, done.stdout) == (0, f"{USER}\n"), done.stderr
    assert (tmp_path / "made").read_text() == "words"
    assert (tmp_path / "made").stat().st_uid == os.geteuid()


# --- containers from inside ----------------------------------------------------------------------------------------

ACCOUNTS = tuple(Path("/etc") / name for name in ("passwd", "group", "subuid", "subgid"))
PODMAN_S_OWN = (
    "/var/lib/containers", "/run/containers", "/run/libpod", "/run/crun", "/run/tare-podman", "/dev/shm/libpod_lock",
)  # fmt: skip
LIVE = Path(__file__).with_name("live.py")


@contextmanager
def brought_up(runtime: str, folder: Path, shown: Path) -> Iterator[tuple[Node, Deployed, Path]]:
    """Deploy a runtime on a bridge of a lab; yield the first node, the deployment, and the image's files."""
    environment = Environment(name="it", runtime=runtime, network="bridge", image="debian-openmpi")
    rootfs = ensure_image(find_recipe()).rootfs
    files = Files(host_prefix=folder, rootfs=rootfs, shown=(str(shown),))
    with ExitStack() as stack:
        site = stack.enter_context(lab_site(nics=2, shown=(shown,)))
        yield (
            site.nodes[0],
            stack.enter_context(deployed(site, environment, Placement(), slot=0, nic=1, files=files)),
            rootfs,
        )


def inside(up: Deployed, script: str, *, check: bool = True) -> Result:
    """Run a shell script in the first container, as the MPI's daemon is started there."""
    agent = up.hosts(Placement())[0].agent
    assert agent is not None
    return run((*agent.argv, "/bin/sh", "-c", script), check=check, timeout_s=None, what=script)


def monitors(node: Node) -> list[int]:
    """Return the processes by which Podman watches what it started on a node."""
    return [pid for pid in node.group.pids() if Path(os.fsdecode(_read(pid).split(b"\0")[0])).name == "conmon"]


def test_a_container_of_charliecloud_shows_its_node_and_the_folders_that_it_is_given(tmp_path: Path) -> None:
    with brought_up("charliecloud", tmp_path, LIVE.parent) as (node, up, rootfs):
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; echo $CH_RUNNING; command -v orted; id -u")
        assert told.stdout.splitlines() == [node.boot_id, "n0", "Weird Al Yankovic", "/usr/bin/orted", "0"]
        assert inside(up, f"cat {LIVE}").stdout == LIVE.read_text()
        for place in ("/", "/opt/tare", str(LIVE.parent)):
            assert inside(up, f"touch {place}/tare-was-here", check=False).status != 0, place
        inside(up, "touch /tmp/tare-was-here /dev/shm/tare-was-here")
        assert Path(f"/proc/{node.pid}/root/tmp/tare-was-here").exists()
        assert Path(f"/proc/{node.pid}/root/dev/shm/tare-was-here").exists()
    assert not (rootfs / str(LIVE.parent).lstrip("/")).exists(), "the image in the cache was written to"


def test_a_container_of_podman_is_like_docker_s_and_keeps_nothing_on_this_machine(tmp_path: Path) -> None:
    before = [path for path in PODMAN_S_OWN if Path(path).exists()]
    with brought_up("podman", tmp_path, LIVE.parent) as (node, up, rootfs):
        pod = up.pods[0]
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; command -v orted; cat /proc/1/comm; id -u")
        assert told.stdout.splitlines() == [node.boot_id, "n0", "/usr/bin/orted", "podman-init", "0"]
        of_node = os.statvfs(f"/proc/{node.pid}/root/dev/shm")
        kilobytes = of_node.f_blocks * of_node.f_frsize >> 20 << 10
        assert inside(up, "df -k /dev/shm | tail -n 1").stdout.split()[:2] == ["shm", str(kilobytes)]
        assert inside(up, "nproc").stdout.split() == [str(len(node.cores))]
        assert inside(up, f"cat {LIVE}").stdout == LIVE.read_text()
        assert inside(up, f"touch {LIVE.parent}/tare-was-here", check=False).status != 0
        assert inside(up, "mount -t tmpfs x /mnt", check=False).status != 0, "the container is privileged"
        inside(up, "touch /tare-was-here")
        assert not (rootfs / "tare-was-here").exists(), "the image in the cache was written to"
        assert pod.pid in pod.group.pids()
        assert pod.keepers == frozenset(pod.group.pids())
        assert pod.group.path.startswith(f"{node.group.path}/")
        wait_for(lambda: len(monitors(node)) == 1, "end of the monitors of podman exec")
        assert [path for path in PODMAN_S_OWN if Path(path).exists()] == before


def test_the_user_of_rootless_podman_is_known_in_the_pod_alone_and_its_root_is_nobody_s_outside(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shown = Path(tempfile.mkdtemp(dir="/root"))  # private on this machine and in the image
    (shown / "given").write_text("words")
    request.addfinalizer(lambda: shutil.rmtree(shown))
    before = [path.read_bytes() for path in ACCOUNTS]
    with brought_up("podman-rootless", tmp_path, shown) as (node, up, rootfs):
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; id -u; stat -c %U /etc /usr/bin/orted")
        assert told.stdout.splitlines() == [node.boot_id, "n0", str(USER), "root", "root"]
        assert inside(up, f"cat {shown}/given").stdout == "words"
        for place in (shown, "/etc"):
            assert inside(up, f"touch {place}/tare-was-here", check=False).status != 0
        inside(up, "touch /tmp/tare-was-here")
        assert not (rootfs / "tmp" / "tare-was-here").exists(), "the image in the cache was written to"
        pod = Path(f"/proc/{up.pods[0].pid}")
        assert pod.stat().st_uid == USER
        mapped = (pod / "uid_map").read_text().splitlines()
        assert ",".join(" ".join(line.split()) for line in mapped) == IMAGE_OWNERS
        assert [path.read_bytes() for path in ACCOUNTS] == before
    assert [path.read_bytes() for path in ACCOUNTS] == before


def test_the_apptainer_that_is_installed_here_can_be_used() -> None:
    assert Apptainer().probe() is None
    assert Apptainer().version().split()[0] in {"apptainer", "singularity", "singularity-ce"}
