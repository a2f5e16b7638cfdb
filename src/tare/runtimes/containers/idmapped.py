"""Show folders as if another user owned what their owner owns.

Run as a script of its own, in the mount namespace that is to have the folders; it imports no module of tare.

    idmapped.py MAP ro|rw|all SOURCE TARGET [MAP ro|rw|all SOURCE TARGET ...]

MAP is a uid_map with commas for line ends, as "0 59123 1,1 1900000000 65535": a file of user 0 is shown as one of user
59123, and what user 59123 makes there is user 0's. Groups are mapped alike, or as what follows a slash says. `all` is
`rw` with what is mounted below SOURCE. Nothing on disk is changed (mount_setattr(2), MOUNT_ATTR_IDMAP).
"""

import ctypes
import os
import struct
import sys

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_EMPTY_PATH, AT_RECURSIVE, AT_FDCWD = 1, 4, 0x1000, 0x8000, -100
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 0x00100000
CLONE_NEWUSER = 0x10000000

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, what: str, *arguments: object) -> int:
    """Make a system call; raise OSError naming its purpose."""
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def user_namespace(mapping: str) -> int:
    """Return an open user namespace with a mapping; the process that creates it ends."""
    made, written = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = libc.unshare(CLONE_NEWUSER)
        os.write(made[1], b"1" if status == 0 else b"0")
        os.read(written[0], 1)
        os._exit(0)
    try:
        if os.read(made[0], 1) != b"1":
            raise OSError("a user namespace could not be made")
        users, _, groups = mapping.partition("/")
        for name, text in (("uid_map", users), ("gid_map", groups or users)):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(text.replace(",", "\n"))
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.write(written[1], b"1")
        os.waitpid(pid, 0)


def mapped(namespace: int, mode: str, source: str) -> int:
    """Return a mount of a folder that is not attached yet, mapped as a user namespace is."""
    flags = MOUNT_ATTR_IDMAP | (MOUNT_ATTR_RDONLY if mode == "ro" else 0)
    below = AT_RECURSIVE if mode == "all" else 0
    opening = OPEN_TREE_CLONE | os.O_CLOEXEC | below
    tree = call(OPEN_TREE, f"opening {source}", AT_FDCWD, source.encode(), opening)
    wanted = struct.pack("QQQQ", flags, 0, 0, namespace)
    call(MOUNT_SETATTR, f"mapping the owners of {source}", tree, b"", AT_EMPTY_PATH | below, wanted, len(wanted))
    return tree


def show(tree: int, target: str) -> None:
    """Attach a mount at a place."""
    if not os.path.exists(target):
        os.makedirs(target)
    call(MOVE_MOUNT, f"mounting {target}", tree, b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def main(arguments: list[str]) -> int:
    """Show every folder; return the exit status."""
    try:
        wanted = [arguments[at : at + 4] for at in range(0, len(arguments), 4)]
        # Open all before the first is shown: a folder below another one could not be mapped a second time.
        trees = [mapped(user_namespace(mapping), mode, source) for mapping, mode, source, _ in wanted]
        for tree, (*_, target) in zip(trees, wanted, strict=True):
            show(tree, target)
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
