"""docs/kubernetes.md, command by command: images into a registry, from there to the nodes, a plan, a run, a report."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from integration.live import lab_site, live
from integration.test_image_push import Running, registry, serving
from integration.test_networks_flannel import CANNOT
from tare.clusters.pods import in_lab
from tare.clusters.pods.in_lab import LabKubernetes
from tare.networks import flannel
from tare.system.process import Result, run
from unit.docs.test_examples import SETS_UP, blocks

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables", "registry", "skopeo"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

REGISTRY: Final = "registry.example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Somebody who follows the page: a folder, access to a Kubernetes, and a registry that its nodes reach."""

    folder: Path
    kubernetes: LabKubernetes
    registry: Running

    def shell(self, script: str) -> Result:
        """Run a script as it stands, with the name of this registry in it."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "KUBECONFIG": str(self.kubernetes.kubeconfig), "PATH": path}
        there = script.replace(REGISTRY, self.registry.host)
        return run(("bash", "-e", "-c", there), cwd=self.folder, env=env, check=False, timeout_s=None)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("page")
    with ExitStack() as stack:
        site = stack.enter_context(lab_site())
        made = stack.enter_context(in_lab.running(site.nodes, site.folder))
        here = stack.enter_context(registry(folder))
        for node in site.nodes:  # where it has the same name, and the same images
            stack.enter_context(serving(folder, before=("nsenter", f"--net=/proc/{node.pid}/ns/net", "--")))
            label = {"metadata": {"labels": {"pool": "hpc"}}}
            made.api.ask("PATCH", f"/api/v1/nodes/{node.name}", label, kind="application/merge-patch+json")
        yield Reader(folder=folder, kubernetes=made, registry=here)


def test_a_user_gets_from_the_page_to_a_report(reader: Reader) -> None:
    (study,) = (block for block in blocks("kubernetes", "yaml") if "selector: pool=hpc" in block)
    shorter = f"{study.replace(REGISTRY, reader.registry.host)}repetition: {{rounds: 2, max_rounds: 2, turns: 2}}\n"
    (reader.folder / "pods.yaml").write_text(shorter)
    seen = ""
    for script in blocks("kubernetes", "sh"):
        lines = [line for line in script.splitlines() if not line.startswith(SETS_UP)]
        # two rounds are inconclusive, which is exit code 3
        own = re.sub(r"^(tare (?:run|doctor).*)$", r"\1 || [ $? -eq 3 ]", "\n".join(lines), flags=re.MULTILINE)
        ended = reader.shell(own)
        assert ended.status == 0, f"{script}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
        seen += ended.stdout
    pushed = set(re.findall(r"/me/tare/([\w-]+)@sha256:[0-9a-f]{64}", seen))
    assert pushed == {"debian-openmpi", "tare-node"}
    assert "kubernetes+pod-network" in seen
    results = reader.folder / "results" / "pods"
    report = " ".join(html.unescape((results / "report.html").read_text()).split())
    assert "pods' network: Flannel (VXLAN" in report
    facts = json.loads((results / "plan.json").read_text())
    assert facts["plan"]["study"]["name"] == "pods"
