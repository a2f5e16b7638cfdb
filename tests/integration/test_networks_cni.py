"""`cni:PATH` with real plug-ins: bridges with routes, chains, leases, errors; and what is left of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.live import Ended, Watch, by_environment, lab_site, live, outcome, tare, write_study
from integration.node_state import are_as_before, reach_each_other, shown, state_of
from integration.studies import roles, watched
from tare.clusters.lab_site import LabSite
from tare.errors import CommandFailed
from tare.model import Environment, Placement
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files

pytestmark = live("docker", "cni", "mmdebstrap", "nftables", "iptables")

HOST_LOCAL = {"type": "host-local", "subnet": "10.100.${node}.0/24", "routes": [{"dst": "10.96.0.0/11"}]}
RANGES = {"type": "host-local", "ranges": [[{"subnet": "10.120.0.0/24"}]]}
FILES: dict[str, dict[str, Any]] = {
    "routed.conflist": {
        "cniVersion": "1.0.0",
        "name": "routed",
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": True, "mtu": "${mtu}", "ipam": HOST_LOCAL},
            {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}},
            {"type": "firewall", "backend": "iptables"},
        ],
    },
    "ptp.conflist": {
        "cniVersion": "0.4.0",
        "name": "ptp",
        "plugins": [{"type": "ptp", "mtu": "${mtu}", "ipam": {**HOST_LOCAL, "subnet": "10.110.${node}.0/24"}}],
    },
    "shared.conflist": {
        "cniVersion": "1.0.0",
        "name": "shared",
        "plugins": [{"type": "macvlan", "master": "${nic}", "mode": "bridge", "ipam": RANGES}],
    },
    "moved.conf": {
        "cniVersion": "0.4.0",
        "name": "moved",
        "type": "host-device",
        "device": "${nic}",
        "ipam": {"type": "static", "addresses": [{"address": "${cidr}"}]},
    },
}
KERNELS = "{micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 65536, iterations: 40}}]}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cni")
    for name, stated in FILES.items():
        (made / name).write_text(json.dumps(stated))
    return made


@contextmanager
def up(site: LabSite, path: Path, slot: int = 0) -> Iterator[Deployed]:
    wanted = Environment(name="mine", runtime="bare", network=f"cni:{path}")
    with deployed(site, wanted, Placement(), slot=slot, nic=1, files=Files(host_prefix=Path("/"))) as made:
        made.wait_until_ready()
        yield made


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    with lab_site(nics=2) as made:
        yield made


@pytest.mark.parametrize("name", FILES)
def test_pods_reach_each_other_and_all_is_undone(name: str, folder: Path, site: LabSite) -> None:
    before = [state_of(node) for node in site.nodes]
    with up(site, folder / name, slot=3) as made:
        assert [state_of(node) for node in site.nodes] != before
        reach_each_other(made)
        addresses = [pod.endpoint.address for pod in made.pods]
        if name == "routed.conflist":
            assert addresses == ["10.100.0.2", "10.100.1.2"]
            assert shown(made.pods[0].pid, "cat", "/proc/sys/net/core/somaxconn").strip() == "500"
        leases = [list(Path(f"/proc/{node.pid}/root/run").glob("tare-cni-*/leases/*/10.*")) for node in site.nodes]
        assert all(len(each) == (name != "moved.conf") for each in leases)
    assert not [left for node in site.nodes for left in Path(f"/proc/{node.pid}/root/run").glob("tare-cni-*")]
    are_as_before(site.nodes, before)
    assert not list(Path("/var/lib/cni/networks").glob("*/10.1*"))


def test_an_error_of_a_plugin_is_passed_on_with_its_place_in_the_chain_and_what_was_made_is_undone(
    folder: Path, site: LabSite
) -> None:
    stated = {**FILES["routed.conflist"], "name": "broken"}
    stated["plugins"] = [stated["plugins"][0], {"type": "tuning", "sysctl": {"net.core.nonsense": "1"}}]
    (folder / "broken.conflist").write_text(json.dumps(stated))
    before = [state_of(node) for node in site.nodes]
    with pytest.raises(CommandFailed) as caught, up(site, folder / "broken.conflist"):
        pytest.fail("it came up")
    told = str(caught.value)
    assert "CNI tuning (2 of 2 in " in told
    assert "nonsense" in told
    assert " on n" in told
    are_as_before(site.nodes, before)


STUDIED = {
    "bare": "",
    **{Path(name).stem: f"runtime: bare, network: {{cni: {name}}}" for name in FILES},
    "docker routed": "runtime: docker, network: {cni: routed.conflist}",
    "routed again": "runtime: bare, image: true, network: {cni: routed.conflist}",
}


@pytest.fixture(scope="module")
def study(folder: Path) -> tuple[Ended, Watch, Path]:
    environments = ", ".join(f"{name}: {{{stated}}}" for name, stated in STUDIED.items())
    result, watch = watched(write_study(folder, "cni", f"{{{environments}}}", workloads=KERNELS))
    return result, watch, folder / "results" / "cni"


@pytest.mark.parametrize("name", STUDIED)
def test_a_study_runs_over_configurations_of_the_user_proves_their_way_and_leaves_nothing(
    name: str, study: tuple[Ended, Watch, Path]
) -> None:
    result, watch, results = study
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    wanted = {"bare": {"data NIC"}, "moved": {"data NIC in the pod"}}
    assert roles(trial) == wanted.get(name, {"interface of the pod", "data NIC"})
    assert watch.left(result.lab) == []


def test_the_results_hold_the_configuration_and_are_not_continued_with_another(
    study: tuple[Ended, Watch, Path], folder: Path
) -> None:
    facts = json.loads((study[2] / "plan.json").read_text())["facts"]
    path = str(folder / "ptp.conflist")
    assert json.loads(facts["CNI configurations"][path]) == FILES["ptp.conflist"]
    assert "ptp, host-local themselves" in facts["networks"][f"cni:{path}"]
    before = (folder / "ptp.conflist").read_text()
    (folder / "ptp.conflist").write_text(before.replace("10.110", "10.111"))
    try:
        again = tare("run", "cni.yaml", cwd=folder)
    finally:
        (folder / "ptp.conflist").write_text(before)
    assert again.status == 2, again.stderr
    assert "CNI configurations was" in again.stderr


def test_what_cannot_be_is_told_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text('{"name": "x", "type": "nowhere-cni"}')
    (tmp_path / "lab.conf").write_text(
        '{"name": "x", "type": "ptp", "ipam": {"type": "host-local", "subnet": "10.214.9.0/24"}}'
    )
    stated = "{bare: , x: {runtime: bare, network: {cni: x.conf}}, lab: {runtime: bare, network: {cni: lab.conf}}}"
    planned = tare("plan", write_study(tmp_path, "bad", stated), cwd=tmp_path)
    assert planned.status == 0, planned.stderr
    told = " ".join(planned.stdout.split())
    assert "nowhere-cni of" in told
    assert "/usr/lib/cni" in told
    assert "overlaps 10.214.0.0/16" in told
    (tmp_path / "x.conf").write_text('{"name": "x",}')
    refused = tare("plan", tmp_path / "bad.yaml", cwd=tmp_path)
    assert refused.status == 2
    assert "x.conf:1:" in refused.stderr
    assert "not valid JSON" in refused.stderr


DROPS = """#!/usr/bin/python3
import json, os, subprocess, sys
stated = json.load(sys.stdin)
if os.environ["CNI_COMMAND"] == "VERSION":
    print(json.dumps({"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}))
elif os.environ["CNI_COMMAND"] == "ADD":
    subprocess.run(["iptables", *stated["drops"].split(), "-j", "DROP"], check=True, stdout=sys.stderr)
    print(json.dumps(stated["prevResult"]))
"""
"""A plug-in that stands for a firewall on the way: it drops what its configuration says."""
NO_ICMP = "-A OUTPUT -p icmp --icmp-type fragmentation-needed"
NO_PORT = "-A FORWARD -p tcp --syn"


@pytest.mark.parametrize(
    ("mtu", "drops", "said"),
    [
        (
            9000,
            NO_ICMP,
            "TCP connections are established, but larger packets are lost",
        ),
        pytest.param(1500, NO_PORT, "TCP connections are not established", marks=pytest.mark.long),
    ],
)
def test_messages_that_never_arrive_are_found_before_the_launches(
    mtu: int, drops: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "cni").mkdir()
    (tmp_path / "cni" / "drops").write_text(DROPS)
    (tmp_path / "cni" / "drops").chmod(0o755)
    bridge = {"type": "bridge", "bridge": "way0", "isGateway": True, "mtu": mtu, "ipam": HOST_LOCAL}
    stated = {"cniVersion": "0.4.0", "name": "holed", "plugins": [bridge, {"type": "drops", "drops": drops}]}
    (tmp_path / "holed.conflist").write_text(json.dumps(stated))
    path = write_study(
        tmp_path,
        "holed",
        "{bare: , site: {runtime: bare, network: {cni: holed.conflist}}}",
        workloads="{micro: {time_limit: 30s, kernels: [{latency: {message_bytes: 8, iterations: 20}}]}}",
        repetition="{rounds: 2, max_rounds: 2}",
    )
    result = tare("run", path, cwd=tmp_path, env={"CNI_PATH": f"{tmp_path / 'cni'}:/usr/lib/cni"})
    assert result.status == 4, result.stderr
    found = by_environment(tmp_path / "results" / "holed")
    assert [outcome(trial) for trial in found["bare"]] == ["Completed"] * 2
    assert all(said in trial["outcome"]["reason"] for trial in found["site"])
    assert said in " ".join(tare("explain", tmp_path / "results" / "holed", cwd=tmp_path).stdout.split())
