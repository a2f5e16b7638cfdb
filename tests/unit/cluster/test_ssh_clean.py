"""The hosts of ssh runs that were killed are asked to clean up; those that do not answer are not forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tare.cluster import ssh, ssh_clean
from tare.errors import InfrastructureError, UsageError
from tare.model import LabSpec
from tare.node.owners import owner
from tare.node_service import clean, site_folder


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

    def ask(self, name: str, run: str) -> tuple[str, ...]:
        assert name == "clean"
        return (f"process 7 of {run}",)

    def close(self) -> None:
        pass


def test_a_host_that_does_not_answer_is_not_verified_and_asked_again(
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
    assert [each[site_folder.HOSTS] for each in ssh_clean.killed_runs()] == [["beta"]]


def test_the_note_of_a_run_names_the_hosts_of_its_daemons_too(run_folder: Path) -> None:
    spec = LabSpec(hosts=("alpha",), daemon_hosts=("dalpha",))
    name = site_folder.unique_name("hosts")
    with ssh.SshCluster()._own_folder(name, site_folder.folder_of(name), spec):
        (told,) = (json.loads(file.read_text()) for file in run_folder.glob("tare/*/owner.json"))
    assert told[site_folder.HOSTS] == ["alpha", "dalpha"]
    assert list(run_folder.glob("tare/*")) == []


def test_a_host_that_is_gone_for_good_can_be_forgotten(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone")
    monkeypatch.setattr(ssh_clean, "SshConnections", Answering)
    killed = ssh_clean.killed_runs()
    answers = ssh_clean.ask_hosts(killed, ["beta"])
    assert [each.host for each in answers] == ["alpha"]
    clean.remove_lab("s1x1")
    ssh_clean.keep_unverified(killed, answers)
    assert ssh_clean.killed_runs() == ()
    with pytest.raises(UsageError, match="beta is not a host of a run that was killed"):
        ssh_clean.ask_hosts(ssh_clean.killed_runs(), ["beta"])


def test_only_hosts_that_are_named_by_runs_that_were_killed_are_asked(run_folder: Path) -> None:
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone", **{site_folder.HOSTS: ["-oProxyCommand=x", 7, ""]})
    assert ssh_clean.killed_runs() == ()
    note(run_folder, "s3x3", pid=1, start=1, boot_id="gone")
    note(run_folder, "s2x2", **owner())
    assert [each["lab"] for each in ssh_clean.killed_runs()] == ["s3x3"]


def test_a_service_leaves_what_has_no_note_on_its_node(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(run_folder, "s1x1", pid=1, start=1, boot_id="gone")
    others = clean.Leftover(lab="other", what="cgroup /tare/other")
    monkeypatch.setattr(clean, "groups", lambda: {"other": ()})
    assert others in clean.find(dead_only=True)
    removed = clean.remove(dead_only=True, noted_only=True)
    assert {item.lab for item in removed} == {"s1x1"}
