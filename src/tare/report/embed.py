"""Embed the script and the style sheet in the page, with a policy that blocks everything else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What the page has besides the report while its study runs: a part of its body, a script and a style."""

    body: Markup
    script: Markup
    style: Markup


@cache
def asset(package: str, path: str) -> Markup:
    """Read a script or style sheet to embed verbatim; closing tags in it are escaped."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # a browser normalises line ends before it hashes
    return Markup(text.replace("</script", "<\\/script").replace("</style", "<\\/style"))  # noqa: S704 - our own files


def policy(*, scripts: Sequence[str], styles: Sequence[str]) -> Markup:
    """Return the Content-Security-Policy, which allows exactly these scripts and style sheets, by their hashes."""
    script, style = (" ".join(f"'sha256-{_hash(text)}'" for text in texts) for texts in (scripts, styles))
    return Markup(  # noqa: S704 - base64
        f"default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
