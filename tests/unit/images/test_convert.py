"""Images are packed once for Docker, OCI and Apptainer, and come with a bundle complete or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.cli import image_commands
from tare.errors import CommandFailed, ImageError, ResultsError, UsageError
from tare.images import bundled_image, convert
from tare.images.build import Image, list_images
from tare.images.bundled_image import bring_image
from tare.images.convert import FILES, FORMATS, ensure_file, formats_of
from tare.images.inside import archive
from tare.images.inside.archive import sha256_of
from tare.system import safe_files
from unit.scripts import script


@pytest.fixture
def image(tmp_path: Path) -> Image:
    place = tmp_path / "cache/images/0123456789abcdef"
    (place / "rootfs/etc").mkdir(parents=True)
    (place / "rootfs/etc/os-release").write_text("ID=tiny\n")
    with tarfile.open(place / "rootfs.tar", "w") as packed:
        packed.add(place / "rootfs", ".")
    return Image(
        name="tiny", digest=place.name, rootfs=place / "rootfs", tar=place / "rootfs.tar", packages={},
        cache=tmp_path / "cache", variables=("PATH=/bin", "GREETING=hello world"),
    )  # fmt: skip


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as packed:
        return {m.name: f.read() for m in packed.getmembers() if (f := packed.extractfile(m)) is not None}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_docker_archive_names_its_layer_and_its_variables(image: Image) -> None:
    made = ensure_file(image, "docker-archive")
    inside = contents(made.path)
    (manifest,) = json.loads(inside["manifest.json"])
    assert manifest["RepoTags"] == ["tare/tiny:0123456789abcdef"]
    config = json.loads(inside[manifest["Config"]])
    (layer,) = manifest["Layers"]
    assert inside[layer] == image.tar.read_bytes()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{sha256(inside[layer])}"]
    assert config["config"]["Env"] == ["PATH=/bin", "GREETING=hello world"]
    assert "Entrypoint" not in config["config"]


def test_every_blob_of_an_oci_layout_is_named_by_its_digest_and_found_from_the_index(image: Image) -> None:
    inside = contents(ensure_file(image, "oci").path)
    assert json.loads(inside["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    blobs = {name.removeprefix("blobs/sha256/"): blob for name, blob in inside.items() if name.startswith("blobs/")}
    assert all(sha256(blob) == name for name, blob in blobs.items())

    def blob_of(descriptor: dict[str, Any]) -> bytes:
        blob = blobs[descriptor["digest"].removeprefix("sha256:")]
        assert len(blob) == descriptor["size"]
        return blob

    (named,) = json.loads(inside["index.json"])["manifests"]
    manifest = json.loads(blob_of(named))
    assert json.loads(blob_of(manifest["config"]))["architecture"] == archive.architecture()
    assert [blob_of(layer) for layer in manifest["layers"]] == [image.tar.read_bytes()]


@pytest.mark.parametrize("wanted", ["oci", "docker-archive"])
def test_the_same_image_gives_the_same_file_and_is_packed_once(image: Image, wanted: str) -> None:
    said: list[str] = []
    first = ensure_file(image, wanted, progress=said.append)
    assert first.digest == f"sha256:{archive.sha256_of(first.path)}"
    assert (ensure_file(image, wanted, progress=said.append), len(said)) == (first, 1)
    content = first.path.read_bytes()
    first.path.unlink()  # a file that is not whole is made anew
    assert ensure_file(image, wanted).path.read_bytes() == content


def test_the_formats_there_are_are_listed_and_an_unknown_one_is_refused(image: Image) -> None:
    assert formats_of(image) == ("directory",)
    ensure_file(image, "oci")
    assert (formats_of(image), set(convert._makers("apptainer"))) == (("directory", "oci"), set(FILES))
    with pytest.raises(UsageError, match="unknown format 'zip'") as refused:
        convert.convert(image, "zip")
    assert all(name in refused.value.remedy for name in FORMATS)


def test_a_sif_is_built_from_the_docker_archive_or_it_is_told_why_not(image: Image, tmp_path: Path) -> None:
    told = '"$@"', '"$TMPDIR $APPTAINER_CACHEDIR"'
    lines = [*(f"echo {it} >> {tmp_path}/log" for it in told), 'echo sif > "$2"']
    program = script(tmp_path / "apptainer", "\n".join(lines))
    made = ensure_file(image, "sif", str(program))
    assert made.path == image.cache / "sif" / image.digest / "image.sif"
    assert sorted(path.name for path in made.path.parent.iterdir()) == ["format.json", "image.sif"]
    said, folders = (tmp_path / "log").read_text().splitlines()
    assert said.startswith("build ")
    assert said.endswith(f" docker-archive:{image.cache}/docker-archive/{image.digest}/image.tar")
    assert all(folder.startswith(f"{image.cache}/sif/") for folder in folders.split())
    shutil.rmtree(image.cache / "sif")
    script(program, "echo no room >&2; exit 1")
    with pytest.raises(CommandFailed, match=r"packing tiny into a SIF failed.*no room"):
        ensure_file(image, "sif", str(program))
    assert all(path.name.startswith(".lock") for path in (image.cache / "sif").iterdir())


def test_a_folder_of_ones_own_is_a_copy_and_nothing_is_written_over(image: Image, tmp_path: Path) -> None:
    assert convert.convert(image, "sandbox").path == image.rootfs
    made = convert.convert(image, "charliecloud", tmp_path / "own")
    assert (made.path / "etc/os-release").read_text() == "ID=tiny\n"
    assert (made.path / "ch/environment").read_text() == "PATH=/bin\nGREETING=hello world\n"
    assert not (image.rootfs / "ch").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (tmp_path / "there").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        convert.convert(image, "oci", tmp_path / "there")
    with pytest.raises(UsageError, match="does not exist"):
        convert.convert(image, "oci", tmp_path / "none/x.tar")
    assert (tmp_path / "there").read_text() == "mine"


def test_podman_loads_the_archive_into_its_own_storage_or_a_folder() -> None:
    load = ("load", "--quiet", "--input", "/x.tar")
    assert convert.podman_argv("podman", Path("/x.tar"), None, Path("/t")) == ("podman", *load)
    argv = convert.podman_argv("podman", Path("/x.tar"), Path("/s"), Path("/t"))
    assert argv[:7] == ("podman", "--root", "/s", "--runroot", "/t/run", "--tmpdir", "/t/tmp")


def test_root_lets_podman_write_into_no_folder_that_others_change(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(convert.process, "need", lambda name, package: name)
    monkeypatch.setattr(convert.process, "run", lambda *_, **__: pytest.fail("podman was started"))
    monkeypatch.setattr(safe_files, "is_real_root", lambda: True)
    with pytest.raises(ResultsError, match="can be changed by another user, so root's storage must not be in it"):
        convert.convert(image, "podman", tmp_path / "open" / "storage")


def test_images_are_listed_with_their_digest_and_formats_and_a_limit_is_a_size(
    image: Image, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TARE_CACHE", str(image.cache))
    image_commands.image_list()
    assert "the cache has no image" in capsys.readouterr().out
    (image.rootfs.parent / "image.json").write_text(json.dumps({"name": "tiny", "digest": image.digest}))
    ensure_file(image, "oci")
    image_commands.image_list()
    headings, row, _, cache = capsys.readouterr().out.splitlines()
    assert headings.split() == list(image_commands.HEADINGS)
    assert row.startswith("tiny   0123456789abcdef ")
    image_commands.image_list(as_json=True)
    assert json.loads(capsys.readouterr().out)[0]["image"] == "tiny"
    assert row.endswith("directory, oci")
    assert "of 20.0 GB" in cache
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="--limit: '20 gold'"):
        image_commands.image_prune("20 gold", 60)


DIGEST = "0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.requires("root")


class Recipe:
    digest = DIGEST


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an image of a bundle, which this tare would make under the same digest."""
    monkeypatch.setattr(bundled_image, "find_recipe", lambda _name: Recipe)
    folder = tmp_path / "brought"
    (folder / "files/bin").mkdir(parents=True)
    (folder / "files/bin/sh").write_text("a shell")
    with tarfile.open(folder / "rootfs.tar", "w") as archive:
        archive.add(folder / "files", ".")
    write(folder)
    return folder


def write(folder: Path, **more: Any) -> None:
    record = {"name": "debian-openmpi", "digest": DIGEST, "tar_digest": f"sha256:{sha256_of(folder / 'rootfs.tar')}"}
    (folder / "image.json").write_text(json.dumps(record | more))


def test_it_is_found_as_if_it_had_been_built_here_whatever_its_record_names(brought: Path, tmp_path: Path) -> None:
    image = bring_image(brought, tmp_path / "cache")
    assert (image.rootfs / "bin/sh").read_text() == "a shell"
    assert image.tar.read_bytes() == (brought / "rootfs.tar").read_bytes()
    assert (list_images(tmp_path / "cache"), bring_image(brought, tmp_path / "cache")) == ((image,), image)
    write(brought, rootfs="/etc", sif="/etc/passwd")
    image = bring_image(brought, tmp_path / "cache")
    assert image.rootfs == tmp_path / "cache/images" / DIGEST / "rootfs"
    assert image.sif is None


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"digest": DIGEST[::-1]}, UsageError, "another version of tare"),
        ({"digest": "../../x"}, ImageError, "not the record of an image"),
        ({"name": 7}, ImageError, "not the record of an image"),
        ({"source": "/etc"}, ImageError, "not the record of an image"),
        ({"tar_digest": "sha256:0"}, ImageError, "is damaged"),
        ({"tar_digest": None}, ImageError, "is damaged"),
    ],
)
def test_a_wrong_record_is_refused_and_leaves_nothing(
    more: dict[str, Any], error: type[Exception], words: str, brought: Path, tmp_path: Path
) -> None:
    write(brought, **more)
    with pytest.raises(error, match=words):
        bring_image(brought, tmp_path / "cache")
    assert list_images(tmp_path / "cache") == ()


def test_a_damaged_root_leaves_nothing_and_names_that_lead_outside_stay_inside(brought: Path, tmp_path: Path) -> None:
    (brought / "rootfs.tar").write_bytes(b"no tar")
    write(brought)
    with pytest.raises(ImageError, match="cannot be unpacked"):
        bring_image(brought, tmp_path / "cache")
    assert list_images(tmp_path / "cache") == ()
    assert not list((tmp_path / "cache/images").glob(".unfinished*"))
    with tarfile.open(brought / "rootfs.tar", "w") as archive:
        archive.add(brought / "files/bin/sh", "../../../../victim")
    write(brought)
    image = bring_image(brought, tmp_path / "cache")
    assert (image.rootfs / "victim").is_file()
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("wanted", ["directory", "oci"])
def test_a_folder_that_is_replaced_by_a_link_meanwhile_gets_nothing(
    image: Image, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_file(image, "oci")
    theirs, elsewhere = tmp_path / "theirs", tmp_path / "elsewhere"
    theirs.mkdir()
    elsewhere.mkdir()

    def swapped(work: Callable[..., object]) -> Callable[..., object]:
        def swap(*arguments: object, **options: object) -> object:
            if theirs.is_dir() and not theirs.is_symlink() and not (tmp_path / "moved").exists():
                theirs.rename(tmp_path / "moved")
                theirs.symlink_to(elsewhere)
            return work(*arguments, **options)

        return swap

    monkeypatch.setattr(convert.shutil, "copyfile", swapped(convert.shutil.copyfile))
    monkeypatch.setattr(convert.process, "run", swapped(convert.process.run))
    convert.convert(image, wanted, theirs / "out")
    assert not list(elsewhere.iterdir())
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["out"]
