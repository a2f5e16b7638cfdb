"""Hosts for cluster ssh: the nodes of a lab with a real sshd each, and an ordinary user on the lab's head.

Every node has its own /tmp, in which the user's home is: nothing of it is shared, as between machines.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tare.clusters import lab
from tare.clusters.lab_site import LabSite
from tare.daemons.ssh import SSHD
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.kernels import ensure_kernels
from tare.model import LabSpec
from tare.system.node import Node
from tare.system.node.cgroups import bases
from tare.system.node.owners import state_folder
from tare.system.paths import cache_folder

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
NAME = "taretest"
UID = 59_124
FIRST_ID = 1_800_000_000
NODE_HOME = "/tmp/home"
REPOSITORY = Path(__file__).parents[2]
PURE = Path(sysconfig.get_path("purelib"))
PACKAGES = PURE.relative_to(REPOSITORY) if PURE.is_relative_to(REPOSITORY) else PURE
USERS = (
    "set -e; place=$1 home=$2 devices=$3; mkdir -p $place $devices; "
    f"if ! grep -q ^{NAME}: /etc/passwd; then "
    "for name in passwd group; do cp /etc/$name $place/; done; "
    f'echo "{NAME}:x:{UID}:{UID}::$home:/bin/sh" >> $place/passwd; echo "{NAME}:x:{UID}:" >> $place/group; '
    f"for name in subuid subgid; do echo {NAME}:{FIRST_ID}:65536 > $place/$name; done; "
    "for name in passwd group subuid subgid; do mount --bind $place/$name /etc/$name; done; "
    # a start of root's own, as pyenv's, takes locks in the home of this machine's root, and a killed one leaves them
    "for name in .bashrc .profile; do if [ -f /root/$name ]; then mount --bind /dev/null /root/$name; fi; done; "
    f"mkdir -p $home; chown {UID}:{UID} $home; chmod 700 $home; "
    "for device in fuse net/tun; do name=$devices/${device##*/}; rm -f $name; cp -a /dev/$device $name; "
    "chmod 666 $name; mount --bind $name /dev/$device; done; "
    "hybrid=/sys/fs/cgroup/unified; "
    'if [ -n "$(cat $hybrid/cgroup.controllers 2> /dev/null)" ]; then umount $hybrid; fi; '
    # a user namespace may mount /proc only where one is seen that nothing covers; a lab's node has its boot_id over it
    "mkdir -p $place/proc; mount -t proc proc $place/proc; "
    "mount --make-rshared /; fi; "
)
"""Gives a mount namespace an ordinary user, and the devices and cgroups of other machines (crun: no hybrid ones)."""
DAEMON = """
ListenAddress {address}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 128
MaxSessions 64
LogLevel ERROR
SetEnv TARE_CORES={cores}{more}
"""


@dataclass(frozen=True, kw_only=True)
class SshHosts:
    """Hosts that are up: names for ssh, the file that ssh reads, and the ordinary user's folder on the head."""

    site: LabSite
    folder: Path
    names: tuple[str, ...]
    cache: Path
    run: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    def before(self, *, root: bool = False, alone: bool = False) -> tuple[str, ...]:
        """Return the argv prefix that starts Python on the head as the user, or as root of the hosts.

        `alone` is on this machine as it is, from which the hosts cannot be reached.
        """
        become = "" if root else f"setpriv --reuid {UID} --regid {UID} --clear-groups "
        script = (
            f"{USERS} mkdir -p $home/repository; mount --bind {REPOSITORY} $home/repository; shift 3; "
            f'cd $home; exec {become}{Path(sys.executable).resolve()} "$@"'
        )
        words = (str(self.folder / "etc"), str(self.folder / "home"), str(self.folder / "devices"))
        unshare = ("unshare", "--mount", "--propagation", "private")
        return (*(() if alone else self.site.head), *unshare, "/bin/sh", "-c", script, "sh", *words)

    def environment(self, *, root: bool = False) -> dict[str, str]:
        """Return the variables of commands on the head; root has the machine's own cache."""
        home = self.folder / "home"
        python = ":".join(str(home / "repository" / path) for path in ("src", PACKAGES))
        if root:
            return {"PATH": os.environ["PATH"], "HOME": str(Path.home()), "PYTHONPATH": python}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(self.run),
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": python,
        }

    def tare(self, *arguments: str | Path, root: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a tare command on the head."""
        argv = (*self.before(root=root), "-m", "tare.cli.app", *map(str, arguments))
        return subprocess.run(argv, env=self.environment(root=root), capture_output=True, text=True, check=False)

    def configure_user(self) -> None:
        """Give the user on the head the configuration of ssh, and a command `tare`."""
        home = self.folder / "home"
        (home / ".ssh").mkdir(mode=0o700)
        (home / ".ssh" / "config").write_text(self.config.read_text())
        (home / "bin").mkdir()
        command = home / "bin" / "tare"
        command.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -m tare.cli.app "$@"\n')
        command.chmod(0o755)
        subprocess.run(("chown", "-R", f"{UID}:{UID}", str(home / ".ssh"), str(home / "bin")), check=True)

    def shell(self, script: str, *, alone: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a script on the head as the user; `alone` as in `before`."""
        variables = self.environment()
        variables["PATH"] = f"{self.folder}/home/bin:{variables['PATH']}"
        python = "import os,sys; os.execvp('/bin/sh', ['/bin/sh', '-c', sys.argv[1]])"
        argv = (*self.before(alone=alone), "-c", python, script)
        return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)

    def python(self, program: str | Path, *arguments: object) -> str:
        """Run a Python program of the repository on the head as the user, and return what it prints."""
        place = self.folder / "home" / "repository" / Path(program).resolve().relative_to(REPOSITORY)
        argv = (*self.before(), str(place), *map(str, arguments))
        ended = subprocess.run(argv, env=self.environment(), capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    def on(self, node: Node, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root on a host."""
        entered = ("nsenter", "-t", str(node.pid), "--all", "--", *argv)
        return subprocess.run(entered, capture_output=True, text=True, check=False)


@contextmanager
def ssh_hosts(
    nodes: int = 2,
    *,
    cores: int | None = None,
    nics: int = 1,
    twins: bool = False,
    shared: bool = True,
    shown: Sequence[str] = (),
) -> Iterator[SshHosts]:
    """Keep hosts up, as `alpha`, `beta` and so on; `shown` are folders of this machine that all of them see.

    The cache is `shared` between them and the head, or below /tmp, which every host has to itself. With `twins` there
    are as many hosts again, on the same cores, as `dalpha` and so on.
    """
    folder = Path(tempfile.mkdtemp(prefix="tare-ssh-hosts-", dir="/var/tmp"))
    folder.chmod(0o755)
    spec = LabSpec(nodes=nodes, cores_per_node=cores, oversubscribe=True)
    names = tuple(f"{WORDS[i % len(WORDS)]}{i // len(WORDS) or ''}" for i in range(nodes))
    cache = folder / "cache" if shared else Path(tempfile.mkdtemp(prefix="tare-cache-", dir="/tmp"))
    run = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))  # Podman takes no long path
    try:
        for each in (folder / "home", cache, run):
            each.mkdir(exist_ok=True)
            os.chown(each, UID, UID)
        _keys(folder)
        with _up(f"t{os.getpid()}h", spec, nics=nics, twins=twins, shown=shown) as site:
            every = (*site.nodes, *site.daemon_nodes)
            names = (*names, *(f"d{name}" for name in names if twins))
            (folder / "ssh_config").write_text(_client(folder, names, every))
            (folder / "known_hosts").write_text(_known(folder, names))
            hosts = SshHosts(site=site, folder=folder, names=names, cache=cache, run=run)
            try:
                for node in every:
                    hosts.daemons[node.name] = start_sshd(node, folder)
                yield hosts
            finally:
                for daemon in hosts.daemons.values():
                    with suppress(ProcessLookupError):
                        os.killpg(daemon.pid, signal.SIGKILL)
                    daemon.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(run, ignore_errors=True)


@contextmanager
def _up(name: str, spec: LabSpec, *, nics: int, twins: bool, shown: Sequence[str]) -> Iterator[LabSite]:
    """Keep a lab up without starting Docker daemons on its twins."""
    with state_folder(name, name, cgroups=bases()) as folder:
        made = lab.up(name, spec, nics=nics, keep=shown, twins=twins)
        try:
            made.launchers.create()
            yield LabSite(name=name, lab=made, nodes=made.nodes, daemon_nodes=made.twins, folder=folder)
        finally:
            lab.down(made)


def lend(cache: Path, *, image: bool = True) -> None:
    """Give the user the kernels, and the default image, that are in the tests' own cache."""
    lent = [ensure_kernels("openmpi").prefix]
    if image:
        lent.append(ensure_image(find_recipe()).rootfs.parent)
    for place in lent:
        kept = cache / "tare" / place.relative_to(cache_folder())
        kept.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(("cp", "-a", "--reflink=auto", str(place), str(kept)), check=True)
    subprocess.run(("chown", "-R", f"{UID}:{UID}", str(cache / "tare")), check=True)


def _keys(folder: Path) -> None:
    for name in ("user", "host"):
        keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(folder / name))
        subprocess.run(keygen, check=True)
    os.chown(folder / "user", UID, UID)
    shutil.copy(folder / "user", folder / "user-root")  # ssh refuses a key that another user owns
    (folder / "user-root").chmod(0o600)


def _client(folder: Path, names: Sequence[str], nodes: Sequence[Node]) -> str:
    aliases = "".join(
        f"Host {name}\n  HostName {node.control_address}\n  HostKeyAlias {name}\n"
        for name, node in zip(names, nodes, strict=True)
    )
    return (
        f"{aliases}Host *\n  User {NAME}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
    )


def _known(folder: Path, names: Sequence[str]) -> str:
    kind, key = (folder / "host.pub").read_text().split()[:2]
    return "".join(f"{name} {kind} {key}\n" for name in names)


def start_sshd(node: Node, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start a node's sshd in the foreground, with the node's cores and in its cgroup; it sets `more` variables."""
    cores = ",".join(map(str, node.cores))
    (folder / f"sshd-{node.name}").write_text(
        DAEMON.format(address=node.control_address, keys=folder, cores=cores, more="".join(f" {each}" for each in more))
    )
    program = next(path for path in SSHD if Path(path).exists())
    script = (
        f"{USERS} mkdir -p /run/sshd; "
        f"ip route replace default via {lab.HEAD_ADDRESS} dev ctl0; "  # pasta copies the address that leads out
        f"exec taskset -c {','.join(map(str, node.cores))} {program} -D -f {folder}/sshd-{node.name}"
    )
    groups = [str(each) for each in node.group.leaf.folders]
    devices = str(folder / f"devices-{node.name}")  # a node's /tmp shows none
    joins = "; ".join(f"echo $$ > {each}/cgroup.procs" for each in groups) or ":"
    words = ("sh", "/tmp/etc", NODE_HOME, devices)
    enter = ("nsenter", "-t", str(node.pid), "--all", "--", "/bin/sh", "-c", script, *words)
    outer = ("/bin/sh", "-c", f'{joins}; exec "$@"', "sh", *enter)
    return subprocess.Popen(outer, start_new_session=True, stdin=subprocess.DEVNULL)
