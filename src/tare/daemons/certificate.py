"""Make the certificate by which a lab's daemons recognise each other, and nobody else (mutual TLS).

A certificate is its own authority, and valid for servers and clients. Its key is held by root's daemons of one lab
alone, which are on one machine: keys of their own would keep nothing from each other. No container sees the file.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from tare.system.packages import install
from tare.system.process import find, run

KEY: Final = "tls.key"
CERTIFICATE: Final = "tls.crt"
FILES: Final[Mapping[str, str]] = {"cafile": CERTIFICATE, "certfile": CERTIFICATE, "keyfile": KEY}
"""What a client of etcd is told, by the ends of its options' names."""
DAYS: Final = 3650


def probe() -> str | None:
    """Return that openssl is missing and how to install it, or None."""
    return None if find("openssl") else f"openssl is not installed: {install('openssl')}"


def make(folder: Path, subject: str, addresses: Collection[str], names: Collection[str] = ()) -> None:
    """Write a new key and its certificate for servers with these addresses and names into a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / KEY).touch(mode=0o600)
    servers = ",".join((*(f"IP:{each}" for each in addresses), *(f"DNS:{each}" for each in names)))
    argv = (
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", str(DAYS), "-subj", subject, "-keyout", str(folder / KEY), "-out", str(folder / CERTIFICATE),
        "-addext", f"subjectAltName={servers}", "-addext", "extendedKeyUsage=serverAuth,clientAuth",
        "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
    )  # fmt: skip
    run(argv, what="making the certificate of a lab's daemons")


def copy(source: Path, target: Path) -> None:
    """Give the key and certificate in a folder to another node's daemons."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (KEY, CERTIFICATE):
        (target / name).touch(mode=0o600)
        (target / name).write_bytes((source / name).read_bytes())


def context(folder: Path) -> ssl.SSLContext:
    """Return what a client needs to reach a server of the same certificate."""
    made = ssl.create_default_context(cafile=str(folder / CERTIFICATE))
    made.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    return made
