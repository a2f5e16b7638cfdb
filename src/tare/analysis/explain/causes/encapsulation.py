"""Each packet is put into another one (VXLAN, IPIP, UDP) and taken out again."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.networks import HOST, find

TUNNELS = ("vxlan", "ipip", "tun", "geneve", "gre", "sit", "wireguard")


class Encapsulation:
    """Packets are encapsulated."""

    name = "encapsulation"
    words = "packets are encapsulated (tunnel)"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here = [device for device in evidence.here.words("path") if device in TUNNELS]
        base = [device for device in evidence.base.words("path") if device in TUNNELS]
        plain = find(evidence.here.environment.network).without_encapsulation
        if (here and not base) or (plain and not find(evidence.base.environment.network).without_encapsulation):
            named = f" ({', '.join(here)})" if here else ""
            yield Clue(text=f"its network puts packets into others{named}, the baseline's does not", weight=2.5)

    def change(self, evidence: Evidence) -> Change | None:
        plain = find(evidence.here.environment.network).without_encapsulation
        return changed(evidence, f"the network {plain}, which encapsulates nothing", network=plain) if plain else None

    def remedy(self, evidence: Evidence) -> str:
        plain = find(evidence.here.environment.network).without_encapsulation
        return f"a network without a tunnel (network: {plain or HOST}), or tunnel segmentation offload on the NIC"
