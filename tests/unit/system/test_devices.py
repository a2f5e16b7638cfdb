"""Devices, binds and variables are what a study names, and no command hands over more."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies

from nodes import make_node, make_request
from tare.agent.probe import probe as probe_daemons
from tare.errors import RefusedError, StudyError
from tare.model import Environment, Placement
from tare.runtimes import docker
from tare.runtimes.apptainer import shown_as
from tare.study import load, parse
from tare.study.plan import composition
from tare.system import binds, devices
from tare.system.binds import Bind, absolute, bind_of, check_variable, check_workdir, client_option, format_bind, probe

TWO = ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")


def tree(folder: Path, *, verbs: dict[str, str], others: tuple[str, ...] = (), states: dict[str, str] | None = None):
    """Make the files of a machine with InfiniBand: `verbs` names the adapter of each device, `states` the ports'."""
    nodes = folder / "dev" / "infiniband"
    nodes.mkdir(parents=True)
    for name in (*verbs, *others):
        (nodes / name).touch()
    for name, adapter in verbs.items():
        place = folder / "class" / "infiniband_verbs" / name
        place.mkdir(parents=True)
        (place / "ibdev").write_text(f"{adapter}\n")
    for port, state in (states or {}).items():
        place = folder / "class" / "infiniband" / port
        place.mkdir(parents=True)
        (place / "state").write_text(f"{state}\n")
    return folder / "dev", folder / "class"


def test_adapters_with_an_active_port_are_passed_in_order(tmp_path: Path) -> None:
    names = {f"uverbs{number}": f"mlx5_{number}" for number in (0, 2, 10, 3)}
    states = {"mlx5_0/ports/1": "1: DOWN", "mlx5_2/ports/1": "1: DOWN", "mlx5_2/ports/2": "4: ACTIVE"}
    states |= {"mlx5_10/ports/1": "4: ACTIVE", "mlx5_3/ports/1": "2: INIT"}
    dev, classes = tree(tmp_path / "more", verbs=names, others=("uverbs2.bak",), states=states)
    assert devices.find_infiniband(dev, classes) == ("/dev/infiniband/uverbs2", "/dev/infiniband/uverbs10")


def test_a_machine_without_an_adapter_or_with_ports_that_are_down_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="has no InfiniBand device"):
        devices.find_infiniband(tmp_path, tmp_path)
    dev, classes = tree(tmp_path, verbs={"uverbs0": "mlx4_0"}, states={"mlx4_0/ports/1": "1: DOWN"})
    with pytest.raises(RefusedError, match=r"no InfiniBand port .*mlx4_0 port 1 is 1: DOWN"):
        devices.find_infiniband(dev, classes)
    dev, classes = tree(tmp_path / "other", verbs={"uverbs0": "mlx4_0"})
    with pytest.raises(RefusedError, match="no adapter reports one"):
        devices.find_infiniband(dev, classes)


def test_words_and_paths_become_device_nodes_once_each_as_clients_are_told(tmp_path: Path) -> None:
    dev, classes = tree(tmp_path, verbs={"uverbs0": "a"}, others=("rdma_cm",), states={"a/ports/1": "4: ACTIVE"})
    assert devices.given(("infiniband", "/dev/null", "infiniband"), dev, classes) == (*TWO, "/dev/null")
    assert devices.given(()) == ()
    assert devices.client_options(TWO) == (
        "--device", "/dev/infiniband/uverbs0", "--device", "/dev/infiniband/rdma_cm", "--ulimit", "memlock=-1:-1",
    )  # fmt: skip
    assert devices.client_options(("/dev/fuse",)) == ("--device", "/dev/fuse")
    assert devices.client_options(()) == ()
    config = devices.host_config(TWO)
    assert [each["PathOnHost"] for each in config["Devices"]] == list(TWO)
    assert config["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert (set(devices.host_config(("/dev/fuse",))), devices.host_config(())) == ({"Devices"}, {})


@pytest.mark.parametrize(("path", "words"), [("/dev/tare-nothing", "does not exist"), ("/dev/shm", "is not a device")])
def test_what_is_no_device_is_refused(path: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        devices.given((path,))
    assert words in str(devices.probe((path,)))
    environment = Environment(name="e", runtime="bare", network="host", devices=(path,))
    assert words in str(probe_daemons(environment))


@for_all(strategies.lists(strategies.sampled_from(["--label", "x", "--network", "host", "--device", "/dev/fuse"])))
def test_the_limit_alone_can_be_taken_back(words: list[str]) -> None:
    options = (*words, *devices.client_options(TWO), *words)
    limit = ("--ulimit", "memlock=-1:-1")
    assert devices.without_limits(options) == tuple(word for word in options if word not in limit)
    assert devices.without_limits(words) == tuple(words)


def test_memory_is_locked_for_infiniband_where_the_limit_allows_it() -> None:
    assert devices.locked_too_little(resource.RLIM_INFINITY, can_raise=False) is None
    assert devices.locked_too_little(8 << 20, can_raise=True) is None
    assert "at most 8192 KiB" in str(devices.locked_too_little(8 << 20, can_raise=False))
    assert devices.inherited(TWO) == ("prlimit", "--memlock=unlimited:unlimited")
    assert devices.inherited(("/dev/fuse",)) == ()


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ("none", ()),
        ("infiniband", ("infiniband",)),
        ("/dev/fuse", ("/dev/fuse",)),
        ("[infiniband, /dev/net/tun, infiniband]", ("infiniband", "/dev/net/tun")),
        ("nvidia", ("nvidia",)),
        (
            "[rocm, cdi:vendor.com/net=nic0, 'cdi:nvidia.com/gpu=1:0']",
            ("rocm", "cdi:vendor.com/net=nic0", "cdi:nvidia.com/gpu=1:0"),
        ),
    ],
)
def test_a_study_names_devices_by_word_path_or_list(stated: str, wanted: tuple[str, ...]) -> None:
    text = f"environments: [bare, docker+host: {{devices: {stated}}}]\nworkloads: {{m: {{kernels: [barrier]}}}}\n"
    assert parse(text).environments[1].devices == wanted


@pytest.mark.parametrize(
    "stated",
    [
        "all", "[fuse]", "[/dev/../etc/shadow]", "/dev/fuse:/dev/x", "/dev/", "[/etc/x]", "cdi:gpu=0",
        "cdi:nvidia.com/gpu", "nvidia.com/gpu=all", "cdi:a.b/c=all --privileged",
    ],
)  # fmt: skip
def test_a_study_cannot_name_anything_else(stated: str) -> None:
    text = f"environments: [bare, docker+host: {{devices: {stated}}}]\nworkloads: {{m: {{kernels: [barrier]}}}}\n"
    with pytest.raises(
        Exception, match="is not a device: write infiniband, nvidia, rocm, a path such as /dev/fuse, or a CDI"
    ):
        parse(text)


MOUNT = "--mount=type=bind"
STUDY = """
environments:
  bare: {}
  docker: {image: ./mine.sif, binds: ["data:/data:ro", "/x/../y:/z/"], workdir: /data, env: {THREADS: 4, WORDS: "a, b"}}
workloads: {w: {command: [../bin/app, ./deck], input: in}, v: {command: [app]}}
writable: runs
cluster: {ssh: {hosts: [a, b], ssh_config: config}}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a:/b", Bind(source="/a", target="/b", read_only=False)),
        ("/a:/b:rw", Bind(source="/a", target="/b", read_only=False)),
        ("./a:/b/:ro", Bind(source="/home/u/a", target="/b", read_only=True)),
        ("../a:/b", Bind(source="/home/a", target="/b", read_only=False)),
        ("/a\\:1,2:/b c\\:d:ro", Bind(source="/a:1,2", target="/b c:d", read_only=True)),
    ],
)
def test_a_bind_is_read_as_docker_reads_it_and_its_source_is_absolute(text: str, expected: Bind) -> None:
    assert (bind_of(text, Path("/home/u")), bind_of(format_bind(expected))) == (expected, expected)


@pytest.mark.parametrize(
    "text", ["/a", ":/b", "/a:", "/a:/b:z", "/a:b", "/a:/", "/a:/proc", "/a:/dev/", "/a:/b/../c", "/a:/b:ro:x"]
)
def test_a_bind_that_no_container_could_be_shown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a bind|cannot be bound"):
        bind_of(text)


def test_a_path_is_absolute_and_what_a_link_leads_to_decides_what_is_above_it(tmp_path: Path) -> None:
    (tmp_path / "far/deep").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to(tmp_path / "far/deep")
    base = tmp_path / "here"
    found = [absolute(path, base) for path in ("app", "./link/app", "../x", "link/../app", "link/.", "/a//b/")]
    assert found == [
        f"{base}/app", f"{base}/link/app", f"{tmp_path}/x", f"{tmp_path}/far/app", f"{base}/link", "/a/b"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bind", "options"),
    [
        (Bind(source="/a b,c", target="/a b,c", read_only=True), ("--volume=/a b,c:/a b,c:ro",) * 2),
        (
            Bind(source="/a:1", target="/b", read_only=False),
            (
                f"{MOUNT},source=/a:1,destination=/b",
                f"{MOUNT},source=/a:1,destination=/b,relabel=shared",
            ),
        ),
        (
            Bind(source="/a:1,2", target='/"', read_only=True),
            (
                f'{MOUNT},"source=/a:1,2","destination=/""",readonly',
                f'{MOUNT},"source=/a:1,2","destination=/""",relabel=shared,readonly',
            ),
        ),
    ],
)
def test_a_folder_with_a_colon_is_shown_by_an_option_that_does_not_divide_there(
    bind: Bind, options: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binds, "has_selinux", lambda: False)
    assert client_option(bind, relabels=True) == options[0]
    monkeypatch.setattr(binds, "has_selinux", lambda: True)
    assert client_option(bind, relabels=True).removesuffix(",z") == options[1]
    request = make_request(make_node(), shown=(bind.source,), binds=(format_bind(bind),))
    shown = [each for each in request.folders if each.target == bind.target]
    assert shown == [bind], "a bind replaces what would be at its place"
    option = shown_as(bind)
    assert option.startswith("--mount=" if set(":,") & set(bind.source) else "--bind=")
    assert docker.bind_config(request).get("Mounts", []) == [
        {"Type": "bind", "Source": each.source, "Target": each.target, "ReadOnly": each.read_only}
        for each in request.folders
        if ":" in each.source + each.target
    ]


def test_sources_and_folders_are_absolute_and_begin_at_the_study_s_file(tmp_path: Path) -> None:
    assert probe([f"{tmp_path}:/x"]) is None
    assert probe([f"{tmp_path}:/x", "/none/such:/y"]) == "binds: /none/such does not exist on this machine"
    assert check_workdir("/a") == "/a"
    with pytest.raises(ValueError, match="absolute"):
        check_workdir("a")
    (tmp_path / "s.yaml").write_text(STUDY)
    stated = load(tmp_path / "s.yaml")
    assert [each.command for each in stated.workloads] == [(f"{tmp_path.parent}/bin/app", "./deck"), ("app",)]
    assert (stated.workloads[0].input, stated.lab.ssh_config) == (f"{tmp_path}/in", f"{tmp_path}/config")
    assert (stated.folder, stated.writable) == (str(tmp_path), f"{tmp_path}/runs")
    assert parse(STUDY.replace("runs", "true"), base=tmp_path).writable == str(tmp_path)
    found = stated.environments[1]
    assert (found.image, found.binds) == (f"{tmp_path}/mine.sif", (f"{tmp_path}/data:/data:ro", "/y:/z"))
    assert (found.workdir, found.env) == ("/data", ("THREADS=4", "WORDS=a, b"))
    bare = Environment(name="e", runtime="bare", network="host", binds=("/a:/b",))
    assert "binds need a container or an image" in (composition.refuse(bare, Placement()) or "")
    image = Environment(name="e", runtime="bare", network="host", binds=("/a:/b",), image="debian-openmpi")
    assert composition.refuse(image, Placement()) is None


@pytest.mark.parametrize("text", ["NAME", "1X=2", "A B=c", "TARE_MAP=x", "A=b\nc"])
def test_a_variable_that_cannot_be_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"assignment|reserved|one line"):
        check_variable(text)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("binds: [nothing]", "SOURCE:TARGET"), ("workdir: here", "name an absolute path"),
        ("env: {A: 1.10}", "in quotes"), ("env: {A: true}", "in quotes"), ("env: {TARE_X: a}", "reserved for tare"),
        ("image: mine.sif", "a path begins with / or ./"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_study_is_told_with_its_place(key: str, told: str) -> None:
    with pytest.raises(StudyError, match=told) as refused:
        parse(f"environments: {{bare: {{}}, docker: {{{key}}}}}\nworkloads: {{w: {{kernels: [barrier]}}}}\n")
    assert "environments.docker" in str(refused.value)
