"""A network policy counts as in force only after a denied connection was seen, while one from inside worked."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tare.errors import InfrastructureError
from tare.kubernetes.policy.check import INSIDE, OUTSIDE, Policy, tried
from tare.kubernetes.policy.manifest import CONNECTS, LISTENS, PORT, network_policy, trying
from waiting import wait_until


class Cluster:
    """A cluster in which a policy denies some connections; who is `cut` off is so always."""

    def __init__(self, *, denies: tuple[str, ...] = (), cut: tuple[str, ...] = ()) -> None:
        self.denied = cut
        self._denies = denies

    def connects(self, name: str) -> bool:
        return name not in self.denied

    def put(self) -> None:
        self.denied = (*self.denied, *self._denies)


def said(cluster: Cluster) -> Policy:
    return tried(cluster.connects, cluster.put, takes_s=0)


def test_a_policy_is_in_force_if_it_denies_what_worked_before_and_leaves_the_inside() -> None:
    assert said(Cluster(denies=(OUTSIDE,))) == Policy(
        in_force=True, said="the network policy is in force: another namespace was denied"
    )


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (Cluster(), "the policy is not in force: after 0 s a pod of another namespace still connects"),
        (Cluster(cut=(OUTSIDE,)), "the network policy is not shown to be in force: no pod was reached before"),
        (
            Cluster(denies=(OUTSIDE,), cut=(OUTSIDE,)),
            "the network policy is not shown to be in force: no pod was reached before",
        ),
    ],
)
def test_without_a_denied_connection_nothing_is_claimed(cluster: Cluster, sentence: str) -> None:
    assert said(cluster) == Policy(in_force=False, said=sentence)


def test_a_connection_that_fails_at_times_is_no_policy() -> None:
    answers = iter((True, False, True, True))
    found = tried(lambda _name: next(answers), lambda: None, takes_s=0)
    assert not found.in_force
    assert "connects at times" in found.said


def test_a_policy_that_denies_the_study_s_own_pods_ends_the_run() -> None:
    with pytest.raises(InfrastructureError, match="do not reach each other under the network policy"):
        said(Cluster(denies=(INSIDE, OUTSIDE)))


def test_the_policy_selects_all_pods_and_lets_in_only_those() -> None:
    made = network_policy("s", "s1")
    assert made["spec"]["podSelector"] == {}
    assert made["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert made["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    among, names = made["spec"]["egress"]
    assert among == {"to": [{"podSelector": {}}]}
    assert {each["port"] for each in names["ports"]} == {53}
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tare"


def test_a_pod_that_tries_has_no_rights() -> None:
    made = trying(
        "inside", "s", "s1", "worker", image="service", pull_policy="Never", fields={"priorityClassName": "low"}
    )
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert made["spec"]["priorityClassName"] == "low"
    assert "privileged" not in str(made)


def test_the_programs_of_the_pods_tell_a_listener_from_none() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        listens, connects = (text.replace(str(PORT), str(bound.getsockname()[1])) for text in (LISTENS, CONNECTS))

        def is_reached() -> bool:
            return subprocess.run([sys.executable, "-IS", "-c", connects, "127.0.0.1"], check=False).returncode == 0

        assert not is_reached()
    with subprocess.Popen([sys.executable, "-IS", "-c", listens]) as listener:
        try:
            wait_until(is_reached)
        finally:
            listener.kill()
