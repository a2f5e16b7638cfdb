"""The largest packet is smaller than in the baseline, or packets are larger than the path and are cut up."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_link
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.networks import find

CUT = ("IpFragCreates", "IpReasmReqds", "IpFragFails", "TcpExtTCPMTUPFail")


class Mtu:
    """The MTU is smaller, or does not fit the path."""

    name = "mtu"
    words = "smaller or mismatched MTU"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = (_mtu(side.facts.get("mtu", "")) for side in (evidence.here, evidence.base))
        cut = evidence.more(*CUT)
        if cut >= 1:
            yield Clue(text=f"{cut:.0f} more packets were cut up or did not fit the path, per launch", weight=2.5)
        if not 0 < here < base:
            return
        share = here / base
        weight = 2.5 if share < 0.9 else 0.5
        yield Clue(text=f"the MTU is {here} here and {base} in the baseline", weight=weight)
        if evidence.is_small:
            yield Clue(text="a message of this size fits either MTU", weight=-2.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment, base = evidence.here.environment, _mtu(evidence.base.facts.get("mtu", ""))
        if not base or not (environment.link.mtu or find(environment.network).owns_nic):
            return None
        wanted = 0 if environment.link.mtu and not evidence.base.environment.link.mtu else base
        return with_link(evidence, f"an MTU of {base}", mtu=wanted)

    def remedy(self, evidence: Evidence) -> str:
        base = _mtu(evidence.base.facts.get("mtu", ""))
        return f"the same MTU on every interface of the path (link: {{mtu: {base}}}), less only a tunnel's header"


def _mtu(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else 0
