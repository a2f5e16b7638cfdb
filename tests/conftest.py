"""What tests may need of the machine, and the policy on skips.

`@pytest.mark.requires("docker", "root")` skips a test where one of them is missing and says what installs it. With
CI=true a skip fails the session, because the bootstrap installs all that `requires` knows. Only a reason that
begins with `this machine cannot: ` (a kernel without the module, no second core) is let through.

Tests may run beside each other (`pytest -n 3`): one process runs live tests, which mostly wait, the others those
that calculate, and what is then left; two live tests at most run at once. Labs are kept apart. Tests that kill runs or
look at the whole machine are marked `alone`: no other live test runs meanwhile, in any session. Those that measure are
marked `quiet`: nothing else runs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TextIO

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from browser import AXE

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

CANNOT = "this machine cannot: "
LIVE = frozenset({"integration", "emulated"})
"""The folders of tests that run labs."""
TOGETHER = frozenset({"miniapps"})
"""The folders whose tests one process runs: they look at the same runs (tests/miniapps/launching.py)."""
SPREAD = frozenset({"test_thin_studies.py"})
"""Files whose tests have nothing in common, so that each process takes some: in one they would be the last to end."""
LONGEST = (
    *("miniapps", "kernels", "test_coverage.py", "runner", "images", "fuzz", "test_cli.py", "contract"),
    *("test_mpis.py", "test_bad_input.py", "test_networks_contract.py", "test_transports.py", "test_launching.py"),
)
"""Folders and files of tests that take long, which run in this order before the others of their kind."""

# Half of collecting is compiling. What pytest compiles is kept where no user is in the way of root's files, also
# with PYTHONDONTWRITEBYTECODE; programs that tests start are left as they are.
sys.pycache_prefix = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "test-bytecode")
sys.dont_write_bytecode = False

# What one example takes says nothing on a busy machine; a test's own time limit is pytest-timeout's.
settings.register_profile("tare", deadline=None)
settings.load_profile("tare")

# Started in the background of a script, tests would ignore Ctrl-C, and so would all that they start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored


def _program(*names: str) -> Callable[[], bool]:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return lambda: all(shutil.which(name, path=path) for name in names)


def _file(path: str) -> Callable[[], bool]:
    return lambda: Path(path).exists()


def _apptainer() -> bool:
    return any(present() for present in (_program("apptainer"), _file("/opt/tare/apptainer/bin/apptainer")))


def _podman_hpc() -> bool:
    return any(present() for present in (_program("podman-hpc"), _file("/opt/tare/podman-hpc/bin/podman-hpc")))


def _sshd() -> bool:
    return any(Path(path).exists() for path in ("/usr/sbin/sshd", "/opt/tare/openssh/usr/sbin/sshd"))


def _bird() -> bool:
    return Path("/opt/tare/bird/usr/sbin/bird").exists() or _program("bird")()


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (lambda: os.geteuid() == 0, "run the tests as root (make test uses sudo)"),
    "axe": (_file(str(AXE)), "tools/bootstrap test"),
    "bird": (_bird, "tools/bootstrap unpacks it"),
    "bpftrace": (_program("bpftrace"), "apt-get install bpftrace"),
    "charliecloud": (_program("ch-run"), "apt-get install charliecloud-runtime"),
    "apptainer": (_apptainer, "tools/apptainer"),
    "chromium": (_program("chromium", "chromedriver"), "apt-get install chromium chromium-driver"),
    "clang": (_program("clang"), "apt-get install clang libclang-rt-14-dev"),
    "clang-format": (_program("clang-format"), "apt-get install clang-format"),
    "cmake": (_program("cmake", "gcc", "make"), "apt-get install cmake gcc make"),
    "cni": (_file("/usr/lib/cni/bridge"), "apt-get install containernetworking-plugins"),
    "docker": (_program("dockerd", "docker"), "apt-get install docker.io"),
    "etcd": (_file("/opt/tare/etcd/usr/bin/etcd"), "tools/networks etcd"),
    "ethtool": (_program("ethtool"), "apt-get install ethtool"),
    "cilium": (_file("/opt/tare/cilium/cilium-agent"), "tools/networks cilium"),
    "flannel": (_file("/opt/tare/flannel/flanneld"), "tools/networks flannel"),
    "hnn": (_file("/opt/tare/programs/hnn/bin/hnn-python"), "tools/programs hnn"),
    "hpcc": (_program("hpcc"), "apt-get install hpcc libopenblas0-serial"),
    "imb": (_file("/opt/tare/programs/imb/bin/IMB-MPI1"), "tools/programs imb"),
    "intelmpi": (_file("/opt/tare/mpis/intelmpi/.lock"), "tools/mpis"),
    "iperf3": (_program("iperf3"), "apt-get install iperf3"),
    "iproute2": (_program("ip", "tc", "bridge"), "apt-get install iproute2"),
    "iptables": (_program("iptables"), "apt-get install iptables"),
    "kubernetes": (_file("/opt/tare/kubernetes/kubelet"), "tools/networks kubernetes"),
    "mmdebstrap": (_program("mmdebstrap", "unshare"), "apt-get install mmdebstrap util-linux"),
    "mpi-operator": (_file("/opt/tare/mpi-operator/mpi-operator"), "tools/networks mpi-operator"),
    "mpich": (_program("mpicc.mpich", "mpirun.mpich"), "apt-get install mpich libmpich-dev"),
    "mpich5": (_file("/opt/tare/mpis/mpich5/.lock"), "tools/mpis"),
    "nftables": (_program("nft"), "apt-get install nftables"),
    "openmpi": (_program("mpicc.openmpi", "mpirun.openmpi"), "apt-get install openmpi-bin libopenmpi-dev"),
    "openvswitch": (_file("/opt/tare/openvswitch/usr/bin/ovs-vsctl"), "tools/bootstrap unpacks it"),
    "openmpi5": (_file("/opt/tare/mpis/openmpi5/.lock"), "tools/mpis"),
    "passt": (_program("pasta"), "apt-get install passt"),
    "podman": (_program("podman", "crun", "catatonit"), "apt-get install podman crun catatonit"),
    "podman-hpc": (_podman_hpc, "tools/podman-hpc"),
    "qemu": (_program("qemu-system-x86_64", "mke2fs"), "tools/bootstrap long"),
    "registry": (_file("/opt/tare/docker-registry/usr/bin/docker-registry"), "tools/bootstrap unpacks it"),
    "shellcheck": (_program("shellcheck"), "apt-get install shellcheck"),
    "slirp4netns": (_program("slirp4netns"), "apt-get install slirp4netns"),
    "ucx": (_program("ucx_info"), "apt-get install ucx-utils libucx-dev"),
    "slurm": (_program("slurmctld", "slurmd", "srun", "munged"), "apt-get install slurmctld slurmd slurm-client munge"),
    "sshd": (_sshd, "tools/bootstrap unpacks it"),
    "uidmap": (_program("newuidmap", "newgidmap"), "apt-get install uidmap"),
}

_skipped: list[str] = []
CALCULATING = 15
"""The niceness of tests that are not live: labs, all in one cgroup, else have as little of a core as one process."""

LABS = 2
"""How many live tests run at once: with three, ranks that poll have starved a browser and a launch for a minute."""
PAUSE_S = 0.05

_LOCKS = Path(tempfile.gettempdir())


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around all that has to do with a test, the timer of its time limit too
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with suppress(PermissionError):  # root alone takes nice words back, and without root no test is live
        os.setpriority(os.PRIO_PROCESS, 0, 0 if _is_live(item) else CALCULATING)
    with ExitStack() as locks:
        locks.enter_context(_locked("any", alone=item.get_closest_marker("quiet") is not None))
        if _is_live(item):
            locks.enter_context(_one_of(LABS))
            locks.enter_context(_locked("live", alone=item.get_closest_marker("alone") is not None))
        return (yield)


@contextmanager
def _locked(name: str, *, alone: bool) -> Iterator[None]:
    with (_LOCKS / f"tare-tests-{name}").open("a") as held, (_LOCKS / f"tare-tests-{name}-next").open("a") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)  # who waits to be alone lets no other begin
        fcntl.flock(held, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(waiting, fcntl.LOCK_UN)
        yield


@contextmanager
def _one_of(places: int) -> Iterator[None]:
    """Wait for one of several places, and keep it."""
    with ExitStack() as stack:
        files = [stack.enter_context((_LOCKS / f"tare-tests-place-{number}").open("a")) for number in range(places)]
        while not any(map(_taken, files)):
            time.sleep(PAUSE_S)
        yield


def _taken(file: TextIO) -> bool:
    """Take the lock of a file unless somebody has it; return whether it was taken."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what others would wait for.

    Those that are `quiet`, while all begin; then the live ones that are `alone`, while one process runs live ones; of
    the others the longest, so that short ones are left for who is done first.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def later(its: list[pytest.Item]) -> tuple[int, ...]:
        marks = {mark.name for item in its for mark in item.iter_markers()}
        return (
            "quiet" not in marks,
            not _is_live(its[0]),
            "alone" not in marks,
            min(LONGEST.index(name) if name in LONGEST else len(LONGEST) for name in its[0].path.parts[-2:]),
        )

    items[:] = [item for its in sorted(files.values(), key=later) for item in its]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Return what gives files to processes, where several were asked for with `--dist loadfile`."""
    return Apart(config, log) if config.getoption("dist") == "loadfile" else None


class Apart(LoadFileScheduling):
    """Give the first process live tests as long as there are any, the others all else first.

    Ranks poll: those of two labs on the same cores hold each other up.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        if PurePath(scope).name in SPREAD:
            return nodeid
        return str(PurePath(scope).parent) if _folder(scope) in TOGETHER else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        live = node.gateway.id == "gw0"
        wanted = [scope for scope in self.workqueue if (_folder(scope) in LIVE) == live]
        if wanted:
            self.workqueue.move_to_end(wanted[0], last=False)
        super()._assign_work_unit(node)


def _folder(scope: str) -> str:
    """Return the folder of a file's tests, or of one of them."""
    return PurePath(scope.partition("::")[0]).parent.name


def _is_live(item: pytest.Item) -> bool:
    return item.path.parent.name in LIVE


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires"):
        for name in mark.args:
            if name not in NEEDS:
                pytest.fail(f"requires({name!r}): unknown; known are {', '.join(NEEDS)}", pytrace=False)
            present, remedy = NEEDS[name]
            if not present():
                pytest.skip(f"{name} is missing: {remedy}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _note(report.nodeid, report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _note(report.nodeid, report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    if _ci() and _skipped:
        terminalreporter.section("skipped in CI, where all that tests need is installed", red=True)
        for line in _skipped:
            terminalreporter.line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _ci() and _skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _note(nodeid: str, longrepr: object) -> None:
    reason = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(CANNOT):
        _skipped.append(f"{nodeid}: {reason}")


def _ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")
