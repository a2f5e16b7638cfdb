"""Run tare as a user does, and look at the machine from outside: nothing here trusts what tare says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from integration.loaded import Command
from tare.clusters import Needs
from tare.clusters.lab_site import LabCluster, LabSite
from tare.images import mpi_wheels
from tare.model import LabSpec
from tare.system.namespaces import netlink
from tare.system.paths import RUN_FOLDER
from waiting import wait_until

TARE = (sys.executable, "-m", "tare.cli.app")
STARTED: list[subprocess.Popen[str] | Command] = []
"""The commands that a test started, for the end of what it did not wait for (conftest.py)."""
NUMBERS = count()
T = TypeVar("T")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
MICRO = "[{latency: {message_bytes: 8, iterations: 60, warmup: 5}}, {barrier: {iterations: 20, warmup: 5}}]"


def live(*more: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test file that runs the real thing; `more` is what it needs beside a lab and an MPI."""
    needs = pytest.mark.requires("root", "openmpi", "iproute2", "cmake", *more)
    # A module's study is in the time of its first test, and so is packing an image, on a machine that may be busy.
    return [pytest.mark.integration, pytest.mark.root, pytest.mark.slow, needs, pytest.mark.timeout(900)]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a tare command ended, and its number, which names its lab."""

    pid: int
    status: int
    stdout: str
    stderr: str

    @property
    def lab(self) -> str:
        return f"s{self.pid}"


def write_study(folder: Path, name: str, environments: Sequence[str] | str, **keys: str) -> Path:
    """Write a small study; `keys` replace its top-level keys, each in YAML's flow style."""
    listed = environments if isinstance(environments, str) else f"[{', '.join(environments)}]"
    usual = {
        "name": name,
        "cluster": "{lab: {nodes: 2}}",
        "environments": listed,
        "placements": "[{nodes: 2, ranks_per_node: 1}]",
        "workloads": f"{{micro: {{time_limit: 300s, kernels: {MICRO}}}}}",
        "repetition": "{rounds: 1, max_rounds: 1}",
        "a_a": "false",
    }
    stated = {**usual, **keys}
    # tests run beside other programs, and count their blocks
    if "reruns" not in stated["repetition"]:
        stated["repetition"] = stated["repetition"].replace("{", "{reruns: 0, ", 1)
    if "turns" not in stated["repetition"]:  # few, as each discards some iterations, and traffic is held to the others
        stated["repetition"] = stated["repetition"].replace("{", "{turns: 2, ", 1)
    # nor does a launch of kernels have to end within a minute, the usual limit, on a machine that is busy
    stated["workloads"] = stated["workloads"].replace("{kernels:", "{time_limit: 300s, kernels:")
    path = folder / f"{name}.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in stated.items()))
    return path


def start(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    python: Sequence[str] = TARE[:1],
) -> Any:
    """Start tare in a session of its own; `before` is put before it, as `setpriv ...`, and `python` runs it."""
    words, environment = [str(each) for each in arguments], {**os.environ, **(env or {})}
    process: subprocess.Popen[str] | Command
    if before or tuple(python) != TARE[:1]:
        process = subprocess.Popen(
            [*before, *python, *TARE[1:], *words],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    else:
        process = Command(words, cwd, environment)
    STARTED.append(process)
    return process


def put_an_end_to(process: Any) -> None:
    """End a command that is still running; what others have of its outputs is not waited for."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    process.stdout.close()
    process.stderr.close()


def ended(process: Any, timeout_s: float = 0.0) -> Ended:
    """Wait for a command that `start` started, as long as pytest lets it run; `timeout_s` bounds nothing."""
    stdout, stderr = process.communicate()
    return Ended(pid=process.pid, status=process.returncode, stdout=stdout, stderr=stderr)


def tare(*arguments: str | Path, cwd: Path, timeout_s: float = 0.0, **options: Any) -> Ended:
    """Run tare to its end."""
    return ended(start(*arguments, cwd=cwd, **options))


def trials(results: Path, *, leave: bool = False) -> list[dict[str, Any]]:
    """Return the stored trials that were not set aside: those of broken blocks are among them, marked.

    A launch that completed left no process behind, unless they `leave` some: nothing of tare is taken for a launch's.
    """
    file = results / "trials.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines if line.strip()]
    left = {str(trial["key"]): trial["left"] for trial in found if trial.get("left") and outcome(trial) == "Completed"}
    assert leave or not left
    return found


def outcome(trial: Mapping[str, Any]) -> str:
    """Return the kind of a trial's outcome."""
    return str(trial["outcome"]["type"])


def said(its: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what became of trials, with the reason of each that failed, for a test that fails."""
    ended = ((trial["key"]["cell"], trial["outcome"]) for trial in its)
    return [f"{cell}: {its.get('reason', its['type'])} {its.get('stderr_tail', '')}" for cell, its in ended]


def cell_of(trial: Mapping[str, Any]) -> str:
    """Return the name of a trial's environment."""
    return str(trial["key"]["cell"]).rsplit(" / ", 1)[1]


def by_environment(results: Path, *, leave: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return the stored trials of each environment, as `trials` does."""
    found: dict[str, list[dict[str, Any]]] = {}
    for trial in trials(results, leave=leave):
        found.setdefault(cell_of(trial), []).append(trial)
    return found


def wait_for(condition: Callable[[], T], what: str, limit_s: float = 0.0) -> T:
    """Wait until a condition holds and return its value; `limit_s` bounds nothing, as pytest bounds the test."""
    return wait_until(condition, what)


def reached(process: Any, find: Callable[[], T], what: str) -> T:
    """Wait until something is found of a command that runs, and return it; the command must not end before."""
    found = wait_for(lambda: find() or process.poll() is not None, what)
    assert process.poll() is None, process.communicate()
    return found


def selected(request: pytest.FixtureRequest, parameter: str) -> set[str]:
    """Return the values of a parameter in the tests of a module that are selected: what its study has to have."""
    of_module = [item for item in request.session.items if item.path == request.path]
    own = [
        item.callspec.params for item in of_module if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    return {params[parameter] for params in own if parameter in params}


# --- what is left -----------------------------------------------------------------------------------------------


def processes() -> Iterator[tuple[int, Path]]:
    """Return all processes of the machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name), entry


def cgroup_folders(lab: str) -> list[Path]:
    """Return the folders of a lab's cgroup, in every hierarchy: below this test's own cgroup, or at the top."""
    mounts = [Path(line.split(" - ")[0].split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()
              if " - cgroup" in line]  # fmt: skip
    own = {"", *(line.split(":", 2)[2].strip("/") for line in Path("/proc/self/cgroup").read_text().splitlines())}
    return [folder for mount in mounts for base in sorted(own) if (folder := mount / base / "tare" / lab).is_dir()]


def pids_of(lab: str) -> set[int]:
    """Return the processes of a lab: by its cgroup, by holders' marks, and by nothing that tare wrote down."""
    found: set[int] = set()
    for top in cgroup_folders(lab):
        for folder, _, _ in os.walk(top):  # what goes away meanwhile is passed over
            found.update(map(int, _text(Path(folder) / "cgroup.procs").split()))
    for pid, entry in processes():
        try:
            if f"tare:{lab}:".encode() in (entry / "cmdline").read_bytes():
                found.add(pid)
        except OSError:
            continue
    return found


def namespaces_of(pids: Iterable[int]) -> set[str]:
    """Return the namespaces of processes, without this machine's own."""
    found = {link for pid in pids for link in _namespaces(pid)}
    return found - set(_namespaces(os.getpid()))


def _namespaces(pid: int) -> list[str]:
    found = []
    for kind in NAMESPACES:
        try:
            found.append(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            continue
    return found


@dataclass(kw_only=True)
class Watch:
    """What a lab had while it was up; `gone` are those of its namespaces that nobody was in when it had ended.

    Numbers of namespaces are used again: a number that is gone is another's later.
    """

    namespaces: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    most_processes: int = 0

    def look(self, lab: str) -> None:
        pids = pids_of(lab)
        self.most_processes = max(self.most_processes, len(pids))
        self.namespaces |= namespaces_of(pids)

    @contextmanager
    def looking(self, lab: str) -> Iterator[None]:
        """Look again and again while the block runs."""
        end = Event()

        def go() -> None:
            while not end.wait(0.5):
                self.look(lab)

        thread = Thread(target=go, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
        self.gone |= self.namespaces - {namespace for pid, _ in processes() for namespace in _namespaces(pid)}

    def left(self, lab: str, state: Path | None = None) -> list[str]:
        """Return all that is left of a lab, in words: what has its name, and what is in its namespaces."""
        state = state or Path(os.environ.get(RUN_FOLDER, "/run/tare"))
        found = [f"process {pid}: {_words(pid)}" for pid in sorted(pids_of(lab))]
        found += [f"cgroup {folder}" for folder in cgroup_folders(lab)]
        found += [f"folder {folder}" for folder in state.glob(f"{lab}-*")]
        of = {pid: (set(_namespaces(pid)), "/tare/" in _text(entry / "cgroup")) for pid, entry in processes()}
        others = {namespace for its, in_lab in of.values() if in_lab for namespace in its}  # of other labs
        ours = self.namespaces - others
        for mount in Path("/proc/self/mountinfo").read_text().splitlines():
            if re.search(rf"\b{lab}[-/ ]", mount) or ours & set(mount.split()):
                found.append(f"mount {mount}")
        for pid, (its, in_lab) in of.items():
            dead = len(its) == 1  # only its pid namespace is told of a process that waits to be collected by init
            if not dead and not in_lab and (ours - self.gone) & its and not _of_another_session(pid):
                found.append(f"namespace of process {pid}: {_words(pid)}")
        return found


def _of_another_session(pid: int) -> bool:
    """Tell whether a process was started by other tests that run now, in this session or in another one."""
    while pid > 1 and pid != os.getpid():
        if "pytest" in _words(pid):
            return True
        after_name = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        pid = int(after_name[1]) if after_name else 0
    return False


def _words(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")[:120]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# --- programs and labs ------------------------------------------------------------------------------------------

APPS = Path(__file__).parent / "apps"


def compiled(name: str, folder: Path, *options: str, mpi: str = "openmpi") -> Path:
    """Compile one of the small programs in `apps`."""
    target = folder / f"{name}-{mpi}"
    warnings = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
    compiler = str(mpi_wheels.program(mpi, "mpicc")) if mpi in mpi_wheels.PACKAGES else f"mpicc.{mpi}"
    argv = (compiler, "-std=gnu11", *warnings, str(APPS / f"{name}.c"), "-o", str(target), *options)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@contextmanager
def lab_site(nics: int = 1, *, shown: Sequence[Path] = (), docker: bool = False, **spec: Any) -> Iterator[LabSite]:
    """Keep a lab of two nodes up that belongs to this process, so that no other run takes it for a dead one's."""
    name = f"it{os.getpid()}x{next(NUMBERS)}"
    wanted = Needs(nics=nics, docker=docker, shown=tuple(map(str, shown)))
    with LabCluster().open(name, LabSpec(**{"nodes": 2, **spec}), wanted) as site:
        wait_for(lambda: all(settled(node.pid) for node in site.nodes), "carrier on every link")
        yield site


def settled(pid: int) -> bool:
    """Tell whether the kernel has noted the carrier of every link: UCX, for one, passes over those without."""
    with netlink(pid) as route:
        return all(link.get_attr("IFLA_OPERSTATE") == "UP" for link in links_in(route) if not link["flags"] & 8)


def links_in(route: IPRoute) -> list[Any]:
    """Return the links of a network namespace, each asked for by itself.

    The kernel then notes its carrier first; what it tells of all at once may be a second old.
    """
    found: list[Any] = []
    for link in route.get_links():
        with suppress(NetlinkError):  # it has just gone
            found += route.link("get", index=link["index"])
    return found


def sent_on(site: LabSite, interface: str) -> list[int]:
    """Return the bytes that every node has sent on an interface."""
    return [counters(node.pid)[interface][8] for node in site.nodes]


def counters(pid: int) -> dict[str, list[int]]:
    """Return the columns of /proc/net/dev by interface, in a process's network namespace."""
    lines = _text(Path(f"/proc/{pid}/net/dev")).splitlines()[2:]
    return {name.strip(): list(map(int, values.split())) for name, _, values in (line.partition(":") for line in lines)}
