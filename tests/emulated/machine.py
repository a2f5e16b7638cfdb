"""A machine emulated by qemu with Debian's own kernel, for what the kernel here may lack: function, never timing.

    <cache>/emulated/<digest>/   root.img (Debian, ext4), vmlinuz, initrd.img: built once from the packages below

What is tested comes in beside the root: this clone with its virtual environment and /opt/tare as they are here (9p,
read-only, under a layer of memory), and a disk with the image of containers and the kernels in a cache of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tare.images import build, find_recipe
from tare.images.build import debian_sources, ensure_image
from tare.images.cache import locked, silent, write_atomically
from tare.images.kernels import ensure_kernels
from tare.system import process
from tare.system.paths import cache_folder

CLONE = Path(__file__).parents[2]
GUEST = Path(__file__).parent / "guest"
OPT = Path("/opt/tare")
SUITE = "bookworm"
PACKAGES = (
    *("linux-image-amd64", "initramfs-tools", "zstd", "kmod"),
    *("python3", "util-linux", "procps", "iproute2", "iputils-ping", "iptables", "nftables", "ethtool"),
    *("openmpi-bin", "libopenmpi3", "libucx0", "ucx-utils", "ibverbs-providers", "ibverbs-utils"),
    *("charliecloud-runtime", "containernetworking-plugins"),
    # what the programs need that the bootstrap unpacks to /opt/tare
    *("libbpf1", "libcap-ng0", "libnuma1", "libunbound8", "libxdp1", "libssh-gcrypt-4"),
)
OMITTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
ROOT_MIB = 1600
CACHE_MIB = 1200
BUILD_LIMIT_S = 900.0
PLAIN = ("-F", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0")
"""Nothing is kept of what the machine writes, so a journal would only cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A root file system with its kernel, ready to boot."""

    disk: Path
    kernel: Path
    initrd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a machine left: how its script ended, what that said, what the kernel said, and the files it wrote."""

    folder: Path
    status: int
    log: str
    console: str

    def part(self, name: str) -> str:
        """Return what the script said between `== NAME` and the next such line."""
        found = re.search(rf"^== {re.escape(name)}$\n(.*?)(?=^== |\Z)", self.log, re.MULTILINE | re.DOTALL)
        assert found, f"the machine did not come to {name}: {self.tail}"
        return found.group(1)

    @property
    def tail(self) -> str:
        """Return the ends of what script and kernel said."""
        return f"status {self.status}\n{self.log[-3000:]}\n--- console\n{self.console[-1500:]}"


def ensure_root() -> Root:
    """Return the machine's root, building it first where it is not in the cache (about two minutes)."""
    told = json.dumps([PACKAGES, OMITTED, ROOT_MIB, PLAIN, SUITE, (GUEST / "init").read_text()])
    place = cache_folder() / "emulated" / hashlib.sha256(told.encode()).hexdigest()[:32]
    root = Root(disk=place / "root.img", kernel=place / "vmlinuz", initrd=place / "initrd.img")
    with locked(place, what="root of the emulated machine", progress=silent):
        if not place.is_dir():
            with write_atomically(place) as work:
                _build(work)
    return root


def _build(work: Path) -> None:
    tree = work / "tree"
    process.run(
        (
            *("mmdebstrap", "--variant=minbase", "--format=dir", f"--include={','.join(PACKAGES)}"),
            *(
                "--aptopt=APT::Install-Recommends false",
                *(f"--aptopt={option}" for option in build.machine_apt_options()),
            ),
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in OMITTED),
            *(SUITE, str(tree), *debian_sources(SUITE)),
        ),
        timeout_s=BUILD_LIMIT_S,
        env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(work)},
        what="installing Debian for the emulated machine",
    )
    for name in ("vmlinuz", "initrd.img"):
        newest = sorted((tree / "boot").glob(f"{name}-*"))[-1]
        shutil.move(newest, work / name)
    shutil.copy(GUEST / "init", tree / "tare-init")
    (tree / "tare-init").chmod(0o755)
    for folder in ("tare", "cache", str(CLONE).lstrip("/"), "opt/tare"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    _disk(tree, work / "root.img", ROOT_MIB)
    process.run(("rm", "--recursive", "--force", "--one-file-system", "--", str(tree)), timeout_s=120)


def _disk(tree: Path, disk: Path, mib: int) -> None:
    """Make a disk with an ext4 file system of what is in a folder."""
    process.run(("mke2fs", *PLAIN, "-d", str(tree), str(disk), f"{mib}M"), timeout_s=300, what=f"making {disk.name}")


def cache_disk(folder: Path) -> Path:
    """Make, in a folder, a disk with a cache that holds the image of containers and the kernels, and nothing else."""
    image, kernels = ensure_image(find_recipe()), ensure_kernels("openmpi").prefix
    tree, disk = folder / "tree", folder / "cache.img"
    there = tree / "images" / image.digest
    there.mkdir(parents=True)
    shutil.copy(image.tar.parent / "image.json", there)
    (tree / "kernels").mkdir()
    for source, target in ((image.rootfs, there / "rootfs"), (kernels, tree / "kernels" / kernels.name)):
        process.run(("cp", "--archive", "--one-file-system", str(source), str(target)), timeout_s=120)
    _disk(tree, disk, CACHE_MIB)
    process.run(("rm", "--recursive", "--force", "--one-file-system", "--", str(tree)), timeout_s=120)
    return disk


def argv(root: Root, cache: Path, job: Path, *, cores: int = 2, memory_mib: int = 2048) -> tuple[str, ...]:
    """Return the command that emulates a machine. Nothing of it is kept on the disks, and it has no network."""
    shares = {"job": (job, "off"), "clone": (CLONE, "on"), "opt": (OPT, "on")}
    local = {
        tag: f"local,id={tag},path={folder},mount_tag=tare-{tag},security_model=none,readonly={only}"
        for tag, (folder, only) in shares.items()
    }
    line = f"console=ttyS0 root=/dev/vda rw init=/tare-init panic=-1 quiet mitigations=off tare.clone={CLONE}"
    return (
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(cores)),
        *("-m", str(memory_mib), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"),
        *("-serial", f"file:{job / 'console'}", "-kernel", str(root.kernel), "-initrd", str(root.initrd)),
        *("-append", line),
        *(word for disk in (root.disk, cache) for word in ("-drive", f"file={disk},format=raw,if=virtio,snapshot=on")),
        *(word for share in local.values() for word in ("-virtfs", share)),
    )


def run(script: str, folder: Path, *, cache: Path, limit_s: float = 400.0) -> Job:
    """Boot a machine, let it run a script of `guest`, and return what it left; fail where it does not end by itself."""
    root = ensure_root()
    folder.mkdir()
    for path in GUEST.iterdir():
        shutil.copy(path, folder)
    (folder / "job.sh").write_text(f". /tare/common.sh\n. /tare/{script}.sh\n")
    command = argv(root, cache, folder)
    done = process.run(("nice", *command), timeout_s=limit_s, check=False, what="emulating a machine")
    said = f"not done after {limit_s:g} s" if done.timed_out else done.stderr
    read = {name: _text(folder / name) for name in ("log", "status", "console")}
    job = Job(folder=folder, status=int(read["status"] or -1), log=read["log"], console=read["console"] + said)
    assert job.status >= 0, f"{script}: the machine did not come to the end: {job.tail}"
    return job


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
