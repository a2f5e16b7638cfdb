"""Looking up names takes time, because the name servers are others than the baseline's and do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import TimeKind

SERVERS: Final = "name_servers"
FILE: Final = "/etc/resolv.conf"
OF_NODE: Final = f"{FILE}:{FILE}:ro"
"""The node's own name servers, as a bind."""


class NamesCause:
    """Names are looked up where nobody answers."""

    name = "name resolution"
    words = "waits for a name server"
    takes = frozenset({TimeKind.SLEEPING})

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here.right(SERVERS), evidence.base.right(SERVERS)
        if not (here and base) or here == base or not evidence.added.is_mostly(TimeKind.SLEEPING):
            return
        yield Clue(text=f"its name servers are {here}, the baseline's {base}", weight=2.0)
        yield Clue(text=f"the added time is {evidence.added.words}", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment = evidence.here.environment
        if OF_NODE in environment.binds or not environment.image:
            return None
        binds = (*(bind for bind in environment.binds if f":{FILE}" not in bind), OF_NODE)
        return changed(evidence, "the node's name servers", binds=binds)

    def remedy(self, evidence: Evidence) -> str:
        return f"name servers that answer (docker run --dns; binds: [{OF_NODE}]), or addresses in place of names"
