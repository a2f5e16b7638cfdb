"""What pods cost the harness: `python benchmarks/pods.py [--runs 20] [--only PART,PART]` (root, quiet machine).

A real Kubernetes runs on two nodes of a lab. Four parts, each with its figure, a 95 % interval, n and its bound:

- `up`: the time until a round's pods are up, one on each of two nodes, on the pods' network: made, ready, services and
  shells in them begun. Median of --runs rounds (bound 8 s).
- `trial`: what of a trial's wall time is not its launch, for a trivial job on both nodes, in pods on the nodes' network
  and by ssh to a real sshd on the same nodes, in blocks that alternate. Difference of the medians (bound 40 ms more).
- `plan`: the time in which a study with 1,000 pods on 500 nodes is planned and its pods are described, from a list of
  nodes that no API server has sent. Median of at most five runs (bound 2 s).
- `launchers`: the median of the kernel `latency` in two pods, whose job is started by tare's exec streams, or by ssh to
  an sshd in the same pods. Pairs of launches, their order drawn; the mean ratio must lie within +-3 % (two one-sided
  tests at 5 %: the 90 % interval is printed).

Exits 1 when a bound is missed, an interval that is too wide included.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.stats

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks")]

from remote import interval  # noqa: E402

from tare.analysis.stats import equivalent  # noqa: E402
from tare.analysis.stats.intervals import log_interval  # noqa: E402

UP_BOUND_S = 8.0
TRIAL_BOUND_S = 0.040
PLAN_BOUND_S = 2.0
MARGIN = 0.03
BLOCKS = 4
PLANS = 5
PARTS = ("plan", "up", "trial", "launchers")
NAMESPACE = "tare-bench"
FOLDER = "/tmp/tare-bench"
PORT = 2222
LATENCY = ("/opt/tare/bin/tare-kernels", "latency:bytes=8,iterations=20000,warmup=1000")
STUDY = """
name: pods
cluster: {cluster}
environments: [{environment}]
placements: [{{nodes: 2, ranks_per_node: 1}}]
workloads: {{trivial: {{kernels: [{{latency: {{message_bytes: 8, iterations: 100, warmup: 10}}}}]}}}}
"""
LARGE = """
name: large
cluster: {kubernetes: {nodes: 500}}
environments: [kubernetes+pod-network]
placements: [{nodes: 500, ranks_per_node: 2, containers_per_node: 2, share: none}]
workloads: {trivial: {kernels: [{barrier: {iterations: 100, warmup: 10}}]}}
a_a: true
"""
SSHD = f"""\
set -e
mkdir -p /run/sshd {FOLDER} && cd {FOLDER} && umask 077
cat > all && tail -n +3 all > key && head -n 1 all > key.pub && cp key.pub authorized
sed -n 2p all | tr '|' '\\n' > config
ssh-keygen -q -t ed25519 -N '' -f host
printf '#!/bin/sh\\nexec /usr/bin/ssh -F {FOLDER}/config "$@"\\n' > ssh && chmod 700 ssh
/usr/sbin/sshd -p {PORT} -h {FOLDER}/host -o UsePAM=no -o StrictModes=no -o PidFile=none -o UseDNS=no \\
  -o AuthorizedKeysFile={FOLDER}/authorized \\
  -o "SetEnv=PATH=$PATH${{LD_LIBRARY_PATH:+ LD_LIBRARY_PATH=$LD_LIBRARY_PATH}}"
"""
"""Starts an sshd in a pod; on the standard input a public key, the configuration of ssh in a line, the private key."""


# --- figures --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a part has measured, in words, and whether its bound is held."""

    said: str
    held: bool


def below(what: str, values: list[float], bound_s: float) -> Figure:
    """Return a figure whose median must not be above its bound."""
    median_s = float(np.median(values))
    return Figure(said=f"{what}: {interval(values)} (bound {1e3 * bound_s:g} ms)", held=median_s <= bound_s)


def in_us(values: list[float]) -> str:
    """Return median and 95 % bootstrap interval in microseconds."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    return f"{1e6 * float(np.median(values)):.2f} us [{1e6 * low:.2f}, {1e6 * high:.2f}], n = {len(values)}"


# --- plan -----------------------------------------------------------------------------------------------------


class FakeApi:
    """Answers with a list of nodes."""

    def __init__(self, count: int) -> None:
        self.nodes = [node(number) for number in range(count)]

    def ask(self, method: str, path: str, *_: object, **__: object) -> dict[str, Any]:
        assert (method, path.partition("?")[0]) == ("GET", "/api/v1/nodes"), (method, path)
        return {"items": self.nodes}

    def close(self) -> None:
        pass


def node(number: int) -> dict[str, Any]:
    """Return the object of a node that is ready."""
    name = f"worker-{number}"
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": f"10.1.{number // 250}.{number % 250 + 1}"}],
            "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": f"boot-{number}", "kubeletVersion": "v1.31.4"},
        },
    }


def planned() -> tuple[float, int]:
    """Return the seconds in which the large study is planned and its pods are described, and their number."""
    from tare import study
    from tare.cli import session
    from tare.clusters.kubernetes import KubernetesCluster
    from tare.clusters.pods import api, manifests
    from tare.clusters.pods.pod_specs import PodDefaults
    from tare.runtimes.containers.deployment import Deployment, Files

    with (
        mock.patch.object(api, "opened", return_value=FakeApi(500)),
        mock.patch.dict("tare.clusters.CLUSTERS", {"kubernetes": KubernetesCluster()}),
    ):
        began = time.perf_counter()
        plan = session.make_plan(study.parse(LARGE))
        session.check_available(plan)
        cell = plan.cells[0]
        order = Deployment(
            study="large-0", slot=0, environment=cell.environment, placement=cell.placement, nodes=(), nic=0,
            hosts=1000, files=Files(host_prefix=Path("/opt/tare"), image_tag="tare/app:0123456789abcdef"),
        )  # fmt: skip
        made = PodDefaults(
            site="large", folder=Path("/tmp/large"), namespace="large", settings=plan.study.lab.kubernetes,
            node_image="tare/tare-node:0123456789abcdef",
        )  # fmt: skip
        pods = [
            json.dumps(manifests.pod(spec))
            for number in range(500)
            for spec in made.pods(order, f"n{number}", f"worker-{number}")
        ]
        return time.perf_counter() - began, len(pods)


def plan_figure(runs: int) -> Figure:
    """Measure the planning of 1,000 pods; the first run, which loads modules, is left out."""
    taken = [planned() for _ in range(min(runs, PLANS) + 1)][1:]
    assert {count for _, count in taken} == {1000}, taken
    return below("1,000 pods planned", [seconds for seconds, _ in taken], PLAN_BOUND_S)


# --- up and trial ---------------------------------------------------------------------------------------------


@contextmanager
def run_of(cluster: str, environment: str) -> Iterator[Any]:
    """Keep a trivial study's cluster up, and yield its run."""
    from harness import Silent

    from tare import study
    from tare.cli import session
    from tare.run import runner
    from tare.store.writer import Store
    from tare.study.feasibility import study_files

    plan = session.make_plan(study.parse(STUDY.format(cluster=cluster, environment=environment)))
    session.check_available(plan)
    files = study_files.make_files(plan)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, Silent(), name="bench", say=print) as run,
    ):
        yield run


def pods_up(cluster: str, runs: int) -> list[float]:
    """Return the seconds in which the pods of each round were up, without the first round."""
    taken = []
    with run_of(cluster, "kubernetes+pod-network") as run:
        for _ in range(runs + 1):
            with ExitStack() as stack:
                began = time.perf_counter()
                ready = run.pods(stack)
                run.site.settle()
                taken.append(time.perf_counter() - began)
                assert ready, run.broken
    return taken[1:]


def trials(cluster: str, environment: str, runs: int) -> list[float]:
    """Return what of each trial's wall time was not its launch, in seconds, without the first trial."""
    from tare.model import Completed, TrialKey

    taken = []
    with run_of(cluster, environment) as run, ExitStack() as stack:
        ready = run.pods(stack)
        assert ready, run.broken
        ((key, one),) = [(key, one) for key, one in ready.items() if key.endswith(f"/ {environment}")]
        run.site.settle()
        for number in range(runs + 1):
            began = time.perf_counter()
            trial = run.trial(TrialKey(cell=key, round=number, block=0, attempt=0), 0, one)
            wall_s = time.perf_counter() - began
            assert isinstance(trial.outcome, Completed), trial.outcome
            taken.append(wall_s - trial.elapsed_s)
    return taken[1:]


def trial_figure(hosts: Any, cluster: str, runs: int) -> Figure:
    """Measure trials in pods and by ssh on the same nodes, each block in a process of its own."""
    found: dict[str, list[float]] = {"kubernetes": [], "ssh": []}
    by_ssh = f"{{ssh: {{hosts: [{', '.join(hosts.names)}], ssh_config: {hosts.config}}}}}"
    each = max(1, runs // BLOCKS)
    for _ in range(BLOCKS):
        argv = (sys.executable, __file__, "--runs", str(each), "--trials", cluster)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found["kubernetes"] += json.loads(done.stdout)
        place = REPOSITORY / "benchmarks" / "remote.py"
        found["ssh"] += json.loads(hosts.python(place, "--runs", each, "--trials", by_ssh))
    more_s = float(np.median(found["kubernetes"]) - np.median(found["ssh"]))
    lines = [f"of a trial on {name}, not its launch: {interval(values)}" for name, values in found.items()]
    lines.append(f"more in pods than by ssh: {1e3 * more_s:.1f} ms (bound {1e3 * TRIAL_BOUND_S:g} ms)")
    return Figure(said="\n".join(lines), held=more_s <= TRIAL_BOUND_S)


# --- launchers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two pods, one a node, in which jobs are started both ways."""

    names: tuple[str, ...]
    run: Callable[..., str]

    def latency_s(self, by: str) -> float:
        """Launch the kernel and return the median of its samples."""
        from tare.workloads.output import decode, records

        parameters = {"pml": "ob1", "btl": "self,tcp", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0"}
        parameters["plm_rsh_agent"] = f"{FOLDER}/{'agent' if by == 'exec' else 'ssh'}"
        variables = [f"OMPI_MCA_{name}={value}" for name, value in parameters.items()]
        variables += ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
        job = (
            "env",
            *variables,
            "mpirun",
            "-H",
            ",".join(f"{name}:1" for name in self.names),
            "-np",
            "2",
            "--bind-to",
            "none",
            *LATENCY,
        )
        first = self.names[0]
        text = self.run(first, *job) if by == "exec" else self.run(first, f"{FOLDER}/ssh", first, " ".join(job))
        (kernel,) = [each for each in records(text) if each["type"] == "kernel"]
        (samples, *_) = decode(kernel["columns"], kernel["data"]).values()
        return float(np.median(samples))


@contextmanager
def pair_of(made: Any, site: Any, image: str) -> Iterator[Pair]:
    """Keep two pods up, with an sshd in each, and a relay for launchers in the first."""
    from tare.clusters.kubernetes_site import made_namespace
    from tare.clusters.pods import manifests
    from tare.clusters.pods.gate import ExecServer
    from tare.clusters.pods.manifests import PodSpec
    from tare.clusters.pods.pods import Pods
    from tare.clusters.pods.relay import ExecRelay
    from tare.clusters.pods.session import ExecPool, PodContainer
    from tare.system.process import run

    names = tuple(each.name for each in site.nodes)  # so that the launcher sees which of its hosts it is on
    left: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(made_namespace(made.api, NAMESPACE, "bench", {}, left))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gate = ExecServer(folder)
        stack.callback(gate.close)
        pods = Pods(api=made.api, namespace=NAMESPACE)
        for name, each in zip(names, site.nodes, strict=True):
            pods.create(
                PodSpec(
                    name=name, namespace=NAMESPACE, run="bench", slot=0, node=each.name, image=image, node_image=image,
                    pull_policy="Never",
                )
            )  # fmt: skip
        up = pods.wait(names)
        for name in names:
            gate.add(name, ExecPool(made.api, PodContainer(namespace=NAMESPACE, pod=name, name=manifests.RANKS)))

        def command(pod: str, *argv: str, stdin: str = "") -> str:
            gate.prepare(dict.fromkeys(names, 2))
            gate.settle()
            return run((*gate.argv(pod), *argv), stdin=stdin, timeout_s=120, what=f"a command in {pod}").stdout

        addresses = tuple(str(up[name]["status"]["podIP"]) for name in names)
        begin_sshd(command, names, addresses, folder)
        relay = ExecRelay(gate, names[0], FOLDER, of_agent)
        stack.callback(relay.close)
        yield Pair(names=names, run=command)


def of_agent(words: list[str]) -> tuple[str, list[str]]:
    """Return the pod and the command in the words of a launcher's agent."""
    return words[0], ["/bin/sh", "-c", " ".join(words[1:])]


def begin_sshd(command: Callable[..., str], names: Sequence[str], addresses: Sequence[str], folder: Path) -> None:
    """Start an sshd in each pod; ssh knows the pods by their names. Daemons look for the launcher's agent, too."""
    from tare.clusters.pods.relay import AGENT

    key = folder / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", str(key)), check=True)
    pairs = zip(names, addresses, strict=True)
    lines = [line for name, each in pairs for line in (f"Host {name}", f"  HostName {each}")]
    lines += [
        "Host *", f"  Port {PORT}", "  User root", f"  IdentityFile {FOLDER}/key", "  BatchMode yes",
        "  StrictHostKeyChecking no", "  UserKnownHostsFile /dev/null", "  LogLevel ERROR",
    ]  # fmt: skip
    told = io.StringIO()
    told.write(f"{key.with_suffix('.pub').read_text().strip()}\n{'|'.join(lines)}\n{key.read_text()}")
    for name in names:
        command(name, "/bin/sh", "-c", SSHD, stdin=told.getvalue())
        command(name, "/bin/sh", "-c", 'cat > "$0/agent" && chmod 700 "$0/agent"', FOLDER, stdin=AGENT)


def launchers_figure(made: Any, site: Any, image: str, runs: int) -> Figure:
    """Measure pairs of launches, each pair in a random order."""
    shuffle, logs, medians = random.Random(1), [], dict[str, list[float]](exec=[], sshd=[])
    with pair_of(made, site, image) as pair:
        pair.latency_s("exec"), pair.latency_s("sshd")  # the first of each, after whose connections nothing is new
        for _ in range(runs):
            order = list(medians)
            shuffle.shuffle(order)
            for by in order:
                medians[by].append(pair.latency_s(by))
            logs.append(math.log(medians["exec"][-1] / medians["sshd"][-1]))
    lines = [f"latency of 8 bytes, started by {by}: {in_us(values)}" for by, values in medians.items()]
    found = log_interval(logs, 0.90)
    between = "no interval" if found is None else f"[{math.exp(found.low):.4f}, {math.exp(found.high):.4f}]"
    ratio = math.exp(float(np.mean(logs)))
    lines.append(f"exec / sshd: {ratio:.4f} {between} (90 %), n = {len(logs)} pairs (bound +-{100 * MARGIN:g} %)")
    return Figure(said="\n".join(lines), held=equivalent(logs, MARGIN))


# --- all ------------------------------------------------------------------------------------------------------


def live_figures(parts: Sequence[str], runs: int) -> Iterator[Figure]:
    """Yield the figures of the parts that need a Kubernetes."""
    from integration.ssh_hosts import lend, ssh_hosts
    from tare.clusters.pods import in_lab
    from tare.images import find_recipe
    from tare.images.build import ensure_image
    from tare.images.convert import ensure_file, image_tag
    from tare.images.recipe import service

    image = ensure_image(find_recipe())
    with ssh_hosts(2) as hosts, in_lab.running(hosts.site.nodes, hosts.site.folder) as made:
        for each in (image, ensure_image(service())):
            made.import_image(ensure_file(each, "docker-archive").path)
        cluster = json.dumps({"kubernetes": {"kubeconfig": str(made.kubeconfig), "pull_policy": "Never"}})
        if "up" in parts:
            yield below("a round's pods up on 2 nodes", pods_up(cluster, runs), UP_BOUND_S)
        if "trial" in parts:
            lend(hosts.cache, image=False)
            yield trial_figure(hosts, cluster, runs)
        if "launchers" in parts:
            yield launchers_figure(made, hosts.site, image_tag(image), runs)


def main() -> int:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated, of: " + ", ".join(PARTS))
    parser.add_argument("--trials", metavar="CLUSTER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.trials:
        print(json.dumps(trials(asked.trials, "kubernetes", asked.runs)))
        return 0
    parts = asked.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    figures = [plan_figure(asked.runs)] if "plan" in parts else []
    for each in figures:
        print(each.said, flush=True)
    if set(parts) - {"plan"}:
        for each in live_figures(parts, asked.runs):
            print(each.said, flush=True)
            figures.append(each)
    return int(not all(each.held for each in figures))


if __name__ == "__main__":
    sys.exit(main())
