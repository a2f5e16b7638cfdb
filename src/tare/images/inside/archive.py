"""Write an image as a Docker archive (`docker load`) or as an OCI image layout in a tar (OCI Image Format 1.0).

Both have one layer, the packed root file system unchanged, and a configuration with the image's variables. Nothing in
them depends on the time of writing, so the same image gives the same file.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

CREATED: Final = "2023-11-14T22:13:20Z"
"""The latest timestamp of a file in an image that tare builds (`build`), in place of the time of packing."""

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
_BLOCK: Final = 1 << 20
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    total = hashlib.sha256()
    with file.open("rb") as handle:
        while block := handle.read(_BLOCK):
            total.update(block)
    return total.hexdigest()


def architecture() -> str:
    """Return this machine's architecture by its name in images."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def config(layer_sha256: str, variables: Sequence[str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a single-layer image; it starts a shell and nothing else."""
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": CREATED,
        "config": {"Env": list(variables), "Cmd": ["/bin/sh"], "Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
        "history": [{"created": CREATED, "created_by": "tare image"}],
    }


def write_docker_archive(target: Path, layer: Path, configuration: Mapping[str, Any], tag: str) -> None:
    """Write an archive for `docker load`, `podman load` and `apptainer build docker-archive:`."""
    digest = configuration["rootfs"]["diff_ids"][0].removeprefix("sha256:")
    content = _json(configuration)
    name = f"{hashlib.sha256(content).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [f"{digest}.tar"]}]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add_file(archive, f"{digest}.tar", layer)
        _add(archive, name, content)
        _add(archive, "manifest.json", _json(manifest))


def write_oci_layout(target: Path, layer: Path, configuration: Mapping[str, Any], tag: str) -> None:
    """Write an OCI image layout as a tar; `tag` is the name of its only image."""
    digest = configuration["rootfs"]["diff_ids"][0].removeprefix("sha256:")
    content = _json(configuration)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, content),
            "layers": [{"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": layer.stat().st_size}],
        }
    )
    named = {**_descriptor(_MANIFEST, manifest), "annotations": {"org.opencontainers.image.ref.name": tag}}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in (content, manifest):
            _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        _add_file(archive, f"blobs/sha256/{digest}", layer)


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, name: str, file: Path) -> None:
    member = tarfile.TarInfo(name)
    member.size = file.stat().st_size
    with file.open("rb") as handle:
        archive.addfile(member, handle)
