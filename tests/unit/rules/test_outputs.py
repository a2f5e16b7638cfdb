"""Files are written in named places only, and nothing that runs code when it is read is written or read at all.

`tare` runs as root in folders of other users. What a user names as an output goes through `tare.system.safe_files`,
which follows no link of another user's; the modules below write where nobody else can put a link, or have checked it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from source_tree import CODE, calls_in, trees

THE_PLACE: Final = "the one place that opens outputs"
STATE: Final = (
    "folders of the run, of the lab or of the cache, which belong to the caller (tare.system.paths, images.cache)"
)
KERNEL: Final = "files of /proc, /sys and cgroups"
SCRATCH: Final = "a new folder of the system's temporary folder, mode 0700"
OPENED: Final = "a file or a folder that safe_files has opened"
NODE: Final = "it runs on a node or in a container, in a folder that tare has made there"

WRITERS: Final[dict[str, tuple[str, ...]]] = {
    THE_PLACE: ("system/safe_files.py",),
    OPENED: ("report/export/csv.py", "store/results_folder.py", "images/convert.py", "cli/bundle/archive.py"),
    SCRATCH: (
        "cli/bundle/wheels.py", "cli/doctor/noise_probe.py", "mpi/openmpi5.py",
        "runtimes/podman_hpc.py", "run/trace/bpftrace.py",
    ),
    STATE: (
        "cli/check/command.py", "cli/lab_commands.py", "cli/lab_kubernetes.py", "cli/network_commands.py",
        "clusters/connections.py",
        "clusters/ssh_clean.py", "runtimes/containers/user_podman.py", "system/process.py", "images/bundled_image.py",
        "images/build.py",
        "images/cache.py", "images/direct_build.py", "images/host_build.py", "images/host_mpi.py",
        "images/inside/archive.py", "images/inside/image_layers.py", "images/own_images.py", "images/usage.py",
        "clusters/pods/gate.py", "clusters/pods/in_lab.py", "clusters/pods/lab_networks/cilium.py",
        "clusters/pods/lab_networks/flannel.py", "clusters/pods/lab_networks/model.py", "mpi/launch/__init__.py",
        "networks/calico.py", "networks/canal.py", "system/node/cgroup_marks.py", "system/node/owners.py",
        "agent/remote/machine_answers.py",
        "agent/site_folder.py", "daemons/certificate.py", "daemons/containerd.py", "daemons/coredns.py",
        "daemons/docker.py", "daemons/kubernetes.py", "daemons/ssh.py",
    ),
    KERNEL: (
        "runtimes/containers/idmapped.py", "system/namespaces.py", "system/node/bridges.py", "system/node/cgroups.py",
        "system/node/hierarchies.py",
        "system/node/limits.py", "system/node/page_cache.py", "agent/administered.py", "networks/wiring/host_stack.py",
    ),
    NODE: ("system/holder.py", "mpi/launch/agent.py", "agent/remote/archive.py", "agent/remote/bootstrap.py"),
    "it runs where tare is not installed, and checks the folder first": ("cli/bundle/install.py",),
}  # fmt: skip
"""What writes files by their path, by where."""

RESOLVERS: Final[dict[str, str]] = {
    "cli/bundle/install.py": "to look at the folders above, and its own path",
    "clusters/lab.py": "tare's own sources",
    "images/sources/__init__.py": "tare's own sources",
    "clusters/remote_files.py": "compared with the cache, and refused if it leads out",
    "system/binds.py": "a path of the user's, as the kernel would walk it: `..` after a link",
    "system/namespaces.py": "the Python that runs tare",
    "images/host_mpi.py": "files of this machine's MPI, which are read",
    "images/inside/safe_paths.py": "compared, and refused if it leads out",
    "images/inside/dynamic_loader.py": "a link in a folder shown to a container, followed as inside; it is only read",
    "images/kernels.py": "this machine's compiler",
    "mpi/path_mpi.py": "this machine's programs",
    "agent/remote/archive.py": "tare's own files",
    "networks/wiring/infiniband.py": "a link of /sys",
    "workloads/program_places.py": "to name the links that containers do not see",
    "workloads/own_programs.py": "the name of a library in its package",
}
"""What follows the links of a path before it uses it: a link is then followed whoever made it."""

COMPARERS: Final[dict[str, str]] = {
    "clusters/remote_files.py": "both are resolved before",
    "study/feasibility/injection.py": "a path that `find_linked` has found inside",
    "study/feasibility/preflight.py": "only to follow its links inside the image",
    "images/cache.py": "mount points, which the kernel names without `..`",
    "images/inside/dynamic_loader.py": "only to follow its links inside the image; a path with `..` is the image's",
    "system/node/hierarchies.py": "a path with `..` is refused",
    "runtimes/podman_rootless.py": "it decides no access",
    "workloads/program_places.py": "both are resolved before",
    "workloads/own_programs.py": "normal paths: which folders are shown, or are the system's",
    "workloads/programs/locate.py": "only to follow its links inside the image",
}
"""What compares paths as texts, for which `/cache/../etc` is in `/cache`."""

_MODE: Final = re.compile(r"(?=.*[wax+])[rwaxbt+]{1,4}")
_METHODS: Final = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "rename"}
_FUNCTIONS: Final = {
    "os.rename", "os.replace", "os.symlink", "os.link", "os.truncate", "shutil.copyfile", "shutil.copy", "shutil.copy2",
    "shutil.copytree", "shutil.move", "np.save", "np.savez", "np.savetxt",
}  # fmt: skip
_TEMPORARY: Final = {"mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"}


def writes(tree: ast.Module) -> Iterator[str]:
    """Yield each call that writes, makes, or moves a file by its path."""
    for node in calls_in(tree):
        called = ast.unparse(node.func)
        last = called.rpartition(".")[2]
        given = (*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode"))
        texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        opens = last in {"open", "ZipFile", "TarFile"} and any(map(_MODE.fullmatch, texts))
        creates = called == "os.open" and any(flag in ast.unparse(node) for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))
        beside = last in _TEMPORARY and any(keyword.arg == "dir" for keyword in node.keywords)
        if opens or creates or beside or called in _FUNCTIONS or ("." in called and last in _METHODS):
            yield f"line {node.lineno}: {called}"


def test_files_are_written_in_named_places_only() -> None:
    named = {name for names in WRITERS.values() for name in names}
    found = {name: calls for name, tree in trees() if (calls := list(writes(tree)))}
    new = {name: calls for name, calls in found.items() if name not in named}
    assert not new, "use safe_files.output_file or safe_files.replacing for what a user names, or name the place above"
    assert named == found.keys(), "these write no more"


@pytest.mark.parametrize(
    ("places", "pattern", "instead"),
    [
        (RESOLVERS, r"\.resolve\(\)|realpath\(", "safe_files walks a path, and follows no link of another user's"),
        (COMPARERS, r"\bis_relative_to\(", "resolve both paths, or refuse one with `..`"),
    ],
)
def test_links_are_resolved_and_paths_compared_in_named_places_only(
    places: dict[str, str], pattern: str, instead: str
) -> None:
    assert {name for name, code in CODE.items() if re.search(pattern, code)} == places.keys(), instead


@pytest.mark.parametrize(
    "code",
    [
        "path.write_text(page)", "path.write_bytes(b'')", "path.open('w')", "open(path, mode='ab')", "path.open('r+b')",
        "os.open(path, os.O_WRONLY)", "shutil.copyfile(one, other)", "zipfile.ZipFile(path, 'w')",
        "tarfile.open(path, 'w', format=1)", "tempfile.TemporaryDirectory(dir=folder)", "part.rename(out)",
        "os.replace(a, b)", "gzip.open(path, 'wt')", "path.touch()",
    ],
)  # fmt: skip
def test_what_writes_a_file_is_recognised(code: str) -> None:
    assert list(writes(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["path.open('rb')", "open(path)", "text.replace('a', 'w')", "os.open(path, os.O_RDONLY)"]
)
def test_what_reads_is_not(code: str) -> None:
    assert not list(writes(ast.parse(code)))


def test_no_code_is_read_from_a_file() -> None:
    """As ruff's banned-api (pyproject.toml), also for imports by name and for arguments."""
    banned = re.compile(r"\b(pickle|marshal|shelve|dill|cloudpickle|multiprocessing)\b(?!,)|allow_pickle=True")
    found = {name for name, code in CODE.items() if banned.search(re.sub(r'"""[\s\S]*?"""', "", code))}
    assert found == {"agent/remote/archive.py"}, "tare's own byte code, for its own processes on the nodes"
    assert "marshal.load" not in CODE["agent/remote/archive.py"]


def test_messages_go_through_the_function_that_makes_them_printable() -> None:
    """A message may have text of an image, a host or a batch system in it."""
    places = {"output.py", "app.py", "launch_command.py", "bundle/install.py", "afterwards/export_command.py"}
    told = re.compile(r"print\([^\n]*file=sys\.stderr")
    found = {name for name, code in CODE.items() if name.startswith("cli/") and told.search(code)}
    assert found <= {f"cli/{place}" for place in places}
