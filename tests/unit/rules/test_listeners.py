"""SECURITY.md lists every daemon that tare starts, and what each is told keeps strangers out."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes import make_node
from source_tree import CODE, ROOT, SOURCE, calls_in, trees
from tare.clusters.pods import admission
from tare.clusters.pods.lab_networks import cilium
from tare.clusters.pods.lab_networks import flannel as lab_flannel
from tare.daemons import containerd, coredns, docker, etcd, kubernetes, mpi_operator, ssh
from tare.networks import flannel, pasta, slirp4netns
from tare.networks.wiring import bird, vswitch

MARK = "<!-- listeners: held by tests/unit/rules/test_listeners.py -->"
STARTS = {"run_daemon", "beside", "start", "create_server", "bind", "listen", "start_server", "serve_forever"}
"""Calls that start a daemon, or make a socket listen."""
NO_DAEMON = {
    "system/holder.py": "binds mounts",
    "networks/wiring/ping.py": "binds a raw socket to its source",
    "system/process.py": "starts what others name",
    "daemons/daemons.py": "starts what others name",
    "cli/lab_kubernetes.py": "keeps a Kubernetes, which daemons/kubernetes.py starts",
    "cli/lab_state.py": "keeps what others name",
    "cli/lab_commands.py": "calls the one before",
    "cli/network_commands.py": "keeps a network of `tare network up`, which is made as for a study",
    "mpi/launch/agent.py": "starts a rank",
    "store/writer.py": "begins a folder of results",
    "run/deploy/pods.py": "asks nodes for the sshd of daemons/ssh.py",
    "agent/local.py": "asks for the sshd of daemons/ssh.py",
    "run/runner.py": "asks a site for the socket of the turns",
    "run/job.py": "binds functions",
}
NODE = make_node()
URL = "https://10.213.0.1:2379"


def table() -> str:
    (text,) = (part for path in ROOT.glob("SECURITY*.md") if MARK in (part := path.read_text()))
    return text.partition(MARK)[2].partition("\n## ")[0]


def places() -> dict[str, set[str]]:
    """Return the calls of each source file that start a daemon or listen; threads are started on `Thread(...)`."""
    found: dict[str, set[str]] = {}
    for module, tree in trees():
        for node in calls_in(tree):
            name, of = called(node.func)
            if name in STARTS and (name != "start" or of in ("", "process")):
                found.setdefault(module, set()).add(name)
    return found


def called(function: ast.expr) -> tuple[str, str]:
    """Return the name of what is called, and that of the module or object that it is an attribute of."""
    if isinstance(function, ast.Attribute):
        return function.attr, function.value.id if isinstance(function.value, ast.Name) else "?"
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")


def test_every_place_that_starts_a_daemon_or_listens_is_in_the_table() -> None:
    text = table()
    assert {place: calls for place, calls in places().items() if place not in text and place not in NO_DAEMON} == {}
    stated = set(re.findall(r"\b[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py", text)) - {"tests/unit/rules/test_listeners.py"}
    assert {each for each in stated if not (SOURCE / each).exists()} == set()


def commands() -> Iterator[tuple[str, ...]]:
    """Return the argv of the daemons, as the lab starts them."""
    yield etcd.command("etcd", "10.213.0.1", "/run/x", version_2=True)
    yield kubernetes.api_server("10.213.0.1")
    yield kubernetes.controller_manager()
    yield kubernetes.scheduler()
    yield kubernetes.kubelet(NODE)
    yield flannel.command("data0", "/run/x", URL)
    yield lab_flannel.with_kubernetes(NODE, "/run/x")
    yield lab_flannel.with_etcd(NODE, "/run/x", URL)
    yield cilium.agent(NODE, "/run/x", cilium.TUNNEL.mode)
    yield docker.cluster_options(URL, NODE)
    yield mpi_operator.operator()
    yield bird.command("bird", "/run/x")
    yield vswitch.server("ovsdb-server", "/run/x")
    yield vswitch.switch("ovs-vswitchd", "/run/x")
    yield pasta.command("pasta", NODE.nics[0])
    yield slirp4netns.command("slirp4netns")


@pytest.mark.parametrize("argv", tuple(commands()), ids=lambda argv: Path(argv[0] or "kubernetes").name)
def test_no_daemon_listens_on_every_address_or_speaks_in_the_clear(argv: tuple[str, ...]) -> None:
    text = " ".join(argv)
    assert not re.search(r"http://|tcp://|ptcp:|0\.0\.0\.0|\[::\]|insecure|--profiling=true|-healthz-port=[^0]", text)
    if "etcd-" in text or "cluster-store" in text:  # a client of an etcd
        assert "https://" in text or "etcd://" in text
        assert all(re.search(f"{name}=", text) for name in ("ca(cert)?file", "certfile", "keyfile"))


def test_an_etcd_serves_only_who_has_its_certificate() -> None:
    argv = etcd.command("etcd", "10.213.0.1", "/run/x", version_2=False)
    assert {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(argv)
    for option in ("--trusted-ca-file", "--peer-trusted-ca-file", "--cert-file", "--peer-cert-file"):
        assert argv[argv.index(option) + 1] == "/run/x/tls.crt"
    urls = [word for word in argv if "://" in word]
    assert urls
    assert all(re.search(r"https://10\.213\.0\.1:23(79|80)$", url) for url in urls)


def test_the_api_server_and_kubelets_know_nobody_who_shows_nothing() -> None:
    server = set(kubernetes.api_server("10.213.0.1"))
    folder = kubernetes.FOLDER
    assert {
        "--anonymous-auth=false", "--allow-privileged=false", "--authorization-mode=RBAC",
        f"--etcd-certfile={folder}/tls.crt", f"--kubelet-certificate-authority={folder}/tls.crt",
        f"--kubelet-client-certificate={folder}/tls.crt", f"--tls-cert-file={folder}/tls.crt",
    } <= server  # fmt: skip
    for argv in (kubernetes.controller_manager(), kubernetes.scheduler()):
        assert "--secure-port=0" in argv
    told = kubernetes.kubelet_configuration(NODE)
    ways = told["authentication"]
    assert (ways["anonymous"], ways["webhook"]) == ({"enabled": False}, {"enabled": False})
    assert ways["x509"] == {"clientCAFile": f"{folder}/tls.crt"}
    assert told["authorization"] == {"mode": "Webhook"}
    assert (told["readOnlyPort"], told["healthzPort"], told["address"]) == (0, 0, NODE.control_address)
    assert all(f"{folder}/kubeconfig" in " ".join(argv) for argv in (kubernetes.kubelet(NODE), kubernetes.scheduler()))


def test_no_pod_is_admitted_with_a_right_over_its_node() -> None:
    policy, binding = admission.policy(), admission.binding()
    (pods,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert {"pods", "pods/ephemeralcontainers"} <= set(pods["resources"])
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (admission.NAME, ["Deny"])
    assert "matchResources" not in binding["spec"], "it is for all namespaces"
    text = json.dumps(policy)
    for word in ("hostPID", "hostIPC", "volumes", "capabilities", "initContainers", "ephemeralContainers"):
        assert word in text


def test_what_remains_is_reached_by_root_s_sockets_or_keys() -> None:
    told = tomllib.loads(containerd.configuration("/run/x", "pause:1", {"": "/run/x/cni"}))
    assert told["grpc"] == {"address": "/run/x/containerd.sock"}
    assert not {"debug", "metrics"} & set(told)
    assert [each for each in vswitch.server("s", "/x") if "remote" in each] == ["--remote=punix:/x/db.sock"]
    assert "--disable-host-loopback" in slirp4netns.command("slirp4netns")
    assert "--no-map-gw" in pasta.command("pasta", NODE.nics[0])
    host = ssh.SshHost(name="n0", address="10.213.0.1", port=9100, pod=None)  # type: ignore[arg-type]
    lines = set(ssh.daemon_config(host, Path("/k"), {}).splitlines())
    assert {"ListenAddress 10.213.0.1:9100", "PasswordAuthentication no", "AllowTcpForwarding no"} <= lines
    assert "kubeconfig" not in coredns.corefile().partition("kubernetes cluster.local")[0]
    assert re.findall(r'"--host", (\S+)', CODE["daemons/docker.py"]) == ['f"unix://{NODE_SOCKET}",']
