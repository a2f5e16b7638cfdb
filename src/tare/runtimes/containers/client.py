"""Define how commands on a node call a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How commands on a node call a runtime that holds a pod there.

    `programs` has the files of its programs by the names that commands use, `variables` what commands get in their
    environment, `words` the values of the words that they may name (`tare.workloads.answers`). `holds` is a command
    that succeeds only if the daemon that it reaches holds the pod; () if there is no daemon.
    """

    programs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
