"""What containers see of a run's own folder: the MPI's session folder, fresh and empty, and nothing that root runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import lab_site, live
from tare.clusters.lab_site import LabSite
from tare.images import find_recipe
from tare.images.build import ensure_image, ensure_tar
from tare.model import Environment, Placement
from tare.mpi.launch import write_agent
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility.study_files import import_images
from tare.system.namespaces import plain_python
from tare.system.process import run

pytestmark = live("docker", "podman", "charliecloud", "apptainer", "mmdebstrap")

TWO_CONTAINERS = Placement(nodes=1, ranks_per_node=2, containers_per_node=2)
RUNTIMES = ("docker", "podman", "podman-rootless", "apptainer", "charliecloud")
PRIVATE = ("tare-agent", "launch.json", "owner.json", "ssh-9/user")
LOOK = """
for file; do
  [ ! -e "$file" ] || echo "sees $file"
  (echo planted >> "$file") 2> /dev/null
  (echo planted > "${file%/*}/planted") 2> /dev/null
done
:
"""


@pytest.fixture(scope="module")
def files() -> Files:
    image = ensure_image(find_recipe())
    return Files(
        host_prefix=Path("/"), rootfs=image.rootfs, tar=ensure_tar(image), image_tag=f"tare:{image.digest[:16]}"
    )


@pytest.fixture(scope="module")
def site(files: Files) -> Iterator[LabSite]:
    assert files.rootfs is not None
    shown = (*map(Path, files.seen_by_nodes), Path(files.tar or "/").parent)
    with lab_site(nodes=1, cores_per_node=2, docker=True, shown=shown) as up:
        import_images(up, [files])
        write_agent(up.folder, plain_python())
        (up.folder / "ssh-9").mkdir()
        (up.folder / "ssh-9" / "user").write_text("the key of another environment\n")
        yield up


@pytest.fixture(params=RUNTIMES)
def up(request: pytest.FixtureRequest, site: LabSite, files: Files) -> Iterator[Deployed]:
    wanted = Environment(name="e", runtime=request.param, network="host", image="debian-openmpi")
    with deployed(site, wanted, TWO_CONTAINERS, slot=RUNTIMES.index(request.param), nic=0, files=files) as made:
        yield made


def inside(up: Deployed, number: int, script: str, *words: str) -> str:
    """Run a script in one of the containers of the first node, as a rank is started there."""
    (pod,) = up.pods
    argv = (*pod.outside, *pod.containers[number].enter, "/bin/sh", "-c", script, "look", *words)
    return run(argv, timeout_s=None).stdout


def test_no_container_reads_or_writes_what_launches_a_job(up: Deployed, site: LabSite) -> None:
    launch = up.hosts(TWO_CONTAINERS)[0]
    assert launch.enter, "the ranks enter no containers: the test proves nothing"
    (site.folder / "launch.json").write_text("{}")
    paths = [str(site.folder / name) for name in PRIVATE]
    before = {path: Path(path).read_bytes() for path in paths}
    for number in range(2):
        assert inside(up, number, 'ls -A "$1"', str(site.folder)).split() == [Path(up.pods[0].session).name]
        assert inside(up, number, LOOK, *paths) == ""
    assert {path: Path(path).read_bytes() for path in paths} == before
    assert not list(site.folder.glob("**/planted"))


SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/sys/kernel/uevent_helper",
            "/sys/module/sunrpc/parameters/udp_slot_table_entries")  # fmt: skip


def test_no_container_sets_what_holds_for_the_whole_machine(up: Deployed) -> None:
    assert inside(up, 0, 'for file; do [ ! -w "$file" ] || echo "$file"; done; :', *SETTINGS) == ""


def test_the_session_folder_is_empty_private_and_shared_by_a_pod_s_containers(up: Deployed) -> None:
    session = up.pods[0].session
    assert Path(session).stat().st_mode & 0o777 == 0o700
    assert inside(up, 0, 'ls -A "$1"; echo one > "$1/rank"', session) == ""
    assert inside(up, 1, 'cat "$1/rank"', session) == "one\n"
    assert Path(session, "rank").read_text() == "one\n"


def test_root_s_daemons_follow_no_link_that_a_container_has_made_in_it(up: Deployed, site: LabSite) -> None:
    session = up.pods[0].session
    inside(up, 0, 'ln -s "$2" "$1/link"', session, str(site.folder))
    on_node = up.pods[0].outside
    assert run((*on_node, "ls", str(site.folder))).stdout.count("owner.json") == 1, "the node does not see it"
    wrote = run((*on_node, "/bin/sh", "-c", f"echo x > {session}/link/victim"), check=False)
    assert wrote.status != 0
    assert not (site.folder / "victim").exists()


def test_nothing_of_a_session_is_left(site: LabSite, files: Files) -> None:
    wanted = Environment(name="e", runtime="apptainer", network="host", image="debian-openmpi")
    with deployed(site, wanted, TWO_CONTAINERS, slot=9, nic=0, files=files) as made:
        session = Path(made.pods[0].session)
        assert session.is_dir()
    assert not session.exists()
    left = [entry.name for entry in site.folder.iterdir() if entry.name.startswith("session-")]
    assert left == []
