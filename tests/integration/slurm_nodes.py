"""A Slurm cluster on the nodes of a lab: a real slurmctld, slurmd and munge, and an ordinary user who submits jobs.

Every node has its own /tmp and /run; the user's home is shared, as on a cluster. Commands run on the first node.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from integration.ssh_hosts import NAME, PACKAGES, REPOSITORY, UID, USERS, _up
from tare.clusters.lab import HEAD_ADDRESS
from tare.clusters.lab_site import LabSite
from tare.model import LabSpec
from tare.system.node import Node
from waiting import wait_until

CONFIG = """
ClusterName=tare
SlurmctldHost={head}({head_address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2,cred_expire=10
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/task-prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=10000,batch_sched_delay=0,sched_interval=1,bf_interval=1
SchedulerType=sched/backfill
MpiDefault=none
ReturnToService=2
SlurmdTimeout=20
KillWait=3
MinJobAge=3600
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes={every} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES PriorityTier=1
PartitionName=urgent Nodes={every} MaxTime=INFINITE State=UP PriorityTier=10
"""
"""The nodes are emulated on one machine: no cgroups of Slurm's own, no core binding by it."""
START = (
    f"{USERS} ip route replace default via {HEAD_ADDRESS} dev ctl0; mount --bind {REPOSITORY} $home/repository; "
    "mkdir -p /run/munge /run/slurmd /run/slurmctld; cp $4/munge.key /run/munge/key; chown -R munge /run/munge; "
    "chmod 755 /run/munge; chmod 400 /run/munge/key; mount --bind $4/hosts /etc/hosts; "
    "mount --bind /dev/null /etc/resolv.conf; hostname $5; "
    "exec sleep infinity"  # keeps the mounts, until its process group is killed
)
SHOWN = (str(REPOSITORY),) if REPOSITORY.is_relative_to("/tmp") else ()
"""What nodes, whose /tmp is their own, must see of this machine's."""
MUNGE = (
    "munged", "--foreground", "--key-file=/run/munge/key", "--socket=/run/munge/munge.socket.2",
    "--pid-file=/run/munge/pid", "--seed-file=/run/munge/seed",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SlurmNodes:
    """A Slurm cluster that is up, and the ordinary user's folder, which its nodes share."""

    site: LabSite
    folder: Path
    cache: Path
    run: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def variables(self) -> dict[str, str]:
        """Return the variables of the user's commands."""
        python = ":".join(str(self.home / "repository" / path) for path in ("src", PACKAGES))
        return {
            "PATH": f"{self.home}/bin:{os.environ['PATH']}",
            "HOME": str(self.home),
            "USER": NAME,
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": python,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def shell(
        self, script: str, *, node: int = 0, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script on a node as the user."""
        inside = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "/bin/sh", "-c",
                  f"cd {self.home}; {script}")  # fmt: skip
        argv = entered(self.site.nodes[node], *inside)
        variables = {**self.variables(), **(more or {})}
        return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)

    def root(self, *argv: str, node: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command on a node as root."""
        entering = entered(self.site.nodes[node], *argv)
        return subprocess.run(entering, env=self.variables(), capture_output=True, text=True, check=False)

    def start(self, name: str, node: Node, *argv: str) -> None:
        """Start a daemon on a node, with the node's cores."""
        log = (self.folder / f"{name}.log").open("ab")
        pinned = ("taskset", "-c", ",".join(map(str, node.cores)), *argv)
        joins = "; ".join(f"echo $$ > {each}/cgroup.procs" for each in node.group.leaf.folders) or ":"
        outer = ("/bin/sh", "-c", f'{joins}; exec "$@"', "sh", *entered(node, *pinned))
        self.daemons[name] = subprocess.Popen(
            outer, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "SLURM_CONF": str(self.folder / "slurm.conf")},
        )  # fmt: skip
        log.close()

    def start_slurmd(self, node: Node) -> None:
        """Start a node's slurmd."""
        self.start(f"slurmd-{node.name}", node, "slurmd", "-D", "-N", name_of(node))

    def start_controller(self) -> None:
        """Start slurmctld on the first node."""
        self.start("slurmctld", self.site.nodes[0], "slurmctld", "-D")

    def stop(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon that `start` started."""
        daemon = self.daemons.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(daemon.pid, number)
        daemon.wait()

    def wait_until_idle(self) -> None:
        """Wait until Slurm says that all nodes are idle."""
        self.wait_until(lambda: self.root("sinfo", "-h", "-p", "main", "-o", "%t").stdout.split() == ["idle"], "idle")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds; a daemon that has ended fails the test at once, with what it wrote."""

        def asked() -> bool:
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            assert not ended, f"{what}: {', '.join(ended)} ended\n{self.logs()}"
            return condition()

        wait_until(asked, what)

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        return "\n".join(f"{each.name}: {each.read_text()[-1500:]}" for each in self.folder.glob("*.log"))


def entered(node: Node, *argv: str) -> tuple[str, ...]:
    """Return the argv of a command in a node's namespaces."""
    return ("nsenter", "-t", str(node.pid), "--all", "--", *argv)


def name_of(node: Node) -> str:
    """Return a node's name to Slurm."""
    return f"c{node.index + 1}"


@contextmanager
def slurm_nodes(nodes: int = 2, *, cores: int | None = None, shared: bool = True) -> Iterator[SlurmNodes]:
    """Keep a Slurm cluster up on nodes `c1`, `c2` and so on, which may share the machine's cores.

    The cache is `shared` between them, or below /tmp, which every node has to itself.
    """
    folder = Path(tempfile.mkdtemp(prefix="tare-slurm-", dir="/var/tmp"))
    folder.chmod(0o755)
    cache = folder / "cache" if shared else Path("/tmp/cache")
    run = Path("/tmp/run")
    try:
        home = folder / "home"
        for each in (home, home / "bin", home / "repository", *((cache,) if shared else ())):
            each.mkdir(exist_ok=True)
            os.chown(each, UID, UID)
        _command(home / "bin")
        with _up(f"t{os.getpid()}s", LabSpec(nodes=nodes, cores_per_node=cores, oversubscribe=True), nics=1,
                 twins=False, shown=SHOWN) as site:  # fmt: skip
            made = SlurmNodes(site=site, folder=folder, cache=cache, run=run)
            _configure(made)
            try:
                _start(made)
                yield made
            finally:
                for name in tuple(made.daemons):
                    made.stop(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(place: Path) -> None:
    command = place / "tare"
    command.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -m tare.cli.app "$@"\n')
    command.chmod(0o755)


def _configure(made: SlurmNodes) -> None:
    nodes = made.site.nodes
    (made.folder / "munge.key").write_bytes(os.urandom(1024))
    (made.folder / "hosts").write_text(
        "127.0.0.1 localhost\n" + "".join(f"{node.control_address} {name_of(node)}\n" for node in nodes)
    )
    lines = "\n".join(
        f"NodeName={name_of(node)} NodeAddr={node.control_address} CPUs={len(node.cores)} State=UNKNOWN"
        for node in nodes
    )
    (made.folder / "slurm.conf").write_text(
        CONFIG.format(
            head=name_of(nodes[0]), head_address=nodes[0].control_address, folder=made.folder, nodes=lines,
            every=",".join(map(name_of, nodes)),
        )
    )  # fmt: skip
    cases = "; ".join(f"{name_of(node)}) echo export TARE_CORES={','.join(map(str, node.cores))};" for node in nodes)
    prolog = made.folder / "task-prolog"
    prolog.write_text(f"#!/bin/sh\ncase $SLURMD_NODENAME in {cases}; esac\necho export XDG_RUNTIME_DIR={made.run}\n")
    prolog.chmod(0o755)


def _start(made: SlurmNodes) -> None:
    for node in made.site.nodes:
        devices = f"{made.folder}/devices-{node.name}"
        words = ("sh", "/tmp/etc", str(made.home), devices, str(made.folder), name_of(node))
        made.start(f"users-{node.name}", node, "/bin/sh", "-c", START, *words)
    for node in made.site.nodes:
        _wait_for(made, node, "-r", "/run/munge/key")
        made.start(f"munged-{node.name}", node, "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", *MUNGE)
    for node in made.site.nodes:
        _wait_for(made, node, "-S", "/run/munge/munge.socket.2")
        made.root("install", "-d", "-o", str(UID), "-m", "700", str(made.run), node=node.index)
    made.start_controller()
    for node in made.site.nodes:
        made.start_slurmd(node)
    made.wait_until_idle()


def _wait_for(made: SlurmNodes, node: Node, test: str, path: str) -> None:
    made.wait_until(lambda: made.root("test", test, path, node=node.index).returncode == 0, f"{path} on {node.name}")
