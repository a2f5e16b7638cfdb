"""Hosts and namespaces of killed runs are cleaned or not forgotten, and what is wrong with a host is told."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare.agent import clean, site_folder
from tare.agent.remote import machine_answers, unfit_machines
from tare.agent.remote.machine import this_machine
from tare.clusters import kubernetes_clean, remote_cluster, ssh, ssh_clean
from tare.clusters.pods import api, manifests
from tare.clusters.pods.api import ApiError
from tare.clusters.ssh_errors import explained
from tare.errors import InfrastructureError, RefusedError, UsageError
from tare.model import KubernetesSpec, LabSpec
from tare.mpi import MPIS
from tare.system.node.cgroup_marks import mark
from tare.system.node.cgroups import Hierarchy
from tare.system.node.owners import owner


def note(folder: Path, run: str, **more: object) -> None:
    place = folder / "tare" / f"{run}-ssh"
    place.mkdir(parents=True, mode=0o700)
    (place / "owner.json").write_text(json.dumps({"lab": run, site_folder.HOSTS: ["alpha", "beta"], **more}))


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_RUN_FOLDER", str(tmp_path / "tare"))
    (tmp_path / "tare").mkdir(mode=0o700)
    return tmp_path


class Answering:
    """Connections of which only the first host's is accepted."""

    def __init__(self, hosts: tuple[str, ...], config: str) -> None:
        if hosts != ("alpha",):
            raise InfrastructureError("node beta cannot be reached: it does not answer")
        self.conversations = {0: self}

    def ask(self, name: str, run: str, *, limit_s: float) -> tuple[str, ...]:
        assert name == "clean"
        return (f"process 7 of {run}",)

    def close(self) -> None:
        pass


def test_a_host_that_does_not_answer_is_asked_again_until_it_is_forgotten(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone")
    monkeypatch.setattr(ssh_clean, "SshConnections", Answering)
    killed = ssh_clean.killed_runs()
    answers = ssh_clean.ask_hosts(killed)
    assert [each.removed for each in answers] == [("process 7 of s1x1",), ()]
    assert str(answers[1]) == (
        "not verified: beta, a host of run s1x1, which was killed: node beta cannot be reached: it does not answer; "
        "if the host is gone for good, `tare clean --forget beta`"
    )
    clean.remove_lab("s1x1")
    ssh_clean.keep_unverified(killed, answers)
    killed = ssh_clean.killed_runs()
    assert [each[site_folder.HOSTS] for each in killed] == [["beta"]]
    assert ssh_clean.ask_hosts(killed, ["beta"]) == ()
    (run_folder / "tare").rename(run_folder / "first")
    (run_folder / "tare").mkdir(mode=0o700)
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone")
    killed = ssh_clean.killed_runs()
    answers = ssh_clean.ask_hosts(killed, ["beta"])
    assert [each.host for each in answers] == ["alpha"]
    clean.remove_lab("s1x1")
    ssh_clean.keep_unverified(killed, answers)
    assert ssh_clean.killed_runs() == ()
    with pytest.raises(UsageError, match="beta is not a host of a run that was killed"):
        ssh_clean.ask_hosts(ssh_clean.killed_runs(), ["beta"])


def test_the_notes_of_killed_runs_name_hosts_and_daemons_hosts(run_folder: Path) -> None:
    spec = LabSpec(hosts=("alpha",), daemon_hosts=("dalpha",))
    name = site_folder.unique_name("hosts")
    with site_folder.kept(f"{name}-ssh", name, site_folder.folder_of(name), ssh.SshCluster().note(spec)):
        (told,) = (json.loads(file.read_text()) for file in run_folder.glob("tare/*/owner.json"))
    assert (told[site_folder.HOSTS], list(run_folder.glob("tare/*"))) == (["alpha", "dalpha"], [])
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone", **{site_folder.HOSTS: ["-oProxyCommand=x", 7, ""]})
    assert ssh_clean.killed_runs() == ()
    note(run_folder, "s3x3", pid=1, start=1, boot_id="gone")
    note(run_folder, "s2x2", **owner())
    assert [each["lab"] for each in ssh_clean.killed_runs()] == ["s3x3"]


def test_a_service_leaves_the_cgroups_of_the_lab_that_its_node_is_in(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone")
    tree = Hierarchy(mountpoint=run_folder / "cgroup", version=1, controllers=("pids",))
    monkeypatch.setattr(clean, "hierarchies", lambda: (tree,))
    monkeypatch.setattr(clean, "_holder_of", lambda entry: None)
    other = tree.top / "other"
    other.mkdir(parents=True)
    with monkeypatch.context() as of_the_lab:
        of_the_lab.setenv("TARE_RUN_FOLDER", str(run_folder / "of-the-lab"))
        mark(other)
    with ExitStack() as stack:
        assert machine_answers.Service(stack).clean() == (f"folder {run_folder}/tare/s1x1-ssh",)
    assert other.is_dir()


CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
    "Host key for alpha has changed and you have requested strict checking.\nHost key verification failed."
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("ssh: Could not resolve hostname alpha: Name or service not known", "there is no host of this name"),
        ("taretest@10.0.0.1: Permission denied (publickey).", "it refuses your key: try `ssh alpha true`"),
        ("Received disconnect: Too many authentication failures", "it refuses your key"),
        (CHANGED, "its host key is not the one in known_hosts"),
        ("No ED25519 host key is known for alpha\nHost key verification failed.", "its host key is not known"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection refused", "nothing accepts ssh connections there"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "it does not answer"),
        ("Timeout, server 10.0.0.1 not responding.", "it does not answer"),
        ("ssh: connect to host 10.0.0.1 port 22: No route to host", "there is no route to it"),
        ("sh: 1: exec: python3: not found", "it has no python3 in PATH"),
        ("fish: Unknown command: python3", "it has no python3 in PATH"),
        ("zsh:1: command not found: python3", "it has no python3 in PATH"),
        ("OSError: [Errno 28] No space left on device: '/home/me/.cache'", "its home folder is full"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache'", "its home folder is full"),
        ("", "the connection was closed"),
        ("Something else\nthat nobody knows", "that nobody knows"),
    ],
)
def test_words_of_ssh_become_a_sentence(words: str, sentence: str) -> None:
    explanation = explained("alpha", words)
    assert explanation.startswith(sentence)
    assert "\n" not in explanation
    assert "HOST" not in explanation


class Flags:
    def __init__(self, flag: int) -> None:
        self.f_flag = flag


def test_machines_that_do_not_fit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = MPIS["fake"].version()
    assert unfit_machines.unfit("fake", own, ()) is None
    assert (
        unfit_machines.unfit("fake", "fake 2", ())
        == f"its {own} is not the head's fake 2, and one job needs one version"
    )
    asked = []
    monkeypatch.setattr(unfit_machines.os, "statvfs", lambda path: asked.append(path) or Flags(os.ST_NOEXEC))
    below = tmp_path / "cache" / "tare"
    reason = unfit_machines.unfit("fake", MPIS["fake"].version(), (str(below),))
    assert (reason, asked) == (f"{below} is mounted noexec: no program can be started from it", [tmp_path])
    own = this_machine()
    other = replace(own, architecture="riscv64", boot_id="another")
    with pytest.raises(RefusedError, match=f"beta is riscv64 and this machine {own.architecture}"):
        remote_cluster.check_machines(("alpha", "beta"), (own, other), owned=False)
    own = this_machine()
    with pytest.raises(RefusedError, match="alpha is the same machine as another of the hosts"):
        remote_cluster.check_machines(("alpha", "beta"), (own, own), owned=False)


NAME = "tare-s1x1"


class FakeApi:
    """An API server with a namespace, of a run; "" without a mark."""

    def __init__(self, run: str | None, name: str = NAME) -> None:
        self.run = run
        self.name = name
        self.asked: list[str] = []

    def ask(self, method: str, path: str) -> dict[str, Any]:
        self.asked.append(method)
        if self.run is None or not path.endswith(f"/{self.name}"):
            raise ApiError("not found", status=404)
        if method == "DELETE":
            self.run = None
        return {"metadata": {"labels": manifests.marked(self.run) if self.run else {}}}

    def close(self) -> None:
        pass


@pytest.fixture
def kept_note(run_folder: Path) -> Path:
    (run_folder / "kubeconfig").touch()
    place = run_folder / "tare" / "s1x1-kubernetes"
    place.mkdir(mode=0o700)
    told = kubernetes_clean.noted(KubernetesSpec(kubeconfig=str(run_folder / "kubeconfig")), NAME)
    (place / "owner.json").write_text(json.dumps({"lab": "s1x1", "pid": 1, "start": 1, "boot_id": "gone", **told}))
    return run_folder


@pytest.mark.parametrize(
    ("run", "name", "removed"),
    [
        ("s1x1", NAME, True),
        ("s1x1", f"{NAME}-outside", True),
        ("s2x2", NAME, False),
        ("", NAME, False),
        (None, NAME, False),
    ],
)
def test_only_namespaces_of_the_run_itself_and_of_its_policy_are_removed(
    kept_note: Path, monkeypatch: pytest.MonkeyPatch, run: str | None, name: str, removed: bool
) -> None:
    server = FakeApi(run, name)
    monkeypatch.setattr(api, "opened", lambda *_: server)
    (answer,) = ssh_clean.ask_hosts(ssh_clean.killed_runs())
    assert (answer.removed, answer.unverified) == ((f"namespace {name}",) if removed else (), "")
    assert ("DELETE" in server.asked) == removed


def test_a_namespace_that_cannot_be_seen_is_kept_in_mind_until_it_is_forgotten(kept_note: Path) -> None:
    (kept_note / "kubeconfig").unlink()
    killed = ssh_clean.killed_runs()
    (answer,) = ssh_clean.ask_hosts(killed)
    assert str(answer) == (
        f"not verified: {NAME}, a namespace of run s1x1, which was killed: {kept_note}/kubeconfig, by which it was "
        f"reached, is gone; if the cluster is gone for good, `tare clean --forget {NAME}`"
    )
    ssh_clean.keep_unverified(killed, (answer,))
    kept = json.loads((kept_note / "tare" / "s1x1-hosts" / "owner.json").read_text())
    assert (kubernetes_clean.namespace_of(kept), ssh_clean.ask_hosts(killed, [NAME])) == (NAME, ())
