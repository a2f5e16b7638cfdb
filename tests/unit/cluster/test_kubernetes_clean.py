"""The namespace of a killed run is removed if it is that run's; where that cannot be seen, it is not forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tare.cluster import kubernetes_clean, ssh_clean
from tare.kubernetes import api, manifests
from tare.kubernetes.api import ApiError
from tare.model import KubernetesSpec

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
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_RUN_FOLDER", str(tmp_path / "tare"))
    (tmp_path / "kubeconfig").touch()
    place = tmp_path / "tare" / "s1x1-kubernetes"
    place.mkdir(parents=True, mode=0o700)
    (tmp_path / "tare").chmod(0o700)
    told = kubernetes_clean.noted(KubernetesSpec(kubeconfig=str(tmp_path / "kubeconfig")), NAME)
    (place / "owner.json").write_text(json.dumps({"lab": "s1x1", "pid": 1, "start": 1, "boot_id": "gone", **told}))
    return tmp_path


@pytest.mark.parametrize(("run", "removed"), [("s1x1", (f"namespace {NAME}",)), ("s2x2", ()), ("", ()), (None, ())])
def test_only_the_namespace_of_the_run_itself_is_removed(
    note: Path, monkeypatch: pytest.MonkeyPatch, run: str | None, removed: tuple[str, ...]
) -> None:
    server = FakeApi(run)
    monkeypatch.setattr(api, "opened", lambda *_: server)
    (answer,) = ssh_clean.ask_hosts(ssh_clean.killed_runs())
    assert (answer.removed, answer.unverified) == (removed, "")
    assert ("DELETE" in server.asked) == bool(removed)


def test_the_namespace_from_which_a_policy_was_tried_is_removed_too(
    note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeApi("s1x1", f"{NAME}-outside")
    monkeypatch.setattr(api, "opened", lambda *_: server)
    (answer,) = ssh_clean.ask_hosts(ssh_clean.killed_runs())
    assert (answer.removed, answer.unverified) == ((f"namespace {NAME}-outside",), "")


def test_a_namespace_that_cannot_be_seen_is_kept_in_mind_until_it_is_forgotten(note: Path) -> None:
    (note / "kubeconfig").unlink()
    killed = ssh_clean.killed_runs()
    (answer,) = ssh_clean.ask_hosts(killed)
    assert str(answer) == (
        f"not verified: {NAME}, a namespace of run s1x1, which was killed: {note}/kubeconfig, by which it was reached, "
        f"is gone; if the cluster is gone for good, `tare clean --forget {NAME}`"
    )
    ssh_clean.keep_unverified(killed, (answer,))
    kept = json.loads((note / "tare" / "s1x1-hosts" / "owner.json").read_text())
    assert kubernetes_clean.namespace_of(kept) == NAME
    assert ssh_clean.ask_hosts(killed, [NAME]) == ()
