"""Transports run for real: each MPI takes what it is told, its library says so, and a fallback is found out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from integration.live import by_environment, live, outcome, selected, write_study
from integration.studies import BYTES, ITERATIONS, prove, roles, watched
from tare.cli.app import app
from tare.networks.wiring import infiniband

pytestmark = live("docker", "cni", "mmdebstrap", "mpich", "openmpi5", "mpich5", "intelmpi")

KERNELS = (
    f"{{micro: {{time_limit: 300s, kernels: [{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}}}}}, "
    "{barrier: {iterations: 20, warmup: 5}}]}}"
)

TAKEN: Mapping[str, Mapping[str, str]] = {
    "openmpi": {"ucx": "UCX: tcp/", "ucx:tcp": "UCX: tcp/", "ofi:tcp": "libfabric: tcp"},
    "openmpi5": {"ucx:tcp": "UCX: tcp/", "ofi:tcp": "libfabric: tcp"},
    "mpich": {"ucx": "UCX: tcp/", "ucx:tcp": "UCX: tcp/"},
    "mpich5": {"ucx:tcp": "UCX: tcp/", "ofi:tcp": "libfabric: tcp", "ofi": "libfabric: "},
    "intelmpi": {"tcp": "Intel MPI: tcp", "ofi:tcp": "Intel MPI: tcp"},
}
"""What is there on every machine, with how the words begin of what the library took."""

IN_DOCKER: Mapping[str, str] = {
    "openmpi": "ofi:tcp",
    "openmpi5": "ucx:tcp",
    "mpich": "ucx",
    "mpich5": "ofi:tcp",
    "intelmpi": "tcp",
}
UNAVAILABLE = {
    "openmpi": {"uct": "was built without btl uct", "openib": "adapter", "verbs": "adapter", "ipoib": "adapter"},
    "openmpi5": {"openib": "Open MPI 5 has no transport 'openib' here", "ofi:psm2": "adapter"},
    "mpich": {"ofi:tcp": "is built for ucx, and transport: ofi:tcp is ofi's", "ucx:rc": "adapter"},
    "mpich5": {"ofi:efa": "adapter", "uct": "MPICH 5 has no transport 'uct' here"},
    "intelmpi": {"verbs": "adapter", "ucx": "adapter", "openib": "Intel MPI has no transport 'openib' here"},
}
IMAGES = {"intelmpi": ", launch: host-mpi, image: debian-mpich"}
"""No image has Intel MPI."""
Found = tuple[dict[str, Any], dict[str, str], list[str], str]


LONG = ("openmpi5", "mpich", "intelmpi")
"""Both families are in make test, each with the MPI that has most transports."""


@pytest.fixture(params=[pytest.param(mpi, marks=[pytest.mark.long] if mpi in LONG else []) for mpi in TAKEN])
def mpi(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stated(mpi: str) -> list[str]:
    """Return the environments with an MPI."""
    names = dict.fromkeys(("tcp", *TAKEN[mpi], *UNAVAILABLE[mpi]))
    listed = [f"'{mpi} {name}': {{runtime: bare, mpi: {mpi}, transport: '{name}'}}" for name in names]
    docker = f"runtime: docker, network: bridge, mpi: {mpi}, transport: '{IN_DOCKER[mpi]}'{IMAGES.get(mpi, '')}"
    return [*listed, f"{mpi} in docker: {{{docker}}}"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Found:
    folder = tmp_path_factory.mktemp("transports")
    listed = [each for mpi in sorted(selected(request, "mpi")) for each in stated(mpi)]
    result, watch = watched(write_study(folder, "transports", f"{{{', '.join(listed)}}}", workloads=KERNELS))
    results = folder / "results" / "transports"
    plan = json.loads((results / "plan.json").read_text())["plan"]
    reasons = {key.rsplit(" / ", 1)[1]: reason for key, reason in plan["unavailable"].items()}
    found = {name: each[0] for name, each in by_environment(results).items()}
    return found, reasons, watch.left(result.lab), result.stderr


def test_each_transport_completes_over_the_claimed_network_and_its_library_says_so(mpi: str, study: Found) -> None:
    found, _, left, stderr = study
    assert left == []
    for name, begins in {**TAKEN[mpi], "in docker": TAKEN[mpi][IN_DOCKER[mpi]]}.items():
        trial = found[f"{mpi} {name}"]
        assert outcome(trial) == "Completed", (name, trial["outcome"], stderr)
        assert trial["facts"]["transport"].startswith(begins), (name, trial["facts"])
        assert roles(trial)
        prove(trial)
    if "tcp" not in TAKEN[mpi]:
        assert "transport" not in found[f"{mpi} tcp"]["facts"], "what is named and counted is not asked"


def test_what_the_machine_or_the_build_has_not_is_unavailable_with_the_reason(mpi: str, study: Found) -> None:
    if infiniband.ports():
        pytest.skip("this machine cannot: it has an adapter")
    for name, words in UNAVAILABLE[mpi].items():
        assert words in study[1][f"{mpi} {name}"], (name, study[1])


def test_an_adapter_that_cannot_be_opened_lets_ucx_fall_back_and_the_cell_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine says that it has a port, as where a driver does not fit; UCX takes TCP, and goes on."""
    port = infiniband.Port(adapter="mlx5_0", number=1, state="4: ACTIVE")
    monkeypatch.setattr("tare.networks.wiring.infiniband.ports", lambda *_: (port,))
    monkeypatch.setattr("tare.system.devices.find_infiniband", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    claimed = "runtime: bare, mpi: mpich, transport: ucx, devices: infiniband"
    path = write_study(tmp_path, "fallback", f"{{tcp: {{runtime: bare, mpi: mpich}}, ucx: {{{claimed}}}}}")
    CliRunner().invoke(app, ["run", str(path)])
    found = by_environment(tmp_path / "results" / "fallback")
    (good,), (bad,) = found["tcp"], found["ucx"]
    assert outcome(good) == "Completed", good["outcome"]
    assert outcome(bad) == "Invalid", bad["outcome"]
    assert bad["outcome"]["reason"] == "it fell back to TCP: UCX took tcp/data0 where the cell claims ucx"
