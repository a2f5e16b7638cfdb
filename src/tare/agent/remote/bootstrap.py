"""Start a node's service: the first program that Python runs on a node. It is sent as text and imports no tare module.

The head sends this text as one line, then a line of JSON: {"digest", "size", "folder"}. The answer is a line that
begins with `tare-node ` (a login script may have printed others before): {"python", "has"} or {"error"}. If the node
lacks the archive, the head sends it; then the service begins. Python 3.6 can run this file far enough to be named.
"""

import json
import os
import sys

MYPY = False
if MYPY:
    from typing import IO, Any, Dict  # noqa: UP035

MARK = "tare-node "
OLDEST = (3, 9)


def main() -> int:
    """Unpack the archive if it is new here, and serve."""
    source = os.fdopen(os.dup(0), "rb", 0)  # unbuffered: what follows belongs to others

    def answer(**told: object) -> None:
        os.write(1, (MARK + json.dumps(told) + "\n").encode())

    wanted = json.loads(source.readline().decode())
    version = list(sys.version_info[:3])
    if tuple(version) < OLDEST:
        answer(python=version, error="python3 is version {}.{}, and 3.9 is needed".format(*version))
        return 5
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(wanted["folder"] or os.path.join(base, "tare"), "node", wanted["digest"])
    has = os.path.exists(os.path.join(folder, "tare"))
    try:
        if not has:
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        elif os.stat(folder).st_uid not in (0, os.geteuid()):
            answer(python=version, error=folder + " belongs to another user")
            return 5
        answer(python=version, has=has)
        if not has:
            unpack(exactly(source, wanted["size"]), folder)
    except OSError as error:
        answer(python=version, error=f"{folder}: {error.strerror or error}")
        return 5
    sys.path.insert(0, folder)
    supply(os.path.join(folder, "tare", "agent", "remote", "backport.py"))
    from tare.agent.remote import serve

    return serve.main()


def exactly(source: "IO[bytes]", size: int) -> bytes:
    """Read so many bytes."""
    parts = []
    while size > 0:
        part = source.read(min(size, 1 << 20))
        if not part:
            sys.exit(5)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def unpack(data: bytes, folder: str) -> None:
    """Unpack an archive into a new folder, which other services may be doing at the same time."""
    import io
    import shutil
    import tempfile
    import zipfile

    made = tempfile.mkdtemp(dir=os.path.dirname(folder), prefix=".unfinished-")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(made)
        os.rename(made, folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not os.path.exists(os.path.join(folder, "tare")):  # not another service was first
            raise


def supply(path: str) -> None:
    """Run the backport before anything of tare is imported."""
    told: Dict[str, Any] = {"__name__": "tare_backport"}  # noqa: UP006
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), told)
    told["supply"]()


if __name__ == "__main__":
    sys.exit(main())
