"""Packets pass a packet filter or connection tracking that they do not pass in the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tare.analysis.explain.cause import Change, Clue, changed, with_link
from tare.analysis.explain.evidence import Evidence, Launches, has_daemon
from tare.analysis.explain.kinds import RUNNING
from tare.model import Environment, Tracking
from tare.networks import find
from tare.networks.wiring.plug import Wiring

TRACKED = ("conntrack_entries", "conntrack_found", "conntrack_insert")


class PacketFilter:
    """Packets are filtered or tracked."""

    name = "packet filter"
    words = "packet filter and connection tracking"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here, evidence.base
        by_daemon = _passes(here) and has_daemon(here.environment) and not has_daemon(base.environment)
        filtered = _is_on(here.facts.get("br_netfilter", "")) and not _is_on(base.facts.get("br_netfilter", ""))
        tracked = _is_tracked(here) and not _is_tracked(base)
        entries = evidence.more(*TRACKED) if _passes(here) else 0.0
        if not (by_daemon or filtered or tracked or entries >= 1):
            return
        if tracked or entries >= 1:
            counted = [f"{side.sum('conntrack_entries'):.0f}" for side in (here, base)]
            text = f"{counted[0]} connections are tracked, in the baseline {counted[1]}"
            yield Clue(text=text if entries >= 1 else "connections are tracked, and not in the baseline", weight=2.0)
        if filtered:
            yield Clue(text="frames of its bridge pass the node's packet filter (br_netfilter)", weight=1.5)
        if by_daemon:
            yield Clue(text="a container daemon's rules filter the packets of its node", weight=1.0)
        if here.cell.placement.nodes == 1:
            yield Clue(text="the ranks are on one node and share memory", weight=-2.0)
        if evidence.is_small:
            yield Clue(text="a message is one packet, so what a packet costs shows whole", weight=0.5)
        elif evidence.is_large and evidence.cost > 1.0:
            yield Clue(text="a filter alone more than doubles no transfer of large packets", weight=-1.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment, base = evidence.here.environment, evidence.base.environment
        network = find(environment.network)
        link = environment.link
        is_own = network.wiring is not Wiring.NODE and network.owns_nic
        if is_own and (not has_daemon(environment) or link.conntrack or link.br_netfilter):
            words = "no connection tracking and no packet filter on the bridge"
            unfiltered = _unfiltered(environment, base)
            return with_link(evidence, words, conntrack=_off(link.conntrack), br_netfilter=unfiltered)
        if _passes(evidence.here) and has_daemon(environment) and not has_daemon(base) and not environment.daemon:
            control = replace(base, daemon=environment.runtime)
            return Change(words="the baseline with the daemon running", environment=control, adds=True)
        return changed(evidence, "no daemon", daemon="") if environment.daemon else None

    def remedy(self, evidence: Evidence) -> str:
        if has_daemon(evidence.here.environment):
            return "a runtime without a daemon, or NOTRACK rules for the MPI's ports (nft ... notrack)"
        return "NOTRACK for the MPI's ports and br_netfilter off (link: {conntrack: notrack, br_netfilter: false})"


def _passes(side: Launches) -> bool:
    """Return whether packets of the cell pass the filter of their nodes, where a daemon has its rules."""
    return find(side.environment.network).passes_node or _is_on(side.facts.get("br_netfilter", ""))


def _is_tracked(side: Launches) -> bool:
    """Return whether connections are tracked where packets of the cell pass: on the node, or in the pod."""
    environment = side.environment
    by_itself = environment.link.conntrack is Tracking.TRACK or not has_daemon(environment)
    return _is_on(side.facts.get("conntrack", "")) and (_passes(side) or by_itself)


def _unfiltered(environment: Environment, base: Environment) -> bool | None:
    """Return the setting of br_netfilter that filters nothing: the baseline's, if the study has set another here."""
    if environment.link.br_netfilter != base.link.br_netfilter:
        return base.link.br_netfilter
    return False if find(environment.network).has_bridge else None


def _off(tracking: Tracking) -> Tracking:
    """Return tracking without effect: the setting that the study made is taken back."""
    return Tracking.AS_IT_IS if tracking is Tracking.TRACK else tracking


def _is_on(fact: str) -> bool:
    return bool(fact) and not fact.startswith(("off", "no")) and fact != "0"
