"""Hold namespaces: small processes that join or make them, prepare their mounts and wait.

Run as a standalone script (`python -IS holder.py MARK STATE`) so that it starts fast: it imports no module of tare and
nothing outside the standard library. It reads a list of JSON objects from stdin, forks a holder for each, and answers
with a JSON line for each, in order: `{"pid": N}`, the holder's process number as its starter sees it, or
`{"error": "..."}`. A holder stays until it is killed; with the last process of a namespace the kernel removes the
namespace and all that is in it. Each holder's command line has its own mark, no longer than that of this process.

An object's keys, all but `mark` optional:
    mark        what the holder's command line shows in place of MARK
    cgroups     folders of cgroups to join first (their `cgroup.procs` is written)
    leaf        folders of cgroups to move to after the cgroup namespace was made (cgroup v2 allows no process
                in a cgroup whose controllers are handed on)
    join        a process whose namespaces are entered, and `join_kinds`, which of them
    new         kinds of namespaces to make: user net mnt uts ipc pid cgroup
    as_root     true: in a new user namespace the user is root; else the user itself
    hostname    for a new uts namespace
    cpus        cores to run on (inherited by all that is started from here)
    boot_id     text that /proc/sys/kernel/random/boot_id shows in the new mount namespace
    tmpfs       folders that get an empty file system of their own
    keep        folders that stay visible although a parent of theirs gets an empty file system
    binds       [[source, target], ...] made in the new mount namespace
    root        a folder that becomes the root directory (with /proc, /sys, /dev of its own and `keep` inside)
    overlay     true: what is mounted on in `root` is made in an overlay, and not in the folder itself
    shown       [[source, target, read only], ...] bound below `root`
    read_only   folders that become read-only, but for `writable`, which may be one in them
    cgroupfs    [[type, options, target], ...] file systems mounted again below /sys/fs/cgroup
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

HOSTS = "/etc/hosts"
FILES = {"boot_id": "/proc/sys/kernel/random/boot_id", "hosts": HOSTS}
FRESH = ("/tmp", "/run", "/root", "/tare")
MACHINE_S = ("/sys/kernel", "/sys/module", "/sys/firmware", "/sys/power")
CLONE = {
    "mnt": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
SETTINGS = MS_NOSUID | MS_NODEV | MS_NOEXEC
PR_SET_NAME = 15
ARGUMENTS, MARK_AT = 48, 3  # the field arg_start of /proc/PID/stat; the word of the command line

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """Call a libc function; raise OSError naming it when it fails."""
    values = [a.encode() if isinstance(a, str) else a for a in arguments]
    if getattr(libc, name)(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}({', '.join(map(str, arguments))}): {os.strerror(number)}")


def mount(source: "str | None", target: str, kind: "str | None", flags: int = 0, options: "str | None" = None) -> None:
    """Mount a file system, or change a mount."""
    call("mount", source, target, kind, ctypes.c_ulong(flags), options)


def bind(source: str, target: str) -> None:
    """Bind a file or folder to a place, and create the place."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            open(target, "w").close()
    mount(source, target, None, MS_BIND | MS_REC)


def join(pid: int, kinds: list[str]) -> None:
    """Enter the namespaces of another process; the pid namespace applies to children only."""
    descriptors = [(kind, os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)) for kind in kinds]
    for kind, descriptor in sorted(descriptors, key=lambda pair: pair[0] == "mnt"):
        call("setns", descriptor, CLONE[kind])
        os.close(descriptor)


def write_pid(folders: list[str]) -> None:
    """Join cgroups."""
    for folder in folders:
        with open(os.path.join(folder, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))


def held(paths: list[str]) -> list[tuple[str, int]]:
    """Open folders before they are covered by a mount."""
    return [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in paths if os.path.exists(path)]


def show_again(folders: list[tuple[str, int]], root: str = "") -> None:
    """Bind folders that were opened before back to their original places."""
    for path, descriptor in folders:
        there = os.path.exists(root + path) and os.path.samestat(os.fstat(descriptor), os.stat(root + path))
        if not there:
            bind(f"/proc/self/fd/{descriptor}", root + path)
        os.close(descriptor)


def fresh_file_systems(spec: dict[str, Any]) -> None:
    """Give the mount namespace its own /proc, /sys, /tmp, /run, ..., and a boot_id."""
    new = spec.get("new", [])
    kept = held(spec.get("keep", []))
    for path in spec.get("tmpfs", []):
        if os.path.isdir(path):
            mode = "1777" if path in ("/tmp", "/dev/shm", "/var/tmp") else "755"
            mount("tare", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    show_again(kept)
    if "pid" in new:
        mount("tare", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        read_only(("/proc/sys",), but="/proc/sys/net")
    if "net" in new:  # else programs that read network devices from /sys (UCX does) see another namespace's
        cgroups = [] if "pid" in new else held(["/sys/fs/cgroup"])
        mount("tare", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        read_only(MACHINE_S)
        cgroup_file_systems(spec.get("cgroupfs", []))
        show_again(cgroups)
    for name, place in FILES.items():
        if spec.get(name):
            path = f"/run/.tare-{name}"
            with open(path, "w") as file:
                file.write(spec[name].rstrip("\n") + "\n")
            mount(path, place, None, MS_BIND)


def read_only(paths: "list[str] | tuple[str, ...]", but: str = "", flags: "int | None" = SETTINGS) -> None:
    """Make folders read-only; their mounts get `flags`, or keep their own if None.

    The machine's settings are, because in some runtimes a container is user 0 and sees its node's.
    """
    spared = held([but])
    for path in paths:
        if os.path.isdir(path):
            kept = locked_flags(path) if flags is None else flags
            mount(path, path, None, MS_BIND | MS_REC)
            mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)
    for path, descriptor in spared:
        mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND)
        os.close(descriptor)


def cgroup_file_systems(entries: list[list[str]]) -> None:
    """Mount the cgroup file systems again, as the cgroup namespace shows them."""
    if entries and entries[0][0] != "cgroup2":
        mount("tare", "/sys/fs/cgroup", "tmpfs", 0, "mode=755")
    for kind, options, target in entries:
        os.makedirs(target, exist_ok=True)
        mount("tare", target, kind, 0, options or None)


def overlaid(root: str) -> str:
    """Return an overlay on a folder, so that the folder itself is not written to; it ends with the mount namespace."""
    place = "/run/.tare-overlay"
    os.makedirs(place, exist_ok=True)
    mount("tare", place, "tmpfs", 0, "mode=755")
    for name in ("image", "upper", "work", "root"):
        os.mkdir(f"{place}/{name}")
    mount(root, f"{place}/image", None, MS_BIND)  # names with commas and colons could not be given as options
    layers = f"lowerdir={place}/image,upperdir={place}/upper,workdir={place}/work"
    mount("tare", f"{place}/root", "overlay", 0, layers)
    return f"{place}/root"


def locked_flags(path: str) -> int:
    """Return the flags of a mount that a user namespace may not remove."""
    return os.statvfs(path).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)


def make_place(source: str, target: str) -> None:
    """Create the mount point for a folder or file."""
    os.makedirs(target if os.path.isdir(source) else os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target):
        open(target, "w").close()


def show(opened: list[tuple[str, bool, int]], root: str) -> None:
    """Bind folders and files that were opened before to their places below a root directory."""
    for target, read_only, descriptor in opened:
        bind(f"/proc/self/fd/{descriptor}", root + target)
        if read_only:
            mount(None, root + target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | locked_flags(root + target))
        os.close(descriptor)


def change_root(spec: dict[str, Any]) -> None:
    """Make a folder the root directory, with the kernel's file systems and the kept folders inside."""
    keep: list[str] = spec.get("keep", [])
    binds: list[list[str]] = spec.get("binds", [])
    kept = held(keep)
    shown = [(target, ro, os.open(source, os.O_PATH | os.O_CLOEXEC)) for source, target, ro in spec.get("shown", [])]
    root = overlaid(spec["root"]) if spec.get("overlay") else spec["root"]
    for source, target, _ in spec.get("shown", []):
        make_place(source, root + target)
    sources = [(target, os.open(source, os.O_PATH | os.O_CLOEXEC)) for source, target in binds]
    if not any(map(os.path.islink, (f"{root}/etc", f"{root}{HOSTS}"))) and all(
        map(os.path.isfile, (HOSTS, f"{root}{HOSTS}"))
    ):
        sources.append((HOSTS, os.open(HOSTS, os.O_PATH | os.O_CLOEXEC)))  # the names that its node knows
    for path in keep:  # an empty mount point if the image has none; below the fresh file systems it is made later
        if os.path.isdir(path) and not path.startswith(tuple(f"{place}/" for place in FRESH)):
            os.makedirs(root + path, exist_ok=True)
    mount(root, root, None, MS_BIND)
    mount(None, root, None, MS_BIND | MS_REMOUNT | MS_RDONLY | locked_flags(root))
    for path in ("/proc", "/sys", "/dev"):
        mount(path, root + path, None, MS_BIND | MS_REC)
    for path in FRESH:
        if os.path.isdir(root + path):
            mount("tare", root + path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    show_again(kept, root)
    show(shown, root)
    for target, descriptor in sources:
        bind(f"/proc/self/fd/{descriptor}", root + target)
        os.close(descriptor)
    os.chdir(root)
    call("pivot_root", ".", ".")
    call("umount2", ".", MNT_DETACH)
    os.chdir("/")


def map_user(user: int, group: int, *, root: bool) -> None:
    """Map an ordinary user and its group in the new user namespace, where only these two exist: to themselves, or root.

    A program that is started in it later has capabilities only as root.
    """
    maps = (f"{0 if root else user} {user} 1", f"{0 if root else group} {group} 1")
    for name, text in (("uid_map", maps[0]), ("setgroups", "deny"), ("gid_map", maps[1])):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def prepare(spec: dict[str, Any]) -> None:
    """Create the namespaces that need no new process, and set them up."""
    new = spec.get("new", [])
    flags = sum(CLONE[kind] for kind in new if kind != "pid")
    user, group = os.geteuid(), os.getegid()
    if flags:
        call("unshare", flags)
    if "user" in new:
        map_user(user, group, root=bool(spec.get("as_root")))
    write_pid(spec.get("leaf", []))
    if spec.get("hostname"):
        name = spec["hostname"].encode()
        call("sethostname", name, len(name))
    if "mnt" in new:
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        fresh_file_systems(spec)
        if spec.get("read_only"):  # else the owners of `writable` could not be mapped any more
            read_only(spec["read_only"], spec.get("writable", ""), None)
        if spec.get("root"):
            change_root(spec)
        else:
            for source, target in spec.get("binds", []):
                bind(source, target)


def wait_for_ever() -> None:
    """Be init: reap orphans until killed."""
    watched = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if signal.sigwait(watched) != signal.SIGCHLD:
            os._exit(0)


def detach() -> None:
    """Detach from the starter's terminal, pipes and folder."""
    os.setsid()
    os.chdir("/")
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def child(spec: dict[str, Any], channel: int) -> None:
    """Be the holder; report over the channel that all is ready, or what failed."""
    try:
        prepare(spec)
        detach()
        os.write(channel, b"ok")
    except (OSError, KeyError, ValueError) as error:
        os.write(channel, str(error).encode()[:900])
        os._exit(1)
    os.close(channel)
    wait_for_ever()


def show_mark(mark: str) -> None:
    """Put a mark into this process's command line, in the memory that the kernel shows it from (proc(5), cmdline)."""
    with open("/proc/self/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    start, end = int(fields[ARGUMENTS - 3]), int(fields[ARGUMENTS - 2])
    with open("/proc/self/cmdline", "rb") as shown:
        words = shown.read().split(b"\0")
    words[MARK_AT] = mark.encode()
    ctypes.memmove(start, b"\0".join(words).ljust(end - start, b"\0")[: end - start], end - start)


def start(spec: dict[str, Any]) -> str:
    """Create a holder and return the line about it."""
    try:
        show_mark(spec["mark"])
        write_pid(spec.get("cgroups", []))
        if spec.get("cpus"):
            os.sched_setaffinity(0, spec["cpus"])
        if spec.get("join"):
            join(spec["join"], spec.get("join_kinds", []))
        if "pid" in spec.get("new", []):
            call("unshare", CLONE["pid"])
    except OSError as error:
        return json.dumps({"error": str(error)})
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        child(spec, writer)
    os.close(writer)
    answer = os.read(reader, 1000).decode()
    return json.dumps({"pid": pid} if answer == "ok" else {"error": answer or "the holder died"})


def main() -> int:
    """Create the holders that stdin lists, at the same time, and return the exit status."""
    call("prctl", PR_SET_NAME, "tare-holder", 0, 0, 0)
    pipes: list[int] = []
    for spec in json.load(sys.stdin):
        reader, writer = os.pipe()
        if os.fork() == 0:
            for each in (reader, *pipes):
                os.close(each)
            os.write(writer, start(spec).encode())
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    lines = [os.read(reader, 2000).decode() or json.dumps({"error": "the holder died"}) for reader in pipes]
    print("\n".join(lines), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
