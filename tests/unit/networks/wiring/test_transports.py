"""Each MPI is told a transport in its own words, what its library took is read, and what it may not is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from launches import launch_argv, make_job, settings, values
from tare.agent.probe import probe
from tare.errors import RefusedError
from tare.model import Environment, Placement
from tare.mpi import MPIS
from tare.mpi.openmpi import components, missing_part
from tare.networks.wiring import transports
from tare.run.transport_log import judged
from tare.study import parse
from tare.study.plan import composition

REAL = ("openmpi", "openmpi5", "mpich", "mpich5", "intelmpi")
PORTS = ("mlx5_0:1", "mlx5_3:1")


def all_settings(mpi: str, transport: str, *, ports: bool = False, **more: Any) -> dict[str, str]:
    """Return all that an MPI is told, each setting by its name; of those that differ by host, the first host's."""
    job = make_job(transport, interfaces=("data0", "eth0"), ports=PORTS if ports else ("",), **more)
    argv = launch_argv(mpi, job)
    found = [pair for option in ("--mca", "-genv", "-env") for pair in settings(argv, option)]
    found += [(name, value) for name, _, value in (word.partition("=") for word in values(argv, "-x"))]
    return dict(reversed(found))


TOLD: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("openmpi", "ipoib"): {"pml": "ob1", "btl": "self,vader,tcp", "btl_tcp_if_include": "10.214.0.0/24"},
    ("openmpi", "ucx"): {"pml": "ucx", "UCX_TLS": "self,sysv,ib,tcp", "UCX_NET_DEVICES": "data0"},
    ("openmpi", "ucx:tcp"): {"pml": "ucx", "UCX_TLS": "self,sysv,tcp", "UCX_NET_DEVICES": "data0"},
    ("openmpi", "ucx:ud"): {"pml": "ucx", "UCX_TLS": "self,sysv,ud", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("openmpi", "verbs"): {"pml": "ucx", "UCX_TLS": "self,sysv,rc", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("openmpi", "verbs:ud"): {"pml": "ucx", "UCX_TLS": "self,sysv,ud", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("openmpi", "openib"): {
        "pml": "ob1", "btl": "self,vader,openib", "btl_openib_allow_ib": "1", "btl_openib_if_include": "mlx5_0:1",
    },
    ("openmpi", "uct:rc"): {
        "btl": "self,vader,uct", "btl_uct_memory_domains": "mlx5_0", "btl_uct_transports": "rc_verbs,rc_mlx5",
    },
    ("openmpi", "ofi"): {"pml": "cm", "mtl": "ofi", "FI_TCP_IFACE": "data0"},
    ("openmpi", "ofi:psm2"): {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "psm2"},
    ("openmpi5", "shm"): {"pml": "ob1", "btl": "self,sm", "smsc": "^cma", "btl_tcp_if_include": "10.214.0.0/24"},
    ("openmpi5", "ucx:rc"): {"pml": "ucx", "UCX_TLS": "self,sysv,rc", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("openmpi5", "uct"): {"pml": "ob1", "btl": "self,sm,uct", "btl_uct_memory_domains": "mlx5_0"},
    ("openmpi5", "ofi:tcp"): {"pml": "cm", "mtl": "ofi", "opal_common_ofi_provider_include": "tcp"},
    ("mpich", "ucx:tcp"): {"UCX_TLS": "self,sysv,tcp", "UCX_NET_DEVICES": "data0"},
    ("mpich", "verbs"): {"UCX_TLS": "self,sysv,rc", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("mpich5", "verbs"): {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "self,rc", "UCX_NET_DEVICES": "mlx5_0:1"},
    ("mpich5", "ofi"): {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_TCP_IFACE": "data0"},
    ("mpich5", "ofi:verbs"): {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "verbs"},
    ("intelmpi", "shm"): {"I_MPI_FABRICS": "shm"},
    ("intelmpi", "ucx"): {"I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": "mlx"},
    ("intelmpi", "verbs"): {"I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": "verbs"},
    ("intelmpi", "ofi:psm3"): {"I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": "psm3"},
}  # fmt: skip


@pytest.mark.parametrize(("mpi", "transport"), TOLD)
def test_an_mpi_is_told_a_transport_in_its_own_words(mpi: str, transport: str) -> None:
    ports = transports.needs_port(transport, ())
    told = all_settings(mpi, transport, ports=ports)
    assert {name: told.get(name) for name in TOLD[mpi, transport]} == TOLD[mpi, transport]


@pytest.mark.parametrize("mpi", REAL)
def test_every_way_of_a_table_can_be_launched_and_leaves_no_word_unfilled(mpi: str) -> None:
    for key in MPIS[mpi].ways:
        name = key.partition(":")[0]
        for transport in [f"{name}:{detail}" for detail in transports.NAMES[name]] if key.endswith(":") else [key]:
            told = all_settings(mpi, transport, ports=True, asks=True, roce=True)
            assert not [value for value in told.values() if "{" in value], transport


@pytest.mark.parametrize("mpi", REAL)
def test_the_launch_that_is_asked_differs_in_nothing_but_what_lets_the_library_speak(mpi: str) -> None:
    for key, way in MPIS[mpi].ways.items():
        transport = f"{key}{transports.NAMES[key[:-1]][0]}" if key.endswith(":") else key
        usual, asked = (all_settings(mpi, transport, ports=True, asks=asks) for asks in (False, True))
        assert (bool(way.tells), {name: asked[name] for name in usual}) == ((asked != usual), usual)
        assert all(re.search("LOG_LEVEL|verbose|DEBUG", name) for name in asked.keys() - usual.keys())


@pytest.mark.parametrize("mpi", ["openmpi", "openmpi5", "mpich"])
def test_neighbours_of_ucx_share_memory_and_never_use_tcp(mpi: str) -> None:
    one = all_settings(mpi, "ucx:tcp", nodes=1, ranks=2)
    assert one["UCX_TLS"] == "self,sysv"
    several = all_settings(mpi, "ucx:tcp", ranks=2)
    assert (several["UCX_TLS"], several["UCX_RNDV_THRESH"]) == ("self,sysv,tcp", "inf")


@pytest.mark.parametrize(
    ("mpi", "words"),
    [("openmpi5", "Open MPI 5 has no transport 'openib' here: tcp, shm, ipoib, ucx, verbs"),
     ("mpich", "no transport 'openib' here: tcp, shm, ipoib, ucx, verbs, ofi"),
     ("mpich5", "no transport 'openib' here: tcp, shm"), ("intelmpi", "no transport 'openib' here: tcp, shm")],
)  # fmt: skip
def test_an_mpi_without_a_transport_says_what_it_has(mpi: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        launch_argv(mpi, make_job("openib"))


def test_components_are_read_from_what_ompi_info_says_and_missing_ones_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        'mca:btl:tcp:version:"mca:2.1.0"\nmca:btl:tcp:version:"api:3.1.0"\nmca:pml:ucx:version:"mca:2.1.0"\nomg:btl:x:1'
    )

    class Said:
        stdout = said

    monkeypatch.setattr("tare.mpi.openmpi.run", lambda *_, **__: Said())
    assert components("/nowhere/ompi_info") == {"btl tcp", "pml ucx"}
    way = MPIS["openmpi"].ways["openib"]
    assert missing_part(way, frozenset({"btl openib"}), "Open MPI 4.1.4", "openib") is None
    assert missing_part(way, frozenset(), "Open MPI 4.1.4", "openib") is None  # nothing told, nothing judged
    assert missing_part(way, frozenset({"btl tcp"}), "Open MPI 4.1.4", "openib") == (
        "Open MPI 4.1.4 was built without btl openib, which transport: openib needs"
    )


def stated(transport: str, more: str = "") -> Environment:
    entry = f"{{runtime: bare, image: true, transport: '{transport}'{more}}}"
    text = f"environments: [bare, e: {entry}]\nworkloads: {{m: {{kernels: [barrier]}}}}\n"
    return parse(text).environments[1]


@pytest.mark.parametrize("transport", ["tcp", "ucx", "ucx:rc", "uct:rc", "verbs:ud", "ofi:efa", "openib", "ipoib"])
def test_a_study_names_a_transport_with_its_detail(transport: str) -> None:
    assert stated(transport).transport == transport


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        ("tpc", "unknown transport 'tpc'; did you mean tcp"),
        ("tcp:fast", "tcp takes nothing after a colon: write tcp"),
        ("ofi:tpc", "ofi has no 'tpc' .allowed: ofi:tcp, "), ("ucx:", "ucx has no ''"),
        ("uct:tcp", "uct has no 'tcp'"),
    ],
)  # fmt: skip
def test_a_transport_that_there_is_not_is_told_with_those_there_are(transport: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        stated(transport)


@pytest.mark.parametrize(
    ("transport", "devices", "wanted"),
    [
        ("tcp", ("infiniband",), False), ("ucx", (), False), ("ucx", ("infiniband",), True),
        ("ucx:tcp", ("infiniband",), False), ("ucx:ud", (), True), ("verbs", (), True), ("openib", (), True),
        ("ofi", ("infiniband",), True), ("ofi:psm2", (), True), ("ofi:tcp", ("infiniband",), False),
    ],
)  # fmt: skip
def test_transports_and_devices_tell_what_takes_a_port(transport: str, devices: tuple[str, ...], wanted: bool) -> None:
    assert transports.needs_port(transport, devices) is wanted


BARE = Environment(name="e", runtime="bare", network="host")


@pytest.mark.parametrize(
    ("given", "placement", "words"),
    [
        ({"transport": "ofi:shm"}, Placement(), "does not reach from one node to another"),
        ({"transport": "ofi:shm"}, Placement(nodes=1, ranks_per_node=2), "Open MPI 4.1 has no ofi:shm: mtl ofi needs"),
        (
            {"transport": "ofi:shm", "mpi": "mpich5"}, Placement(nodes=1, ranks_per_node=2),
            "MPICH 5 has no ofi:shm: within a host it moves messages itself",
        ),
        ({"transport": "openib", "mpi": "mpich"}, Placement(), "MPICH has no transport 'openib' here"),
        (
            {"transport": "ipoib", "network": "bridge"}, Placement(),
            "bridge does not give pods the node's interface of IP over InfiniBand",
        ),
        ({"transport": "ofi:tcp"}, Placement(ranks_per_node=2), "uses ofi:tcp between ranks of one node too, over lo"),
        (
            {"transport": "verbs", "runtime": "docker", "image": "debian-openmpi"}, Placement(),
            "needs the adapter's device files: set devices: infiniband",
        ),
    ],
)  # fmt: skip
def test_a_transport_that_cannot_be_is_refused(given: dict[str, str], placement: Placement, words: str) -> None:
    reason = composition.refuse(replace(BARE, **given), placement)
    assert reason is not None
    assert words in reason


def test_adapters_decide_what_ucx_and_openib_use_and_what_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.networks.wiring.infiniband.ports", lambda *_: ())
    monkeypatch.setattr("tare.networks.wiring.infiniband.ipoib_interfaces", lambda *_: ())
    for transport in ("verbs", "ucx:rc", "ofi:psm2", "ipoib"):
        reason = probe(replace(BARE, transport=transport))
        assert reason is not None
        assert "adapter" in reason
    assert all_settings("openmpi", "ucx", ports=True)["UCX_NET_DEVICES"] == "mlx5_0:1,data0"
    assert all_settings("openmpi", "openib", ports=True, roce=True)["btl_openib_cpc_include"] == "rdmacm"
    assert "btl_openib_cpc_include" not in all_settings("openmpi", "openib", ports=True)


UCX_13 = """
[1763747000.1] [n0:55:0]     ucp_worker.c:1783 UCX  INFO  ep_cfg[0]: tag(self/memory sysv/memory tcp/data0);
[1763747000.2] [n0:55:0]     ucp_worker.c:1783 UCX  INFO  ep_cfg[1]: tag(tcp/data0);
"""
UCX_18 = """
[1763747000.1] [n0:55:0]   ucp_worker.c:1888 UCX  INFO    0x5556 self cfg#0 tag(self/memory)
[1763747000.2] [n0:55:0]   ucp_worker.c:1888 UCX  INFO    0x5556 inter-node cfg#1 tag(rc_mlx5/mlx5_0:1)
"""
BTL = """
[n0:00055] mca: bml: Using self btl for send to [[8219,1],0] on node n0
[n0:00055] mca: bml: Using openib btl for send to [[8219,1],1] on node n1
[n0:00055] mca: bml: Not using tcp btl for send to [[8219,1],1] on node n1 because openib btl has higher exclusivity
"""
FABRIC = """
libfabric:15:1795287720::core:core:fi_fabric_():1431<info> Opened fabric: 10.214.0.0/24
libfabric:15:1795287720::verbs:fabric:vrb_init_info():1445<info> unable to find active device
libfabric:15:1795287720::ofi_rxm:av:ofi_av_insert_addr():313<info> fi_addr: 0
libfabric:15:1795287720:ofi_rxm:tcp:core:ofi_get_list_of_addr():1700<info> Available addr: fi_sockaddr_in
libfabric:15:1795287721::tcp:ep_ctrl:xnet_process_connreq():120<info> connected
libfabric:15:1795287721::sm2:av:ofi_av_insert_addr():313<info> fi_addr: 1
"""
INTEL = "[0] MPI startup(): libfabric loaded: libfabric.so.1\n[0] MPI startup(): libfabric provider: tcp;ofi_rxm\n"


@pytest.mark.parametrize(
    ("transport", "library", "said", "taken"),
    [
        ("ucx", "UCX", UCX_13, ("tcp/data0",)), ("ucx:tcp", "UCX", UCX_13, ("tcp/data0",)),
        ("ucx:rc", "UCX", UCX_18, ("rc_mlx5/mlx5_0:1",)), ("verbs", "UCX", UCX_18, ("rc_mlx5/mlx5_0:1",)),
        ("openib", "Open MPI", BTL, ("btl openib",)), ("ofi:tcp", "libfabric", FABRIC, ("tcp",)),
        ("ofi", "libfabric", FABRIC, ("tcp",)), ("ofi:tcp", "Intel MPI", INTEL, ("tcp",)),
    ],
)  # fmt: skip
def test_what_a_library_took_is_held_to_the_claim(
    transport: str, library: str, said: str, taken: tuple[str, ...]
) -> None:
    chosen = judged(transport, library, said, port=transports.needs_port(transport, ()))
    assert (chosen.taken, chosen.reason, chosen.words) == (taken, None, f"{library}: {taken[0]}")


@pytest.mark.parametrize(
    ("transport", "library", "said"),
    [
        ("ucx", "UCX", UCX_13), ("ucx:rc", "UCX", UCX_13), ("verbs", "UCX", UCX_13), ("ofi", "libfabric", FABRIC),
        ("openib", "Open MPI", BTL.replace("Using openib", "Using tcp")), ("ofi:verbs", "libfabric", FABRIC),
        ("verbs", "Intel MPI", INTEL),
    ],
)  # fmt: skip
def test_a_silent_fallback_to_tcp_is_named(transport: str, library: str, said: str) -> None:
    reason = str(judged(transport, library, said, port=True).reason)
    assert reason.startswith(f"it fell back to TCP: {library} took ")
    assert reason.endswith(f"where the cell claims {transport}")


@pytest.mark.parametrize("library", ["UCX", "Open MPI", "libfabric", "Intel MPI"])
def test_a_library_that_does_not_tell_proves_nothing_and_another_transport_is_named(library: str) -> None:
    chosen = judged("ucx", library, "hello\nself cfg#0 tag(self/memory)\n", port=False)
    assert chosen.taken == ()
    assert "did not tell" in str(chosen.reason)
    reason = judged("verbs:ud", "UCX", UCX_18, port=True).reason
    assert reason == "UCX took rc_mlx5/mlx5_0:1 where the cell claims verbs:ud"
