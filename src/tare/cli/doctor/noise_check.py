"""Define what a check of `tare doctor --noise` returns, and read the kernel's files for it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

CONFIG_BYTES: Final = 1 << 20


class NoiseState(StrEnum):
    """Whether something disturbs: it does not, it does, it is only stated, or it could not be read."""

    QUIET = "quiet"
    DISTURBS = "disturbs"
    NOTE = "note"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that can disturb: how it is here (`found`), what it costs here, and what changes it.

    `effect` is a measurement of this machine, "" if there is none. `remedy` is a command or a setting, and `rights`
    says who may change it: `user`, `root`, `root and a reboot`, `the host's administrator`. `guarded` sets the name.
    """

    name: str = ""
    state: NoiseState
    found: str
    effect: str = ""
    remedy: str = ""
    rights: str = ""


quiet: Final = partial(Check, state=NoiseState.QUIET)
disturbs: Final = partial(Check, state=NoiseState.DISTURBS)
note: Final = partial(Check, state=NoiseState.NOTE)


@dataclass(frozen=True, slots=True)
class KernelFiles:
    """The files of a machine's kernel below `root`; tests have folders of their own."""

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Return a file's text without blanks at its ends, "" if the kernel has no such file.

        Raises `PermissionError` if the user may not read it.
        """
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except PermissionError:
            raise
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """Return the number in a file, None if there is no such file or no number in it. Raises as `text` does."""
        text = self.text(path)
        return int(text) if text.lstrip("-").isdigit() else None

    def table(self, path: str) -> Mapping[str, int]:
        """Return the numbers of a file with lines `NAME NUMBER`. Raises as `text` does."""
        lines = (line.split() for line in self.text(path).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths below the root that match, in order of their names."""
        return tuple(sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern)))

    def kernel_config(self) -> Mapping[str, str]:
        """Return the options with which the kernel was built, empty if it does not tell them."""
        try:
            with gzip.open(self.root / "proc/config.gz", "rb") as file:
                text = file.read(CONFIG_BYTES).decode(errors="replace")
        except (OSError, EOFError, zlib.error):
            text = self.text(f"boot/config-{self.text('proc/sys/kernel/osrelease')}")
        pairs = (line.partition("=")[::2] for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line)
        return dict(pairs)
