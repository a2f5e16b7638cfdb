"""The programs of a lab's Kubernetes get what they need: texts and command lines, without starting them."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.errors import MissingTool
from tare.kubernetes import in_lab
from tare.networks.flannel import Lease
from tare.services import containerd, forward, kubernetes
from tare.services.kubernetes import User

NODE = make_node()


def test_containerd_has_a_folder_of_networks_for_each_runtime_class() -> None:
    text = containerd.configuration("/run/k", "pause:1", {"": "/run/k/cni", "fast": "/run/k/cni-fast"})
    told: dict[str, Any] = tomllib.loads(text)
    cri = told["plugins"]["io.containerd.grpc.v1.cri"]
    assert told["version"] == 2
    assert cri["sandbox_image"] == "pause:1"
    assert cri["cni"]["conf_dir"] == "/run/k/cni"
    runtimes = cri["containerd"]["runtimes"]
    assert set(runtimes) == {"runc", "fast"}
    assert runtimes["fast"]["cni_conf_dir"] == "/run/k/cni-fast"
    assert cri["containerd"]["default_runtime_name"] == "runc"


def test_users_are_told_apart_by_tokens() -> None:
    users = (User(name="a", groups=("system:masters", "x"), token="t1"), User(name="b", token="t2"))
    assert kubernetes.tokens(users) == 't1,a,a,"system:masters,x"\nt2,b,b,""\n'
    made = kubernetes.kubeconfig("10.0.0.1", "CERTIFICATE", users[1], "mine")
    assert made["clusters"][0]["cluster"]["server"] == "https://10.0.0.1:6443"
    assert made["users"] == [{"name": "b", "user": {"token": "t2"}}]
    there = in_lab.reached_at(made, 4711)["clusters"][0]["cluster"]
    assert there["server"] == "https://127.0.0.1:4711"
    assert there["tls-server-name"] == "kubernetes.default.svc"
    assert there["certificate-authority-data"] == made["clusters"][0]["cluster"]["certificate-authority-data"]
    assert User(name="a").token != User(name="a").token


def test_every_program_is_of_its_node_and_on_the_control_network() -> None:
    assert f"--bind-address={NODE.control_address}" in kubernetes.api_server(NODE.control_address)
    assert {"--hostname-override=n0", f"--node-ip={NODE.control_address}"} <= set(kubernetes.kubelet(NODE))
    argv = in_lab.flanneld(NODE, "/run/f")
    assert argv[:2] == ("env", "NODE_NAME=n0")
    assert {"-kube-subnet-mgr", f"-iface={NODE.nics[0].name}", "-ip-masq=false"} <= set(argv)


def test_pods_are_wired_into_the_subnet_that_flanneld_leased() -> None:
    lease = Lease(gateway=ipaddress.IPv4Interface("10.244.1.1/24"), mtu=1450)
    (plugin,) = in_lab.network(lease)["plugins"]
    assert (plugin["type"], plugin["bridge"], plugin["mtu"]) == ("bridge", "cni0", 1450)
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert plugin["ipam"]["routes"] == [{"dst": "10.244.0.0/16"}]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kubernetes, "program", lambda name: None if name == "kubelet" else "/bin/true")
    assert in_lab.probe() == "kubelet is not installed: run tools/networks kubernetes"
    with pytest.raises(MissingTool, match="kubelet is not installed"), in_lab.running((), tmp_path):
        pass


@pytest.mark.requires("root")
def test_a_port_of_this_machine_leads_to_a_server_in_a_namespace() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    with forward.forwarded(os.getpid(), "127.0.0.1", listener.getsockname()[1]) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            sent = b"x" * 300_000
            threading.Thread(target=client.sendall, args=(sent,)).start()
            got = b""
            while len(got) < len(sent):
                got += client.recv(1 << 16)
        thread.join(5)
    listener.close()
    assert got == sent
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
