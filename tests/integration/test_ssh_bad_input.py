"""Hosts that cannot be used: one sentence with the host, the right exit code, before anything is launched."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.live import live, wait_for
from integration.ssh_hosts import NODE_HOME, UID, SshHosts, lend, ssh_hosts, start_sshd

pytestmark = live("sshd")
STUDY = """name: bad
cluster: {{ssh: {{hosts: [{hosts}], ssh_config: {config}}}}}
environments: [bare]
placements: [2x1]
workloads: {workloads}
repetition: {{rounds: 1, max_rounds: 1, reruns: 0, turns: 2}}
a_a: true
"""
KERNELS = "{micro: {kernels: [{barrier: {iterations: 20, warmup: 5}}]}}"


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshHosts]:
    with ssh_hosts(2, cores=1) as made:
        lend(made.cache, image=False)
        yield made


def refused(
    hosts: SshHosts, code: int, *, names: str = "alpha, beta", config: Path | None = None, workloads: str = KERNELS
) -> str:
    """Run a study that must be refused; return what tare said about it."""
    study = hosts.folder / "bad.yaml"
    study.write_text(STUDY.format(hosts=names, config=config or hosts.config, workloads=workloads))
    result = hosts.tare("run", study)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    messages = [
        line for line in result.stderr.splitlines() if line.startswith("tare: ") and "can decide nothing" not in line
    ]
    assert len(messages) == 1, result.stderr
    assert "launches done" not in result.stderr
    return result.stderr


def changed(hosts: SshHosts, before: str, after: str) -> Path:
    """Return another file for ssh: a part of the hosts' one is replaced."""
    config = hosts.folder / "other_config"
    config.write_text(hosts.config.read_text().replace(before, after))
    return config


@contextmanager
def with_variable(hosts: SshHosts, assignment: str) -> Iterator[None]:
    """Have the second host's sshd set a variable."""
    _restart(hosts, assignment)
    try:
        yield
    finally:
        _restart(hosts)


def _restart(hosts: SshHosts, *more: str) -> None:
    node = hosts.site.nodes[1]
    daemon = hosts.daemons[node.name]
    os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait()
    hosts.daemons[node.name] = start_sshd(node, hosts.folder, *more)
    wait_for(lambda: ":22 " in hosts.on(node, "ss", "-Hltn").stdout, "sshd")


@contextmanager
def mounted(hosts: SshHosts, place: str, *options: str) -> Iterator[None]:
    """Mount something over a place of the second host."""
    node = hosts.site.nodes[1]
    done = hosts.on(node, "mount", *options, place)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        hosts.on(node, "umount", "-l", place)


def test_a_host_of_no_name_is_named(hosts: SshHosts) -> None:
    assert "node nosuch.invalid cannot be reached: there is no host of this name" in refused(
        hosts, 5, names="alpha, nosuch.invalid"
    )


def test_a_key_that_is_refused_is_said_with_what_to_try(hosts: SshHosts) -> None:
    other = hosts.folder / "host"  # a key, but not the user's
    key = hosts.folder / "stranger"
    key.write_bytes(other.read_bytes())
    os.chown(key, UID, UID)
    key.chmod(0o600)
    said = refused(hosts, 5, config=changed(hosts, f"{hosts.folder}/user\n", f"{key}\n"))
    assert "node beta cannot be reached: it refuses your key: try `ssh beta true`" in said


def test_a_host_key_that_changed_is_not_accepted(hosts: SshHosts) -> None:
    known = hosts.folder / "known_others"
    words = (hosts.folder / "user.pub").read_text().split()[:2]
    known.write_text("".join(f"{name} {' '.join(words)}\n" for name in hosts.names))
    said = refused(hosts, 5, config=changed(hosts, f"{hosts.folder}/known_hosts", str(known)))
    assert "its host key is not the one in known_hosts" in said
    assert "ssh-keygen -R beta" in said


def test_a_host_key_that_is_unknown_is_not_accepted(hosts: SshHosts) -> None:
    said = refused(hosts, 5, config=changed(hosts, f"{hosts.folder}/known_hosts", "/dev/null"))
    assert "its host key is not known: run `ssh beta` once" in said


def test_a_node_without_python_is_named(hosts: SshHosts) -> None:
    with with_variable(hosts, "PATH=/nowhere"):
        assert "node beta cannot be reached: it has no python3 in PATH" in refused(hosts, 5)


def test_a_python_that_is_too_old_is_named_with_its_version(hosts: SshHosts) -> None:
    folder = hosts.folder / "old"
    folder.mkdir()
    program = folder / "python3"
    program.write_text(
        "#!/bin/sh\nexec /usr/bin/python3 -ISc 'import sys; sys.version_info = (3, 8, 1); exec(sys.argv[1])' \"$2\"\n"
    )
    program.chmod(0o755)
    with with_variable(hosts, f"PATH={folder}:/usr/bin:/bin"):
        assert "node beta cannot be used: python3 is version 3.8, and 3.9 is needed" in refused(hosts, 5)


def test_a_home_that_is_full_is_named(hosts: SshHosts) -> None:
    with mounted(hosts, NODE_HOME, "-t", "tmpfs", "-o", f"size=16k,uid={UID},mode=0700", "full"):
        said = refused(hosts, 5)
    assert "node beta cannot be used: " in said
    assert "No space left on device" in said


def test_a_folder_from_which_nothing_can_be_started_is_named(hosts: SshHosts) -> None:
    with mounted(hosts, "/tmp", "--bind", "/tmp"):
        assert hosts.on(hosts.site.nodes[1], "mount", "-o", "remount,bind,noexec", "/tmp").returncode == 0
        assert "/tmp is mounted noexec: no program can be started from it (on beta)" in refused(hosts, 2)


def test_a_node_without_the_mpi_is_named(hosts: SshHosts) -> None:
    program = str(Path("/usr/bin/mpirun.openmpi"))
    with mounted(hosts, str(Path("/usr/bin/orterun").resolve()), "--bind", "/dev/null"):
        said = refused(hosts, 2)
    assert "(on beta)" in said, program
    assert "Open MPI" in said


def test_a_version_of_the_mpi_that_differs_is_named_with_the_heads(hosts: SshHosts) -> None:
    fake = hosts.folder / "orterun"
    fake.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.0.1'\n")
    fake.chmod(0o755)
    with mounted(hosts, str(Path("/usr/bin/orterun").resolve()), "--bind", str(fake)):
        said = refused(hosts, 2)
    assert "its Open MPI 4.0.1 is not the head's Open MPI 4.1" in said
    assert "(on beta)" in said


def test_a_program_that_only_the_head_has_is_named(hosts: SshHosts) -> None:
    program = hosts.folder / "home" / "only-here"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    os.chown(program, UID, UID)
    with (
        mounted(hosts, str(program), "--bind", "/dev/null"),
        mounted(hosts, str(program.parent), "-t", "tmpfs", "none"),
    ):
        said = refused(hosts, 2, workloads=f"{{own: {{command: [{program}]}}}}")
    assert "does not exist on beta" in said
