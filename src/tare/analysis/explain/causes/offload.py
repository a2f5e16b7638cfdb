"""Large packets are cut in software, or early: segmentation and checksum offloads are off."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_link
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.networks.wiring.link import FEATURES

SEGMENTING = ("tso", "gso", "gro")
SMALLER = 0.7
"""A mean packet of less than this share of the baseline's is smaller."""


class Offload:
    """Offloads are off."""

    name = "offload"
    words = "segmentation offload is off"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        off = _off(evidence)
        here, base = evidence.here.packet_bytes, evidence.base.packet_bytes
        if not any(word in SEGMENTING for word in off):
            return
        yield Clue(text=f"off here and on in the baseline: {', '.join(off)}", weight=2.0)
        if 0 < here < SMALLER * base:
            yield Clue(text=f"a packet has {here:.0f} B here and {base:.0f} B in the baseline", weight=1.5)
        if evidence.is_small:
            yield Clue(text="a message of this size is one packet, which nothing cuts", weight=-2.0)
        elif evidence.is_large:
            yield Clue(text="the metric is about messages of many packets", weight=0.5)

    def change(self, evidence: Evidence) -> Change | None:
        of_base = evidence.base.environment.link.offloads
        if evidence.here.environment.link.offloads != of_base:
            return with_link(evidence, "offloads as in the baseline", offloads=of_base)
        words = [word for word in _off(evidence) if word in FEATURES]
        return with_link(evidence, f"{', '.join(words)} on", offloads=tuple(f"{word}=on" for word in words))

    def remedy(self, evidence: Evidence) -> str:
        return "`ethtool -K DEV tso on gso on gro on` in the container's network (link: {offloads: on})"


def _off(evidence: Evidence) -> list[str]:
    """Return the offloads that are off here and on in the baseline."""
    base = evidence.base.words("offloads")
    words = [word.removesuffix(" off") for word in evidence.here.words("offloads") if word.endswith(" off")]
    return [word for word in words if f"{word} on" in base]
