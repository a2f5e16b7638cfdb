"""Received packets are handed to other cores (RPS): each hand-over wakes a core, and segments may be reordered."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_link
from tare.analysis.explain.evidence import Evidence, Launches
from tare.analysis.explain.kinds import RUNNING
from tare.runtimes import RUNTIMES


class Steering:
    """Packets are steered to other cores."""

    name = "steering"
    words = "packets handed to other cores"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = _cores_of(evidence.here), _cores_of(evidence.base)
        if here in {base, "off"}:
            return
        yield Clue(text=f"received packets are spread over {here} (RPS); in the baseline: {base}", weight=3.0)
        handed = evidence.more("softnet_received_rps")
        if handed > evidence.here.packets / 10:
            yield Clue(text=f"{handed:.0f} more packets were handed to another core per launch", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment = evidence.here.environment
        if RUNTIMES[environment.runtime].needs_daemon:  # whose containers have a /sys that cannot be written to
            return None
        if environment.link.rps:
            return with_link(evidence, "RPS as in the baseline", rps=evidence.base.environment.link.rps)
        return with_link(evidence, "RPS off", rps="off")

    def remedy(self, evidence: Evidence) -> str:
        return "RPS off: `echo 0 > /sys/class/net/DEV/queues/rx-0/rps_cpus` (link: {rps: off})"


def _cores_of(side: Launches) -> str:
    """Return the cores to which packets are spread on every host; each host of a lab has cores of its own."""
    own = side.of_hosts("rps")
    if not own or "off" in own.values():
        return side.facts.get("rps", "off")
    return ", ".join(dict.fromkeys(own.values()))
